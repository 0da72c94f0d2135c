"""Proofs that the cache of an informer is current, and confirmed reads.

Owns: the moment of the newest proof.
May import: `reflector`, `processor` and below.
Reading order: proof, freshness, confirm.
"""
