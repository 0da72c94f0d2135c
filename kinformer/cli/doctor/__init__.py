"""`kinformer doctor`: checks, step by step, that a resource can be listed and watched.

May import: `output` and the modules at the top of `kinformer.cli`.
Tests: tests/cli/test_doctor.py, tests/cli/test_doctor_manifest.py, tests/conformance/test_cli_doctor.py.
"""
