"""Fleets: clusters that come and go, and unions of their objects.

Owns the clients and factories of the clusters, each from when it is wanted until it is left, and the unions whose
members they are. Which clusters there are is told by a source: the program, a kubeconfig, or Secrets in a hub.

May import: `derived`, `informer` and below.
Reading order: fleet, unions, roster, keeper; sources, kubeconfig, secrets; metrics.
"""
