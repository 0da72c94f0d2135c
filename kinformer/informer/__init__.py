"""The shared informer and its factory: the only place that wires reflectors, queue, processor, cache and handlers.

May import: everything below it.
Reading order: informer, factory, options, wait_for.
"""
