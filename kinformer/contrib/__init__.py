"""Integrations with other libraries, each installed by an extra. The core does not import them."""
