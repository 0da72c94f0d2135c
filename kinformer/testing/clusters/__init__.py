"""Real clusters to test against: a control plane of etcd and kube-apiserver, or one that exists already.

May import: `kinds`, `kinformer.testing.logins`.
"""
