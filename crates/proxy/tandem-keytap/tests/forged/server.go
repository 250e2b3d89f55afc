// A server of TLS 1.3 that asks for a certificate and accepts every one, or none: PORT CHAIN KEY.
// Answers each connection with a page.
package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
)

func serve(connection net.Conn) {
	defer connection.Close()
	request := make([]byte, 1<<10)
	if _, err := connection.Read(request); err == nil {
		fmt.Fprint(connection, "HTTP/1.0 200 ok\r\n\r\n")
	}
}

func main() {
	pair, err := tls.LoadX509KeyPair(os.Args[2], os.Args[3])
	if err == nil {
		var listener net.Listener
		listener, err = tls.Listen("tcp", "127.0.0.1:"+os.Args[1], &tls.Config{
			Certificates: []tls.Certificate{pair},
			MinVersion:   tls.VersionTLS13, ClientAuth: tls.RequestClientCert,
		})
		for err == nil {
			var connection net.Conn
			if connection, err = listener.Accept(); err == nil {
				go serve(connection)
			}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
