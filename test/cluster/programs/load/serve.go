package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	question   = "who\n"
	answer     = "me\n"
	lastAnswer = "me, no longer\n"
)

// serve answers until SIGTERM. After that it accepts no new connections, and closes each existing one after its next
// answer.
func serve(port string) {
	listener, err := net.Listen("tcp", ":"+port)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var isEnding atomic.Bool
	var open sync.WaitGroup
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			open.Add(1)
			go func() {
				defer open.Done()
				defer connection.Close()
				answerAll(connection, &isEnding)
			}()
		}
	}()
	<-ended
	isEnding.Store(true)
	listener.Close()
	finished := make(chan struct{})
	go func() { open.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-time.After(3 * time.Second):
	}
}

func answerAll(connection net.Conn, isEnding *atomic.Bool) {
	reader := bufio.NewReader(connection)
	for {
		if _, err := reader.ReadString('\n'); err != nil {
			return
		}
		text := answer
		if isEnding.Load() {
			text = lastAnswer
		}
		if _, err := connection.Write([]byte(text)); err != nil || text == lastAnswer {
			return
		}
	}
}
