"""The reflector: lists a source, watches from there, and recovers from every failure.

Owns how far the source was followed.

May import: `listwatch`, `cache` and below.
Reading order: reflector, recovery, watch, relist, watch_list, continuity.
"""
