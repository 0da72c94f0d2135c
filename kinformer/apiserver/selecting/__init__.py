"""Which objects a request selects: by namespace, labels, fields and shards, as an API server parses and applies them.

Reading order: names, selection, fields, filters, shards.
"""
