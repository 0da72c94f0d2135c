"""The functions that an expression may call: CEL's own, its extensions, and those of Kubernetes.

May import: the modules of `kinformer.testing.cel` up to `functions`. Read `standard`, then any.
"""
