//go:build !crio_1_24

package main

import (
	"context"

	"github.com/cri-o/ocicni/pkg/ocicni"
)

func runtimeConfig(p pod) ocicni.RuntimeConfig {
	return ocicni.RuntimeConfig{
		PortMappings:   p.PortMappings,
		Bandwidth:      p.Bandwidth,
		CgroupPath:     p.CgroupPath,
		PodAnnotations: &p.Annotations,
	}
}

func gc(plugin ocicni.CNIPlugin, valid []ocicni.PodNetwork) error {
	pods := make([]*ocicni.PodNetwork, 0, len(valid))
	for i := range valid {
		pods = append(pods, &valid[i])
	}
	return plugin.GC(context.Background(), pods)
}
