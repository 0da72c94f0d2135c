"""Shows the version of kinformer beside its name, in the header of the site and in the titles of pages."""

from __future__ import annotations

from mkdocs.config.defaults import MkDocsConfig

from kinformer import __version__


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the version to the name of the site."""
    config.site_name = f"{config.site_name} {__version__}"
    return config
