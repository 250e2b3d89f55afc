// A server of TLS 1.3 that writes a key log: PORT CHAIN KEY KEYLOG BODY. Answers each request with the file BODY.
package main

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"os"
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func answer(connection net.Conn, body []byte) {
	defer connection.Close()
	reader := bufio.NewReader(connection)
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return
		}
		if line == "\r\n" {
			break
		}
	}
	fmt.Fprintf(connection, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n", len(body))
	connection.Write(body)
}

func main() {
	keyLog := must(os.OpenFile(os.Args[4], os.O_WRONLY, 0))
	body := must(os.ReadFile(os.Args[5]))
	listener := must(tls.Listen("tcp", "127.0.0.1:"+os.Args[1], &tls.Config{
		Certificates:           []tls.Certificate{must(tls.LoadX509KeyPair(os.Args[2], os.Args[3]))},
		MinVersion:             tls.VersionTLS13,
		SessionTicketsDisabled: true,
		KeyLogWriter:           keyLog,
	}))
	for {
		go answer(must(listener.Accept()), body)
	}
}
