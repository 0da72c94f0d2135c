# The public names of this package. `__init__.py` reads this file.

from kinformer.cache.indexer import Indexer as Indexer
from kinformer.cache.lister import Lister as Lister
from kinformer.cache.namespace_index import NAMESPACE_INDEX as NAMESPACE_INDEX
from kinformer.cache.namespace_index import meta_namespace_index_func as meta_namespace_index_func
from kinformer.cache.page import Page as Page
from kinformer.cache.store import Store as Store
