"""The rows of tables of built-in kinds, as an API server prints them: a cell for each column of `columns.json`.

The rules are from kubernetes, pkg/printers/internalversion/printers.go. Reading order: cells, workloads, network,
storage, policy, rows.
"""
