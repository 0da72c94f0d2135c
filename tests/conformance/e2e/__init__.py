"""Runs Kubernetes' own end-to-end suite against the embedded server and against a real control plane."""
