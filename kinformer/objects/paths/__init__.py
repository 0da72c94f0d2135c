"""Paths to values in objects, in the dialect of kubectl and CRDs, and the parts of objects that some paths keep.

Reading order: syntax, json_path, projection, printing.
Tests: tests/objects/test_recorded_paths.py, tests/wire/test_field_packing.py.
"""
