"""The admission plugins that look at other objects: priorities, runtime classes, limits, policies and quotas.

Owns what was compiled of policies. May import: `rules`, `store`, `cel`, `codec`, `kinds`. Read `attributes`, `plugins`,
then any.
"""
