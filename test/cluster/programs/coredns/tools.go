//go:build tools

// Package tools keeps CoreDNS in go.mod: nothing of it is linked into Drawbridge.
package tools

import _ "github.com/coredns/coredns"
