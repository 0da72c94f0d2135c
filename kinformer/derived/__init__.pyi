# The public names of this package. `__init__.py` reads this file.

from kinformer.derived.collection import DerivedCollection as DerivedCollection
from kinformer.derived.entries import Joined as Joined
from kinformer.derived.fetch import Fetch as Fetch
from kinformer.derived.metrics import DerivedStatistics as DerivedStatistics
from kinformer.derived.short_forms import UnionCollection as UnionCollection
from kinformer.derived.short_forms import derive as derive
from kinformer.derived.short_forms import filtered as filtered
from kinformer.derived.short_forms import group_by as group_by
from kinformer.derived.short_forms import join as join
from kinformer.derived.short_forms import mapped as mapped
from kinformer.derived.short_forms import union as union
