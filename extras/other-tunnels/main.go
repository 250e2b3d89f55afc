// Tunnels that Tandem is measured beside: Hysteria 2 by its own library, and one QUIC stream that
// zstd compresses as a whole, with a long window. One program in each gateway:
//
//	other-tunnels hysteria|zstd server --listen ADDR:PORT
//	other-tunnels hysteria|zstd client --peer ADDR:PORT --listen ADDR:PORT --to ADDR:PORT
//	    [--up BIT/S] [--down BIT/S]
//
// A client takes TCP connections, and the server connects to the address that the client is told.
// Both say "ready" once they work: a client, when its connection to the server is up.
//
// Is not: for use. Nobody is asked who they are; the lab's namespaces are closed.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"log"
	"math/big"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// What the command line says.
type options struct {
	listen, peer, to string
	// Bits per second; 0 where they are not known.
	up, down uint64
}

// One way to tunnel.
type tunnel struct {
	server func(options) error
	client func(options) error
}

var tunnels = map[string]tunnel{
	"hysteria": {hysteriaServer, hysteriaClient},
	"zstd":     {zstdServer, zstdClient},
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 {
		log.Fatal("usage: other-tunnels hysteria|zstd server|client ...")
	}
	tunnel, known := tunnels[os.Args[1]]
	if !known {
		log.Fatalf("there is no tunnel %q", os.Args[1])
	}
	var given options
	flags := flag.NewFlagSet(os.Args[2], flag.ExitOnError)
	flags.StringVar(&given.listen, "listen", "", "where to listen")
	flags.StringVar(&given.peer, "peer", "", "the server's address")
	flags.StringVar(&given.to, "to", "", "where the server is to connect")
	flags.Uint64Var(&given.up, "up", 0, "rate to the server, bit/s")
	flags.Uint64Var(&given.down, "down", 0, "rate to the client, bit/s")
	flags.Parse(os.Args[3:])
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-ended
		os.Exit(0)
	}()
	run := tunnel.client
	if os.Args[2] == "server" {
		run = tunnel.server
	}
	log.Fatal(run(given))
}

func ready() { fmt.Println("ready") }

// A certificate for this run: ECDSA, as small as can be.
func certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		DNSNames:     []string{"tunnel"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// Takes connections, each of which is carried by itself.
func serve(address string, carry func(*net.TCPConn)) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	ready()
	for {
		near, err := listener.Accept()
		if err != nil {
			return err
		}
		go carry(near.(*net.TCPConn))
	}
}
