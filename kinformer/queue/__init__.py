"""The queue between a reflector and the processor: changes that have not been applied yet.

May import: `cache` and below.
Reading order: delta, delta_fifo, writer.
"""
