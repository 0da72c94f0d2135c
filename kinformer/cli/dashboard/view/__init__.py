"""What a page shows: the objects of one resource as rows, in pages, or the pods by node. All of it is computed here.

Read in this order: `rows` (an object becomes cells), `order` (filter and sort), `node_map`, `stream` (what is sent).
Tests: tests/cli/test_dashboard.py, tests/cli/test_dashboard_api.py.
"""
