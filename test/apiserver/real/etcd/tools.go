//go:build tools

// Package tools keeps etcd in go.mod: nothing of it is linked into Drawbridge.
package tools

import _ "go.etcd.io/etcd/server/v3"
