"""Proofs that the cache of an informer is current, and confirmed reads.

Owns: the moment of the newest proof.
May import: `reflector`, `processor` and below.
Reading order: proof, freshness, confirm.
Tests: tests/informer/test_confirm.py, tests/informer/test_confirm_properties.py, tests/informer/test_polling.py.
"""
