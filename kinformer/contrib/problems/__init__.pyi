# The public names of this package. `__init__.py` reads this file.

from kinformer.contrib.problems.collection import Problems as Problems
from kinformer.contrib.problems.look import is_custom as is_custom
from kinformer.contrib.problems.problem import Owner as Owner
from kinformer.contrib.problems.problem import Problem as Problem
from kinformer.contrib.problems.problem import Severity as Severity
from kinformer.contrib.problems.problem import by_severity as by_severity
from kinformer.contrib.problems.rules import RULES as RULES
from kinformer.contrib.problems.rules import Rule as Rule
