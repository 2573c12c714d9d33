// Command ocicni makes one call to CRI-O's CNI library in the way that CRI-O does: the verb is the argument, the request
// is JSON on standard input, and the answer is JSON on standard output.
//
// CRI-O calls SetUpPod and right after it GetPodNetworkStatus when it starts a sandbox, Status when the kubelet asks
// for the runtime's status, TearDownPod when it stops a sandbox, and GC when it starts (server/sandbox_network.go).
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/cri-o/ocicni/pkg/ocicni"
)

type pod struct {
	Name         string                  `json:"name"`
	Namespace    string                  `json:"namespace"`
	UID          string                  `json:"uid"`
	ID           string                  `json:"id"`
	NetNS        string                  `json:"netns"`
	CgroupPath   string                  `json:"cgroupPath"`
	Annotations  map[string]string       `json:"annotations"`
	PortMappings []ocicni.PortMapping    `json:"portMappings"`
	Bandwidth    *ocicni.BandwidthConfig `json:"bandwidth"`
}

type request struct {
	ConfDir  string   `json:"confDir"`
	CacheDir string   `json:"cacheDir"`
	BinDirs  []string `json:"binDirs"`
	Pod      pod      `json:"pod"`
	// Valid lists the pods that GC keeps.
	Valid []pod `json:"valid"`
}

func network(plugin ocicni.CNIPlugin, p pod) ocicni.PodNetwork {
	name := plugin.GetDefaultNetworkName()
	return ocicni.PodNetwork{
		Name:          p.Name,
		Namespace:     p.Namespace,
		UID:           p.UID,
		ID:            p.ID,
		NetNS:         p.NetNS,
		Networks:      []ocicni.NetAttachment{},
		RuntimeConfig: map[string]ocicni.RuntimeConfig{name: runtimeConfig(p)},
	}
}

func call(plugin ocicni.CNIPlugin, verb string, r request) (any, error) {
	switch verb {
	case "SetUpPod":
		return plugin.SetUpPod(network(plugin, r.Pod))
	case "GetPodNetworkStatus":
		return plugin.GetPodNetworkStatus(network(plugin, r.Pod))
	case "TearDownPod":
		return nil, plugin.TearDownPod(network(plugin, r.Pod))
	case "Status":
		return nil, plugin.Status()
	case "GC":
		valid := make([]ocicni.PodNetwork, 0, len(r.Valid))
		for _, p := range r.Valid {
			valid = append(valid, network(plugin, p))
		}
		return nil, gc(plugin, valid)
	}
	return nil, errors.New("no such verb: " + verb)
}

func run(verb string) error {
	var r request
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		return err
	}
	// CRI-O names no default network unless the administrator does, so the first list by name is used.
	plugin, err := ocicni.InitCNINoInotify("", r.ConfDir, r.CacheDir, r.BinDirs...)
	if err != nil {
		return err
	}
	answer, err := call(plugin, verb, r)
	if err != nil || answer == nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(answer)
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: ocicni SetUpPod|GetPodNetworkStatus|Status|GC|TearDownPod <request.json")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
