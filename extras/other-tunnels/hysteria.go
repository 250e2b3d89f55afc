package main

import (
	"errors"
	"io"
	"log"
	"net"

	"github.com/apernet/hysteria/core/v2/client"
	"github.com/apernet/hysteria/core/v2/server"
)

// Lets everybody in.
type anybody struct{}

func (anybody) Authenticate(net.Addr, string, uint64) (bool, string) { return true, "lab" }

// Connects to servers.
type outbound struct{}

func (outbound) TCP(address string) (net.Conn, error) {
	connected, err := net.Dial("tcp", address)
	return &lasting{connected, make(chan struct{})}, err
}

func (outbound) UDP(string) (server.UDPConn, error) { return nil, errors.New("no UDP here") }

func (outbound) CheckUDP(string) error { return errors.New("no UDP here") }

// A connection whose end is seen when the other direction has ended, too. Hysteria closes both
// as soon as one has, and a client's last alert would be lost.
type lasting struct {
	net.Conn
	closed chan struct{}
}

func (lasting *lasting) Read(buffer []byte) (int, error) {
	length, err := lasting.Conn.Read(buffer)
	if err == io.EOF {
		<-lasting.closed
	}
	return length, err
}

func (lasting *lasting) Close() error {
	close(lasting.closed)
	return lasting.Conn.Close()
}

func hysteriaServer(given options) error {
	certificate, err := certificate()
	if err != nil {
		return err
	}
	socket, err := net.ListenPacket("udp", given.listen)
	if err != nil {
		return err
	}
	config := &server.Config{Conn: socket, Authenticator: anybody{}, Outbound: outbound{}, DisableUDP: true}
	config.TLSConfig.Certificates = append(config.TLSConfig.Certificates, certificate)
	server, err := server.NewServer(config)
	if err != nil {
		return err
	}
	ready()
	return server.Serve()
}

func hysteriaClient(given options) error {
	peer, err := net.ResolveUDPAddr("udp", given.peer)
	if err != nil {
		return err
	}
	config := &client.Config{ServerAddr: peer, FastOpen: true}
	config.TLSConfig.ServerName = "tunnel"
	config.TLSConfig.InsecureSkipVerify = true
	config.BandwidthConfig.MaxTx = given.up / 8
	config.BandwidthConfig.MaxRx = given.down / 8
	connected, _, err := client.NewClient(config)
	if err != nil {
		return err
	}
	return serve(given.listen, func(near *net.TCPConn) {
		defer near.Close()
		far, err := connected.TCP(given.to)
		if err != nil {
			log.Print(err)
			return
		}
		ended := make(chan struct{})
		go func() {
			io.Copy(near, far)
			near.CloseWrite()
			close(ended)
		}()
		io.Copy(far, near)
		far.Close()
		<-ended
	})
}
