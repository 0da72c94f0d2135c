"""Credentials, which renew themselves and never reveal their secret.

Reading order: credential, exec_plugin, library_provider.
"""
