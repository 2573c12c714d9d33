// Command sctp is started as agnhost in the containers of upstream's tests. It sets up SCTP associations by raw
// sockets, because the kernels that this project is tested on have no SCTP sockets: agnhost's own listener ends with an
// error there, and every probe fails. For everything else, this program executes agnhost.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	agnhost = "/agnhost-upstream"
	// The argument with which this program starts itself in parallel with agnhost's porter.
	serve = "serve-sctp"
	// The name by which cyclonus starts the program that makes all probes of a pod.
	worker = "worker"
	// The prefix of the variables by which porter learns its SCTP ports.
	portVariable = "SERVE_SCTP_PORT_"
)

func main() {
	args := os.Args[1:]
	switch {
	case filepath.Base(os.Args[0]) == worker:
		fail(work(args))
		return
	case len(args) > 0 && args[0] == serve:
		fail(listen(portsOf(args[1:])))
	case len(args) > 0 && args[0] == "porter":
		fail(serveBeside())
	case len(args) > 0 && args[0] == "connect":
		if probe := readProbe(args[1:]); probe.protocol == "sctp" {
			os.Exit(report(connect(probe.target, probe.timeout)))
		}
	}
	fail(syscall.Exec(agnhost, append([]string{"agnhost"}, args...), os.Environ()))
}

// serveBeside starts a process for the SCTP ports that porter is to serve, and removes them from its environment.
func serveBeside() error {
	ports := []string{serve}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		if port, isPort := strings.CutPrefix(name, portVariable); isPort {
			ports = append(ports, port)
			os.Unsetenv(name)
		}
	}
	if len(ports) == 1 {
		return nil
	}
	child := exec.Command("/proc/self/exe", ports...)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	// It ends with porter, which is the first process of the container's PID namespace.
	return child.Start()
}

func portsOf(words []string) map[uint16]bool {
	ports := map[uint16]bool{}
	for _, word := range words {
		port, err := strconv.ParseUint(word, 10, 16)
		fail(err)
		ports[uint16(port)] = true
	}
	return ports
}

type probe struct {
	protocol, target string
	timeout          time.Duration
}

// readProbe reads the arguments of agnhost's connect. As there, a timeout of 0 means no limit.
func readProbe(args []string) probe {
	found := probe{protocol: "tcp"}
	for index := 0; index < len(args); index++ {
		name, value, hasValue := strings.Cut(args[index], "=")
		if !strings.HasPrefix(name, "--") {
			found.target = name
			continue
		}
		if !hasValue && index+1 < len(args) {
			index++
			value = args[index]
		}
		switch name {
		case "--protocol":
			found.protocol = value
		case "--timeout":
			timeout, err := time.ParseDuration(value)
			fail(err)
			found.timeout = timeout
		}
	}
	return found
}

// report prints the error, by whose first word upstream's tests know the outcome of a probe, and returns the exit code.
func report(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "sctp:", err)
		os.Exit(1)
	}
}
