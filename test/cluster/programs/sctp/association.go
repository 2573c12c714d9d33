package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"time"
)

const (
	retransmission = 500 * time.Millisecond
	longestPacket  = 1500
	// The range from which Linux takes clients' ports.
	firstPort, portCount = 32768, 28232
	cookieLength         = 8
)

// connect sets up an association with a host and port and ends it again. Its errors have the form of agnhost's connect.
func connect(target string, timeout time.Duration) error {
	host, word, err := net.SplitHostPort(target)
	if err != nil {
		return fmt.Errorf("OTHER: %w", err)
	}
	port, err := strconv.ParseUint(word, 10, 16)
	if err != nil {
		return fmt.Errorf("OTHER: %w", err)
	}
	address, err := net.ResolveIPAddr("ip", host)
	if err != nil {
		return fmt.Errorf("DNS: %w", err)
	}
	connection, err := net.DialIP(network(address), nil, address)
	if err != nil {
		return fmt.Errorf("OTHER: %w", err)
	}
	defer connection.Close()
	client := client{
		connection: connection,
		source:     uint16(firstPort + rand.N(portCount)),
		port:       uint16(port),
		tag:        rand.Uint32() | 1,
	}
	if timeout > 0 {
		client.end = time.Now().Add(timeout)
	}
	return client.associate()
}

func network(address *net.IPAddr) string {
	if address.IP.To4() != nil {
		return "ip4:132"
	}
	return "ip6:132"
}

// client is one end of an association. Its socket gets every SCTP packet from the server's address.
type client struct {
	connection   *net.IPConn
	source, port uint16
	tag          uint32
	end          time.Time
}

func (c client) associate() error {
	answer, err := c.exchange(packet{chunk: initiation, value: initiationValue(c.tag, nil)}, initiationAck)
	if err != nil {
		return err
	}
	peer, hasTag := initiationTag(answer.value)
	cookie, hasCookie := cookieOf(answer.value)
	if !hasTag || !hasCookie {
		return errors.New("OTHER: INIT ACK without a tag or a cookie")
	}
	if _, err = c.exchange(packet{tag: peer, chunk: cookieEcho, value: cookie}, cookieAck); err != nil {
		return err
	}
	return c.send(packet{tag: peer, chunk: abort})
}

// exchange repeats a packet until its answer arrives.
func (c client) exchange(request packet, answer uint8) (packet, error) {
	data := make([]byte, longestPacket)
	for {
		if err := c.send(request); err != nil {
			return packet{}, err
		}
		next := time.Now().Add(retransmission)
		if !c.end.IsZero() && c.end.Before(next) {
			next = c.end
		}
		if err := c.connection.SetReadDeadline(next); err != nil {
			return packet{}, fmt.Errorf("OTHER: %w", err)
		}
		for {
			length, _, err := c.connection.ReadFromIP(data)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return packet{}, fmt.Errorf("REFUSED: %w", err)
			}
			got, isWhole := parse(data[:length])
			if !isWhole || got.source != c.port || got.destination != c.source || got.tag != c.tag {
				continue
			}
			if got.chunk == abort {
				return packet{}, errors.New("REFUSED")
			}
			if got.chunk == answer {
				return got, nil
			}
		}
		if !c.end.IsZero() && !time.Now().Before(c.end) {
			return packet{}, errors.New("TIMEOUT")
		}
	}
}

func (c client) send(p packet) error {
	p.source, p.destination = c.source, c.port
	if _, err := c.connection.Write(p.bytes()); err != nil {
		return fmt.Errorf("OTHER: %w", err)
	}
	return nil
}

// listen answers the handshakes of clients at these ports, in both families, and does not return without an error.
func listen(ports map[uint16]bool) error {
	failed := make(chan error)
	for _, family := range []string{"ip4:132", "ip6:132"} {
		connection, err := net.ListenIP(family, nil)
		if err != nil {
			return err
		}
		go func() { failed <- answerAll(connection, ports) }()
	}
	return <-failed
}

func answerAll(connection *net.IPConn, ports map[uint16]bool) error {
	data := make([]byte, longestPacket)
	for {
		length, peer, err := connection.ReadFromIP(data)
		if err != nil {
			return err
		}
		request, isWhole := parse(data[:length])
		if !isWhole || !ports[request.destination] {
			continue
		}
		if answer, isAnswered := answerTo(request); isAnswered {
			// A peer without an answer repeats its request.
			_, _ = connection.WriteToIP(answer.bytes(), peer)
		}
	}
}

// answerTo keeps no state, as RFC 9260 demands of a listener: the cookie has both tags.
func answerTo(request packet) (packet, bool) {
	answer := packet{source: request.destination, destination: request.source}
	switch request.chunk {
	case initiation:
		tag, hasTag := initiationTag(request.value)
		if !hasTag || request.tag != 0 {
			return packet{}, false
		}
		own := rand.Uint32() | 1
		cookie := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, tag), own)
		answer.tag, answer.chunk, answer.value = tag, initiationAck, initiationValue(own, cookie)
		return answer, true
	case cookieEcho:
		if len(request.value) != cookieLength || binary.BigEndian.Uint32(request.value[4:]) != request.tag {
			return packet{}, false
		}
		answer.tag, answer.chunk = binary.BigEndian.Uint32(request.value), cookieAck
		return answer, true
	default:
		return packet{}, false
	}
}
