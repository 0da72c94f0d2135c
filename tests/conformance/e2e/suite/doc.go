// Package e2e pins Kubernetes' own end-to-end tests and the programs that they need beside a kube-apiserver.
package e2e
