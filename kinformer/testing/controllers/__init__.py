"""Doubles of a cluster's controllers, scheduler and kubelets, which write to the embedded server.

Each is a small version of a controller in kubernetes (pkg/controller), and decides without awaiting.

Reading order: cluster, manager, then any other.
Tests: tests/apiserver/test_controllers.py, tests/conformance/test_controllers.py.
"""
