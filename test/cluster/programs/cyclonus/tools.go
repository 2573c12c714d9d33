//go:build tools

// Package tools keeps cyclonus in go.mod: nothing of it is linked into Drawbridge.
package tools

import _ "github.com/mattfenwick/cyclonus/cmd/cyclonus"
