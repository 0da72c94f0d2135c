# The public names of this package. `__init__.py` reads this file.

from kinformer.listwatch.list_watch import ListWatch as ListWatch
