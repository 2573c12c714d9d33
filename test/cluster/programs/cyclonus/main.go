// Command cyclonus runs the cases of cyclonus with cyclonus' own generator, model and printer. Unlike cyclonus' command
// `generate`, it makes each pod send all its probes in one command, which the packages support but `generate` has no
// option for, and it does not limit its requests to the API server to five a second.
package main

import (
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/mattfenwick/cyclonus/pkg/connectivity"
	"github.com/mattfenwick/cyclonus/pkg/connectivity/probe"
	"github.com/mattfenwick/cyclonus/pkg/generator"
	"github.com/mattfenwick/cyclonus/pkg/kube"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// The image registry is of no effect, as pods that make probes in batches have an image of their own.
	registry           = "registry.k8s.io"
	podCreationSeconds = 300
	requestsPerSecond  = 200
	longestBurst       = 400
)

var (
	namespaces = []string{"x", "y", "z"}
	pods       = []string{"a", "b", "c"}
	ports      = []int{80, 81}
)

type choice struct {
	include, exclude []string
	protocols        []v1.Protocol
	settling         int
	retries          int
}

func main() {
	include := flag.String("include", "", "only cases with one of these tags")
	exclude := flag.String("exclude", "", "no case with one of these tags")
	protocols := flag.String("server-protocol", "TCP,UDP", "the protocols that pods serve")
	settling := flag.Int("perturbation-wait-seconds", 1, "seconds from a change to its probe")
	retries := flag.Int("retries", 1, "how often probes that differ from the expected ones are repeated")
	flag.Parse()
	err := run(choice{words(*include), words(*exclude), protocolsOf(*protocols), *settling, *retries})
	if err != nil {
		fmt.Fprintf(os.Stderr, "cyclonus: %+v\n", err)
		os.Exit(1)
	}
}

func words(list string) []string {
	return strings.FieldsFunc(list, func(letter rune) bool { return letter == ',' })
}

func protocolsOf(list string) []v1.Protocol {
	var found []v1.Protocol
	for _, word := range words(list) {
		found = append(found, v1.Protocol(word))
	}
	return found
}

func connect() (*kube.Kubernetes, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = requestsPerSecond, longestBurst
	clients, err := kubernetes.NewForConfig(config)
	return &kube.Kubernetes{ClientSet: clients, RestConfig: config}, err
}

func run(chosen choice) error {
	if err := generator.ValidateTags(append(append([]string{}, chosen.include...), chosen.exclude...)); err != nil {
		return err
	}
	cluster, err := connect()
	if err != nil {
		return err
	}
	resources, err := probe.NewDefaultResources(
		cluster, namespaces, pods, ports, chosen.protocols, nil, podCreationSeconds, true, registry)
	if err != nil {
		return err
	}
	interpreter := connectivity.NewInterpreter(cluster, resources, &connectivity.InterpreterConfig{
		ResetClusterBeforeTestCase:       true,
		KubeProbeRetries:                 chosen.retries,
		PerturbationWaitSeconds:          chosen.settling,
		VerifyClusterStateBeforeTestCase: true,
		BatchJobs:                        true,
		IgnoreLoopback:                   true,
	})
	// The cases of IP blocks name this pod's address.
	named, err := resources.GetPod("z", "c")
	if err != nil {
		return err
	}
	cases := generator.NewTestCaseGenerator(true, named.IP, namespaces, chosen.include, chosen.exclude).GenerateTestCases()
	printer := &connectivity.Printer{IgnoreLoopback: true}
	list(cases)
	for index, one := range cases {
		fmt.Printf("starting test case #%d\n", index+1)
		result := interpreter.ExecuteTestCase(one)
		if result.Err != nil {
			return result.Err
		}
		printer.PrintTestCaseResult(result)
		fmt.Printf("finished policy #%d\n", index+1)
	}
	printer.PrintSummary()
	return nil
}

// list prints the cases as cyclonus does.
func list(cases []*generator.TestCase) {
	fmt.Printf("testing %d cases\n\n", len(cases))
	for index, one := range cases {
		fmt.Printf("test #%d: %s\n - tags: %s\n", index+1, one.Description, strings.Join(one.Tags.Keys(), ", "))
	}
}
