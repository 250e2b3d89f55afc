// A TLS client on Go's crypto/tls. Asks for /trial over HTTP/1.0.
//
//	client ADDRESS:PORT VERSION ROOT.pem                            prints the answer
//	client load ADDRESS PORTS VERSIONS ROOT.pem PARALLEL EXPECTED CERT.pem KEY.pem
//
// The latter asks until standard input ends, with a line for each answer: VERDICT PORT VERSION MILLISECONDS full|resumed WORDS. Behind a
// port, "r" has it return with its session, "c" show its certificate.
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

// Connections that a session is used for.
const visits = 5

var versions = map[string]uint16{
	"1.0": tls.VersionTLS10, "1.1": tls.VersionTLS11, "1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13,
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func settings(version string, roots *x509.CertPool) *tls.Config {
	return &tls.Config{
		RootCAs: roots, ServerName: "www.tandem.example",
		MinVersion: versions[version], MaxVersion: versions[version],
	}
}

// The answer, and whether a session was resumed.
func ask(address string, config *tls.Config) ([]byte, bool, error) {
	end := time.Now().Add(limit)
	dialer := net.Dialer{Deadline: end}
	connection, err := tls.DialWithDialer(&dialer, "tcp", address, config)
	if err != nil {
		return nil, false, err
	}
	defer connection.Close()
	connection.SetDeadline(end)
	_, err = io.WriteString(connection, "GET /trial HTTP/1.0\r\nHost: www.tandem.example\r\n\r\n")
	if err != nil {
		return nil, false, err
	}
	answer, err := io.ReadAll(connection)
	return answer, connection.ConnectionState().DidResume, err
}

// A session for some connections to one port in one version.
type visitor struct {
	config *tls.Config
	left   int
}

func load(address string, ports, versions []string, roots *x509.CertPool, parallel int, expected []byte, shown tls.Certificate) {
	var over atomic.Bool
	var next atomic.Int64
	var workers sync.WaitGroup
	var output sync.Mutex
	for range parallel {
		workers.Add(1)
		go func() {
			defer workers.Done()
			visitors := map[string]visitor{}
			for !over.Load() {
				turn := int(next.Add(1))
				port := ports[turn%len(ports)]
				version := versions[turn/len(ports)%len(versions)]
				begin := time.Now()
				visitor := visitors[port+version]
				how := "resumed"
				if visitor.left == 0 {
					how = "full"
					visitor.left = 1
					visitor.config = settings(version, roots)
					if strings.Contains(port, "c") {
						visitor.config.Certificates = []tls.Certificate{shown}
					}
					if strings.Contains(port, "r") {
						visitor.left = visits
						visitor.config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
					}
				}
				visitor.left--
				visitors[port+version] = visitor
				number := strings.TrimRight(port, "rc")
				answer, resumed, err := ask(net.JoinHostPort(address, number), visitor.config)
				if err == nil && !resumed {
					how = "full"
				}
				verdict, why := "ok", ""
				_, body, _ := bytes.Cut(answer, []byte("\r\n\r\n"))
				if err != nil {
					verdict, why = "failed", err.Error()
				} else if len(body) < len(expected) && bytes.HasPrefix(expected, body) {
					// Between two records Go takes the end of TCP for the end of TLS, too.
					verdict, why = "failed", fmt.Sprintf("the page ended after %d bytes", len(body))
				} else if !bytes.Equal(body, expected) {
					verdict, why = "differs", fmt.Sprintf("%d bytes", len(body))
				}
				output.Lock()
				fmt.Println(verdict, number, version, time.Since(begin).Milliseconds(), how, why)
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
		answer, _, err := ask(words[0], settings(words[1], trust(words[2])))
		os.Stdout.Write(answer)
		check(err)
		return
	}
	parallel, err := strconv.Atoi(words[5])
	check(err)
	expected, err := os.ReadFile(words[6])
	check(err)
	shown, err := tls.LoadX509KeyPair(words[7], words[8])
	check(err)
	load(words[1], strings.Split(words[2], ","), strings.Split(words[3], ","), trust(words[4]), parallel, expected, shown)
}
