// Fetches a URL as a program does that leaves every time-out at what Go's net/http sets: 10 s for the TLS handshake.
//
//	patient URL     prints the answer's body; trusts the roots in SSL_CERT_FILE
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	answer, err := http.Get(os.Args[1])
	if err == nil {
		_, err = io.Copy(os.Stdout, answer.Body)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
