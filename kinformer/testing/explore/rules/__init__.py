"""Built-in rules that every operator must follow, checked in each history.

Each keeps what it has noted of one history. A rule prefers to say nothing to blaming an operator that may be right.
Reading order: finding, sent (the request behind a write), lead, fields, leftovers, then rules, which calls them.

Tests: tests/explore/test_verdicts.py, tests/explore/test_operators.py, tests/explore/test_correct_operators.py.
"""
