"""Output to a terminal or a pipe: tables, columns, documents, progress, keys, errors, warnings.

May import: `paths`.
Tests: tests/cli/test_text.py, tests/cli/test_output_forms.py, tests/cli/test_terminal.py.
"""
