// A client of TLS 1.3 that trusts every certificate: PORT. Ends with 0 if it accepts the handshake.
package main

import (
	"crypto/tls"
	"fmt"
	"os"
)

func main() {
	connection, err := tls.Dial("tcp", "127.0.0.1:"+os.Args[1], &tls.Config{
		InsecureSkipVerify: true, MinVersion: tls.VersionTLS13, NextProtos: []string{"h2", "h3"},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	connection.Close()
}
