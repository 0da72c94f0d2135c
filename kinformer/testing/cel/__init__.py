"""Kubernetes' Common Expression Language: parser, type checker, cost estimation and evaluation.

Owns the cache of compiled rules. May import: `codec`, `kinds`. Read `values`, `types`, `source`, `functions`,
`checker`, `evaluator`, `environment`, then `library`. `schema` has the types of custom
resources, `rules` checks their `x-kubernetes-validations`, and `validation` evaluates them.
Tests: tests/conformance/test_expressions.py, tests/conformance/test_admission.py.
"""
