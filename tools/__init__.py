"""Programs for those who release kinformer (RELEASING.md); no part of the package."""
