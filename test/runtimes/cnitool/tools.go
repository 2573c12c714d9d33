//go:build tools

// Package tools pins cnitool, the command line of the CNI project.
package tools

import _ "github.com/containernetworking/cni/cnitool"
