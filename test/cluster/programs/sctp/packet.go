package main

import (
	"encoding/binary"
	"hash/crc32"
)

// Types of chunks (RFC 9260, section 3.2).
const (
	initiation    = 1
	initiationAck = 2
	abort         = 6
	cookieEcho    = 10
	cookieAck     = 11
)

const (
	headerLength = 12
	// A chunk's own header: type, flags, length.
	chunkHeader = 4
	// The fixed part of INIT and INIT ACK after the chunk's header (sections 3.3.2 and 3.3.3).
	initiationLength = 16
	stateCookie      = 7
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// packet is an SCTP packet of one chunk.
type packet struct {
	source, destination uint16
	// The receiver's verification tag; 0 in a packet with INIT.
	tag   uint32
	chunk uint8
	value []byte
}

// bytes returns the packet with its checksum.
func (p packet) bytes() []byte {
	length := chunkHeader + len(p.value)
	data := make([]byte, headerLength+(length+3)/4*4)
	binary.BigEndian.PutUint16(data[0:], p.source)
	binary.BigEndian.PutUint16(data[2:], p.destination)
	binary.BigEndian.PutUint32(data[4:], p.tag)
	data[headerLength] = p.chunk
	binary.BigEndian.PutUint16(data[headerLength+2:], uint16(length))
	copy(data[headerLength+chunkHeader:], p.value)
	binary.LittleEndian.PutUint32(data[8:], crc32.Checksum(data, castagnoli))
	return data
}

// parse reads a packet's first chunk. It refuses a truncated packet and one with a wrong checksum: no other program
// checks that, so a NAT that changes the ports but not the checksum is found here.
func parse(data []byte) (packet, bool) {
	if len(data) < headerLength+chunkHeader {
		return packet{}, false
	}
	checksum := binary.LittleEndian.Uint32(data[8:])
	copied := append([]byte(nil), data...)
	binary.LittleEndian.PutUint32(copied[8:], 0)
	length := int(binary.BigEndian.Uint16(data[headerLength+2:]))
	if checksum != crc32.Checksum(copied, castagnoli) || length < chunkHeader || headerLength+length > len(data) {
		return packet{}, false
	}
	return packet{
		source:      binary.BigEndian.Uint16(data[0:]),
		destination: binary.BigEndian.Uint16(data[2:]),
		tag:         binary.BigEndian.Uint32(data[4:]),
		chunk:       data[headerLength],
		value:       copied[headerLength+chunkHeader : headerLength+length],
	}, true
}

// initiationValue returns the value of INIT or INIT ACK: the sender's tag, its window, one stream in each direction, and
// the number of its first data chunk; INIT ACK also has a cookie.
func initiationValue(tag uint32, cookie []byte) []byte {
	value := make([]byte, initiationLength)
	binary.BigEndian.PutUint32(value[0:], tag)
	binary.BigEndian.PutUint32(value[4:], 65536)
	binary.BigEndian.PutUint16(value[8:], 1)
	binary.BigEndian.PutUint16(value[10:], 1)
	binary.BigEndian.PutUint32(value[12:], 1)
	if cookie == nil {
		return value
	}
	value = binary.BigEndian.AppendUint16(value, stateCookie)
	value = binary.BigEndian.AppendUint16(value, uint16(chunkHeader+len(cookie)))
	return append(value, cookie...)
}

// initiationTag returns the sender's tag from the value of INIT or INIT ACK.
func initiationTag(value []byte) (uint32, bool) {
	if len(value) < initiationLength {
		return 0, false
	}
	return binary.BigEndian.Uint32(value), true
}

// cookieOf returns the cookie from the value of INIT ACK; this program's listener puts it first.
func cookieOf(value []byte) ([]byte, bool) {
	if len(value) < initiationLength+chunkHeader {
		return nil, false
	}
	parameter := value[initiationLength:]
	length := int(binary.BigEndian.Uint16(parameter[2:]))
	if binary.BigEndian.Uint16(parameter) != stateCookie || length < chunkHeader || length > len(parameter) {
		return nil, false
	}
	return parameter[chunkHeader:length], true
}
