"""The cache: objects by key and by index, and the read views of it. Containers only; nothing here starts a task.

May import: `objects` and below.
Reading order: store, indexer, index, label_groups, rebuild, lister, key_view.
"""
