"""The Common Expression Language as Kubernetes has it: parsed, type-checked, priced and evaluated.

Owns the rules that stay compiled. May import: `codec`, `kinds`. Read `values`, `types`, `syntax`, `lexer`, `parser`,
`macros`, `functions`, `checker`, `cost`, `evaluator`, `environment`, then `library`. `schema` has the types of custom
resources, `rules` checks their `x-kubernetes-validations`, and `validation` evaluates them.
"""
