package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"
)

// The timeout of each probe in cyclonus' own worker. As there, a lookup may take longer.
const (
	probeTimeout  = time.Second
	lookupTimeout = 5 * time.Second
)

// batch has the fields of the worker's input that this program reads.
type batch struct {
	Requests []request
}

type request struct {
	Key      string
	Protocol string
	Host     string
	Port     int
}

type result struct {
	Request request
	Output  string
	Error   string
}

// work makes all probes of one pod at once, each like agnhost's connect, and prints the outcome of each. Cyclonus' own
// worker starts a process for each probe, ten at a time, and repeats each that fails.
func work(args []string) error {
	if len(args) != 2 || args[0] != "--jobs" {
		return errors.New("expected --jobs and a batch as JSON")
	}
	var jobs batch
	if err := json.Unmarshal([]byte(args[1]), &jobs); err != nil {
		return err
	}
	results := make([]result, len(jobs.Requests))
	ended := make(chan struct{})
	for index, one := range jobs.Requests {
		go func() {
			results[index] = result{Request: one}
			if err := connectBy(one); err != nil {
				results[index].Error = err.Error()
			}
			ended <- struct{}{}
		}()
	}
	for range jobs.Requests {
		<-ended
	}
	return json.NewEncoder(os.Stdout).Encode(results)
}

func connectBy(one request) error {
	address, err := lookUp(one.Host)
	if err != nil {
		return fmt.Errorf("DNS: %w", err)
	}
	target := net.JoinHostPort(address, strconv.Itoa(one.Port))
	switch one.Protocol {
	case "TCP":
		connection, err := net.DialTimeout("tcp", target, probeTimeout)
		if err != nil {
			return err
		}
		return connection.Close()
	case "UDP":
		return exchangeDatagrams(target)
	case "SCTP":
		return connect(target, probeTimeout)
	}
	return fmt.Errorf("unknown protocol %q", one.Protocol)
}

func lookUp(host string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTimeout)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		return "", err
	}
	return addresses[0], nil
}

// exchangeDatagrams asks agnhost's server for its name.
func exchangeDatagrams(target string) error {
	connection, err := net.Dial("udp", target)
	if err != nil {
		return err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(probeTimeout)); err != nil {
		return err
	}
	if _, err := connection.Write([]byte("hostname\n")); err != nil {
		return err
	}
	length, err := connection.Read(make([]byte, longestPacket))
	if err == nil && length == 0 {
		return errors.New("no data")
	}
	return err
}
