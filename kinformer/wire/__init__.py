"""Parses the bytes of a response into objects. Nothing here outlives a request or uses a socket.

May import: `objects` and below.
Reading order: lines, list_parser, documents, expected_type, decoder, fast_path.
"""
