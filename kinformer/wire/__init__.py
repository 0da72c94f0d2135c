"""Parses the bytes of a response into objects. Nothing here outlives a request or uses a socket.

May import: `objects` and below.
Reading order: lines, list_parser, list_header, documents, expected_type, decoder, fast_path, field_packing, json_scan.
Tests: tests/wire, tests/listwatch/test_expected_type.py.
"""
