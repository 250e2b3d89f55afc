package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"log"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/quic-go/quic-go"
)

// What a compressor can refer back to: more than a day of handshakes.
const window = 8 << 20

// On a thin line a flight of the handshake takes longer than the five seconds that quic-go waits for one, and the probes for
// larger datagrams would be most of what crosses.
var quicConfig = &quic.Config{HandshakeIdleTimeout: time.Minute, MaxIdleTimeout: 24 * time.Hour, DisablePathMTUDiscovery: true}

func zstdServer(given options) error {
	certificate, err := certificate()
	if err != nil {
		return err
	}
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, NextProtos: []string{"zstd"}}
	listener, err := quic.ListenAddr(given.listen, config, quicConfig)
	if err != nil {
		return err
	}
	ready()
	for {
		connection, err := listener.Accept(context.Background())
		if err != nil {
			return err
		}
		go func() {
			stream, err := connection.AcceptStream(context.Background())
			if err != nil {
				log.Print(err)
				return
			}
			log.Print(newShared(stream).read())
		}()
	}
}

func zstdClient(given options) error {
	config := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"zstd"}}
	connection, err := quic.DialAddr(context.Background(), given.peer, config, quicConfig)
	if err != nil {
		return err
	}
	stream, err := connection.OpenStreamSync(context.Background())
	if err != nil {
		return err
	}
	shared := newShared(stream)
	go func() { log.Fatal(shared.read()) }()
	var last atomic.Uint32
	return serve(given.listen, func(near *net.TCPConn) {
		number := last.Add(1)
		shared.add(number, near)
		// The address goes first, and nothing waits for an answer.
		shared.frame(number, []byte(given.to))
		shared.send(number, near)
	})
}

// One compressed stream that many connections share. Frames: number of the connection (4 bytes),
// length (2 bytes), so many bytes; the first of a connection is the address to connect to, one of
// length 0 ends a direction.
type shared struct {
	stream io.ReadWriter
	mutex  sync.Mutex
	packer *zstd.Encoder
	flows  map[uint32]*net.TCPConn
}

func newShared(stream io.ReadWriter) *shared {
	packer, err := zstd.NewWriter(stream, zstd.WithWindowSize(window),
		zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		log.Fatal(err)
	}
	return &shared{stream: stream, packer: packer, flows: map[uint32]*net.TCPConn{}}
}

func (shared *shared) add(number uint32, flow *net.TCPConn) {
	shared.mutex.Lock()
	defer shared.mutex.Unlock()
	shared.flows[number] = flow
}

// Carries one direction of a connection.
func (shared *shared) send(number uint32, flow *net.TCPConn) {
	buffer := make([]byte, 16<<10)
	for {
		length, err := flow.Read(buffer)
		if length > 0 {
			shared.frame(number, buffer[:length])
		}
		if err != nil {
			shared.frame(number, nil)
			return
		}
	}
}

func (shared *shared) frame(number uint32, bytes []byte) {
	head := binary.BigEndian.AppendUint32(nil, number)
	head = binary.BigEndian.AppendUint16(head, uint16(len(bytes)))
	shared.mutex.Lock()
	defer shared.mutex.Unlock()
	shared.packer.Write(append(head, bytes...))
	shared.packer.Flush()
}

// What comes from the other side, until the stream ends.
func (shared *shared) read() error {
	decoder, err := zstd.NewReader(shared.stream, zstd.WithDecoderMaxWindow(window),
		zstd.WithDecoderConcurrency(1))
	if err != nil {
		return err
	}
	reader := bufio.NewReader(decoder)
	for {
		var head [6]byte
		if _, err := io.ReadFull(reader, head[:]); err != nil {
			return err
		}
		number := binary.BigEndian.Uint32(head[:4])
		bytes := make([]byte, binary.BigEndian.Uint16(head[4:]))
		if _, err := io.ReadFull(reader, bytes); err != nil {
			return err
		}
		shared.mutex.Lock()
		flow, known := shared.flows[number]
		shared.mutex.Unlock()
		switch {
		case !known:
			connected, err := net.Dial("tcp", string(bytes))
			if err != nil {
				log.Print(err)
				continue
			}
			flow := connected.(*net.TCPConn)
			shared.add(number, flow)
			go shared.send(number, flow)
		case len(bytes) > 0:
			flow.Write(bytes)
		default:
			flow.CloseWrite()
		}
	}
}
