"""The rows of tables of built-in kinds, as an API server prints them: a cell for each column of `columns.json`.

The rules are from kubernetes, pkg/printers/internalversion/printers.go. Reading order: cells, workloads, network,
storage, policy, rows.
Tests: tests/conformance/test_recorded_tables.py, tests/cli/test_as_recorded.py.
"""
