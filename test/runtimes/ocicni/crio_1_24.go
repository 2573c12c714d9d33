//go:build crio_1_24

package main

import (
	"errors"

	"github.com/cri-o/ocicni/pkg/ocicni"
)

func runtimeConfig(p pod) ocicni.RuntimeConfig {
	return ocicni.RuntimeConfig{PortMappings: p.PortMappings, Bandwidth: p.Bandwidth}
}

func gc(ocicni.CNIPlugin, []ocicni.PodNetwork) error {
	return errors.New("this version of ocicni has no GC")
}
