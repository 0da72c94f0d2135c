"""Problems of a cluster, as a collection that follows them: what is wrong right now, with its cause and since when.

::

    from kinformer.contrib.problems import Problems

    async with SharedInformerFactory(client) as factory, Problems(factory) as problems:
        await problems.wait_synced(30)
        for problem in problems.lister.list():
            print(problem.severity, problem.owner, problem.message)

The rules for an object are those of `kinformer.kinds`. Reading order: problem, rules, then look, board, findings, rows,
then followed, collection.
Tests: tests/contrib/test_problems.py, tests/contrib/test_problem_rules.py, tests/contrib/test_problems_properties.py.
"""

from kinformer.contrib.problems.collection import Problems
from kinformer.contrib.problems.problem import Owner, Problem, by_severity
from kinformer.contrib.problems.rules import RULES, Rule

__all__ = ["RULES", "Owner", "Problem", "Problems", "Rule", "by_severity"]
