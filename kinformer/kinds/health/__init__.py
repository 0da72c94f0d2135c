"""How well an object is: the rules that find what is wrong with it, and its severity.

A rule looks at one object alone. `kinformer.contrib.problems` applies the rules to a whole cluster, and adds owners,
Events and other objects that explain one. Reading order: diagnosis, pods, workloads, cluster, custom_resources, rules,
severity.
Tests: tests/kinds/test_severity.py, tests/contrib/test_problem_rules.py, tests/contrib/test_problems_of_projects.py.
"""
