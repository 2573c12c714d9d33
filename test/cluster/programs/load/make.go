package main

import (
	"bufio"
	"errors"
	"net"
	"syscall"
	"time"
	"unsafe"
)

const (
	// patience is longer than the time to the kernel's third SYN and shorter than that to its fourth: 1 s, 3 s, 7 s.
	patience = 5 * time.Second
	pause    = 50 * time.Millisecond
)

var errUnexpected = errors.New("another answer")

// connect begins a new connection at each interval, to one address after the other, regardless of the earlier ones.
func connect(addresses []string, interval time.Duration, all *records) {
	ticker := time.NewTicker(interval)
	for turn := 0; ; turn++ {
		<-ticker.C
		if len(addresses) == 0 {
			continue
		}
		all.count(func(sum *record) { sum.Attempts++ })
		go attempt(addresses[turn%len(addresses)], all)
	}
}

func attempt(address string, all *records) {
	begun := time.Now()
	connection, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		all.event("failed", address, "connect", begun, err)
		return
	}
	defer connection.Close()
	if hasRetransmitted(connection) {
		all.event("late", address, "connect", begun, nil)
	}
	if _, err := exchange(connection, bufio.NewReader(connection)); err != nil {
		all.event("failed", address, "exchange", begun, err)
	}
}

// keep exchanges on one connection until it ends, and then on the next one.
func keep(address string, all *records) {
	for {
		begun := time.Now()
		connection, err := net.DialTimeout("tcp", address, patience)
		if err != nil {
			all.event("failed", address, "connect", begun, err)
			time.Sleep(pause)
			continue
		}
		reader := bufio.NewReader(connection)
		for {
			begun = time.Now()
			isLast, err := exchange(connection, reader)
			if err != nil {
				all.event("lost", address, "exchange", begun, err)
				break
			}
			if isLast {
				all.count(func(sum *record) { sum.Moved++ })
				break
			}
			all.count(func(sum *record) { sum.Exchanges++ })
			time.Sleep(pause)
		}
		connection.Close()
	}
}

// exchange sends one question; isLast says that the server closes the connection after its answer.
func exchange(connection net.Conn, reader *bufio.Reader) (isLast bool, err error) {
	if err := connection.SetDeadline(time.Now().Add(2 * patience)); err != nil {
		return false, err
	}
	if _, err := connection.Write([]byte(question)); err != nil {
		return false, err
	}
	line, err := reader.ReadString('\n')
	if err != nil {
		return false, err
	}
	if line != answer && line != lastAnswer {
		return false, errUnexpected
	}
	return line == lastAnswer, nil
}

// hasRetransmitted says whether the kernel had to send the SYN again (tcpi_total_retrans of linux/tcp.h, before any data).
func hasRetransmitted(connection net.Conn) bool {
	const retransmissions = 100
	tcp, isTCP := connection.(*net.TCPConn)
	if !isTCP {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return false
	}
	var information [retransmissions + 4]byte
	size := uint32(len(information))
	var number syscall.Errno
	_ = raw.Control(func(descriptor uintptr) {
		_, _, number = syscall.Syscall6(syscall.SYS_GETSOCKOPT, descriptor, syscall.IPPROTO_TCP, syscall.TCP_INFO,
			uintptr(unsafe.Pointer(&information)), uintptr(unsafe.Pointer(&size)), 0)
	})
	return number == 0 && *(*uint32)(unsafe.Pointer(&information[retransmissions])) != 0
}
