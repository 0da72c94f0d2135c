"""The functions that expressions may call: CEL's standard functions, its extensions, and Kubernetes' own.

May import: the modules of `kinformer.testing.cel` up to `functions`. Read `standard`, then any.
"""
