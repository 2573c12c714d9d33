//go:build tools

// Package tools keeps kube-apiserver in go.mod: nothing of it is linked into Drawbridge.
package tools

import _ "k8s.io/kubernetes/cmd/kube-apiserver"
