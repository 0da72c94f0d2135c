"""Real clusters to test against: a control plane of etcd and kube-apiserver, or an existing cluster.

May import: `kinds`, `kinformer.testing.logins`.
"""
