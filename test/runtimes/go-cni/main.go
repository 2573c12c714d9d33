// Command go-cni makes one call to containerd's CNI library in the way that containerd does: the verb is the argument,
// the request is JSON on standard input, and the answer is JSON on standard output.
//
// containerd calls Setup when it starts a sandbox, Status when the kubelet asks for the runtime's status, and Remove
// when it stops a sandbox; it loads the loopback network beside the first list of the directory
// (internal/cri/server/sandbox_run.go). It calls neither Check nor GC; Check is here because the library has it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	cni "github.com/containerd/go-cni"
)

type pod struct {
	Name         string            `json:"name"`
	Namespace    string            `json:"namespace"`
	UID          string            `json:"uid"`
	ID           string            `json:"id"`
	NetNS        string            `json:"netns"`
	CgroupPath   string            `json:"cgroupPath"`
	Annotations  map[string]string `json:"annotations"`
	PortMappings []cni.PortMapping `json:"portMappings"`
	Bandwidth    *cni.BandWidth    `json:"bandwidth"`
}

type request struct {
	ConfDir string   `json:"confDir"`
	BinDirs []string `json:"binDirs"`
	Pod     pod      `json:"pod"`
}

func options(p pod) []cni.NamespaceOpts {
	opts := []cni.NamespaceOpts{
		cni.WithLabels(map[string]string{
			"K8S_POD_NAMESPACE":          p.Namespace,
			"K8S_POD_NAME":               p.Name,
			"K8S_POD_INFRA_CONTAINER_ID": p.ID,
			"K8S_POD_UID":                p.UID,
			"IgnoreUnknown":              "1",
		}),
		cni.WithCapability("io.kubernetes.cri.pod-annotations", p.Annotations),
	}
	if len(p.PortMappings) > 0 {
		opts = append(opts, cni.WithCapabilityPortMap(p.PortMappings))
	}
	if p.Bandwidth != nil {
		opts = append(opts, cni.WithCapabilityBandWidth(*p.Bandwidth))
	}
	opts = append(opts, cni.WithCapabilityDNS(cni.DNS{
		Servers:  []string{"10.96.0.10"},
		Searches: []string{"default.svc.cluster.local"},
		Options:  []string{"ndots:5"},
	}))
	if p.CgroupPath != "" {
		opts = append(opts, cni.WithCapability("cgroupPath", p.CgroupPath))
	}
	return opts
}

func run(verb string) error {
	var r request
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		return err
	}
	networks := []cni.Opt{cni.WithLoNetwork, cni.WithDefaultConf}
	if verb == "Check" {
		// The library's loopback network has version 0.3.1, which has no CHECK.
		networks = networks[1:]
	}
	network, err := cni.New(
		cni.WithMinNetworkCount(len(networks)),
		cni.WithPluginConfDir(r.ConfDir),
		cni.WithPluginMaxConfNum(1),
		cni.WithPluginDir(r.BinDirs),
	)
	if err != nil {
		return err
	}
	if err := network.Load(networks...); err != nil {
		return err
	}
	answer, err := call(network, verb, r.Pod)
	if err != nil || answer == nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

func call(network cni.CNI, verb string, p pod) (any, error) {
	ctx := context.Background()
	switch verb {
	case "Setup":
		result, err := network.Setup(ctx, p.ID, p.NetNS, options(p)...)
		if err != nil {
			return nil, err
		}
		// containerd takes the sandbox's addresses from this interface.
		if config, ok := result.Interfaces["eth0"]; !ok || len(config.IPConfigs) == 0 {
			return nil, errors.New("failed to find network info for sandbox")
		}
		return result, nil
	case "Status":
		return nil, network.Status()
	case "Check":
		return nil, network.Check(ctx, p.ID, p.NetNS, options(p)...)
	case "Remove":
		return nil, network.Remove(ctx, p.ID, p.NetNS, options(p)...)
	}
	return nil, errors.New("no such verb: " + verb)
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go-cni Setup|Status|Check|Remove <request.json")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
