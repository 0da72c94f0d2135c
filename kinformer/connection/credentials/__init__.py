"""Credentials, which renew themselves and never reveal their secret.

Reading order: credential, exec_plugin, library_provider, oidc.
Tests: tests/client/test_credential_plugins.py, tests/client/test_oidc.py, tests/client/test_plugin_outputs.py.
"""
