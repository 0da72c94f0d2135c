"""Integrations with other libraries, each behind an extra; the core does not import them."""
