package main

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// record is one line of the output. Times are milliseconds since 1970.
type record struct {
	Time int64  `json:"time"`
	Kind string `json:"kind"`
	// For a failure: the address, the failed stage, the kernel's error, and the milliseconds that it took.
	Address string `json:"address,omitempty"`
	Stage   string `json:"stage,omitempty"`
	Error   string `json:"error,omitempty"`
	Took    int64  `json:"took,omitempty"`
	// For a second: the counts of its attempts and events.
	Attempts  int `json:"attempts,omitempty"`
	Exchanges int `json:"exchanges,omitempty"`
	Moved     int `json:"moved,omitempty"`
}

// records writes failures when they happen and sums once a second.
type records struct {
	mutex sync.Mutex
	file  *os.File
	sum   record
}

func openRecords(path string) (*records, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	all := &records{file: file}
	all.sum.Time = time.Now().UnixMilli()
	go func() {
		for range time.Tick(time.Second) {
			all.count(func(sum *record) {
				sum.Kind = "second"
				all.write(*sum)
				*sum = record{Time: time.Now().UnixMilli()}
			})
		}
	}()
	return all, nil
}

func (all *records) count(change func(sum *record)) {
	all.mutex.Lock()
	defer all.mutex.Unlock()
	change(&all.sum)
}

func (all *records) write(one record) {
	line, err := json.Marshal(one)
	if err != nil {
		panic(err)
	}
	if _, err := all.file.Write(append(line, '\n')); err != nil {
		panic(err)
	}
}

// event records an event of a connection, with the time at which the failed operation began.
func (all *records) event(kind, address, stage string, begun time.Time, err error) {
	one := record{Time: begun.UnixMilli(), Kind: kind, Address: address, Stage: stage, Took: time.Since(begun).Milliseconds()}
	if err != nil {
		one.Error = nameOf(err)
	}
	all.mutex.Lock()
	defer all.mutex.Unlock()
	all.write(one)
}

var names = map[syscall.Errno]string{
	syscall.ECONNREFUSED:  "ECONNREFUSED",
	syscall.ECONNRESET:    "ECONNRESET",
	syscall.EHOSTUNREACH:  "EHOSTUNREACH",
	syscall.ENETUNREACH:   "ENETUNREACH",
	syscall.ETIMEDOUT:     "ETIMEDOUT",
	syscall.EPIPE:         "EPIPE",
	syscall.EPERM:         "EPERM",
	syscall.EADDRNOTAVAIL: "EADDRNOTAVAIL",
	syscall.EINVAL:        "EINVAL",
}

// nameOf returns the symbol of the kernel's error, or describes another error.
func nameOf(err error) string {
	var number syscall.Errno
	if errors.As(err, &number) {
		if name, isKnown := names[number]; isKnown {
			return name
		}
		return number.Error()
	}
	var network net.Error
	if errors.As(err, &network) && network.Timeout() {
		return "no answer"
	}
	return strings.TrimSpace(err.Error())
}
