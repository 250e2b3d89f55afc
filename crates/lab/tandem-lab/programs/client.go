// A TLS client on Go's crypto/tls. Asks for /trial over HTTP/1.0.
//
//	client ADDRESS:PORT VERSION ROOT.pem                            prints the answer
//	client load ADDRESS PORTS VERSIONS ROOT.pem PARALLEL EXPECTED   asks until standard input ends; a line for each answer
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const limit = 60 * time.Second

var versions = map[string]uint16{
	"1.0": tls.VersionTLS10, "1.1": tls.VersionTLS11, "1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13,
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func ask(address string, version string, roots *x509.CertPool) ([]byte, error) {
	end := time.Now().Add(limit)
	dialer := net.Dialer{Deadline: end}
	config := tls.Config{
		RootCAs: roots, ServerName: "www.tandem.example",
		MinVersion: versions[version], MaxVersion: versions[version],
	}
	connection, err := tls.DialWithDialer(&dialer, "tcp", address, &config)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	connection.SetDeadline(end)
	_, err = io.WriteString(connection, "GET /trial HTTP/1.0\r\nHost: www.tandem.example\r\n\r\n")
	if err != nil {
		return nil, err
	}
	return io.ReadAll(connection)
}

func load(address string, ports, versions []string, roots *x509.CertPool, parallel int, expected []byte) {
	var over atomic.Bool
	var next atomic.Int64
	var workers sync.WaitGroup
	var output sync.Mutex
	for range parallel {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for !over.Load() {
				number := int(next.Add(1))
				port := ports[number%len(ports)]
				version := versions[number/len(ports)%len(versions)]
				begin := time.Now()
				answer, err := ask(net.JoinHostPort(address, port), version, roots)
				verdict, why := "ok", ""
				_, body, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
				if err != nil {
					verdict, why = "failed", err.Error()
				} else if !bytes.Equal(body, expected) {
					verdict, why = "differs", fmt.Sprintf("%d bytes", len(body))
				}
				output.Lock()
				fmt.Println(verdict, port, version, time.Since(begin).Milliseconds(), why)
				output.Unlock()
			}
		}()
	}
	io.Copy(io.Discard, os.Stdin)
	over.Store(true)
	workers.Wait()
}

func trust(file string) *x509.CertPool {
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(file)
	check(err)
	roots.AppendCertsFromPEM(pem)
	return roots
}

func main() {
	words := os.Args[1:]
	if words[0] != "load" {
		answer, err := ask(words[0], words[1], trust(words[2]))
		os.Stdout.Write(answer)
		check(err)
		return
	}
	parallel, err := strconv.Atoi(words[5])
	check(err)
	expected, err := os.ReadFile(words[6])
	check(err)
	load(words[1], strings.Split(words[2], ","), strings.Split(words[3], ","), trust(words[4]), parallel, expected)
}
