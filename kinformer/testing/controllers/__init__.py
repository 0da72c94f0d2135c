"""Doubles of a cluster's controllers, scheduler and kubelets, which write to the embedded server.

Each is a small version of kube-controller-manager's (kubernetes, pkg/controller) and decides without awaiting.

Reading order: cluster, manager, then any other.
"""
