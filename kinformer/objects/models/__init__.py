"""Models: JSON as instances of a type, and objects that have one.

Tests: tests/objects/test_kept_models.py, tests/informer/test_typed_informer.py.
"""
