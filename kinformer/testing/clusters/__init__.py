"""Real clusters to test against: a control plane of etcd and kube-apiserver, or an existing cluster.

May import: `kinds`, `kinformer.testing.logins`.
Tests: tests/apiserver/test_child_processes.py, tests/apiserver/test_control_plane_assets.py,
tests/conformance/test_control_plane.py.
"""
