"""Built-in rules that every operator must follow, checked in each history.

They own what they have noted of one history. Read `finding`, then `sent` (the request behind a write), the rules one by
one (`lead`, `fields`, `leftovers`), and `rules`, which calls them. A rule prefers to say nothing to blaming an operator
that may be right.
"""
