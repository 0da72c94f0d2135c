"""An expression as text, and the tree that is read from it.

Owns no state. May import: `cel.values`, `cel.types`. Read `syntax`, `lexer`, `macros`, `parser`.
Tests: tests/conformance/test_expressions.py.
"""
