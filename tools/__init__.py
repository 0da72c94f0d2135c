"""Programs for releasing kinformer (RELEASING.md); not part of the package."""
