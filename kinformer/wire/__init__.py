"""Parsing: from the bytes of a response to objects. Nothing here outlives a request or touches a socket.

May import: `objects` and below.
Reading order: lines, list_parser, decoder, fast_path.
"""
