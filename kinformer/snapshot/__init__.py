"""Snapshots: the cache in a file, so that a restart resumes without a list.

May import: `reflector`, `listwatch`, `cache` and below.
Reading order: option, keeper, loader, file, format.
"""
