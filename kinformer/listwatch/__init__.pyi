# The public names of this package. `__init__.py` reads this file.

from kinformer.listwatch.http_source import ListWatch as ListWatch
