// A TLS server on Go's crypto/tls: answers any request with one file. No tickets, so that each handshake is a full one.
//
//	server PORT LOWEST HIGHEST CHAIN.pem KEY.pem FILE
package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"os"
	"time"
)

var versions = map[string]uint16{
	"1.0": tls.VersionTLS10, "1.1": tls.VersionTLS11, "1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13,
}

func serve(connection net.Conn, body []byte) {
	defer connection.Close()
	connection.SetDeadline(time.Now().Add(time.Minute))
	lines := bufio.NewScanner(connection)
	for lines.Scan() && lines.Text() != "" {
	}
	head := fmt.Sprintf("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n", len(body))
	connection.Write(append([]byte(head), body...))
}

func main() {
	words := os.Args[1:]
	pair, err := tls.LoadX509KeyPair(words[3], words[4])
	if err != nil {
		log.Fatal(err)
	}
	body, err := os.ReadFile(words[5])
	if err != nil {
		log.Fatal(err)
	}
	listener, err := tls.Listen("tcp", ":"+words[0], &tls.Config{
		Certificates: []tls.Certificate{pair}, SessionTicketsDisabled: true,
		MinVersion: versions[words[1]], MaxVersion: versions[words[2]],
	})
	if err != nil {
		log.Fatal(err)
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go serve(connection, body)
	}
}
