// A server of files over TLS and over plain HTTP, with Go's net/http and crypto/tls. GET /counts on the plain port tells how many
// requests came with new sessions and how many with resumed ones.
// Arguments: TLS-PORT PORT CHAIN.pem KEY.pem FOLDER.
package main

import (
	"crypto/tls"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
)

func main() {
	securePort, port, chain, key, folder := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	files := map[string][]byte{}
	entries, err := os.ReadDir(folder)
	if err != nil {
		log.Fatal(err)
	}
	for _, entry := range entries {
		bytes, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			log.Fatal(err)
		}
		files["/"+entry.Name()] = bytes
	}
	var fresh, resumed atomic.Int64
	handler := http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		if request.URL.Path == "/counts" {
			fmt.Fprintf(answer, "%d %d", fresh.Load(), resumed.Load())
			return
		}
		if request.TLS != nil && request.TLS.DidResume {
			resumed.Add(1)
		} else if request.TLS != nil {
			fresh.Add(1)
		}
		body, found := files[request.URL.Path]
		if !found {
			http.NotFound(answer, request)
			return
		}
		answer.Header().Set("Content-Type", "application/octet-stream")
		answer.Header().Set("Content-Length", strconv.Itoa(len(body)))
		answer.Write(body)
	})
	secure := &http.Server{
		Addr:         "127.0.0.1:" + securePort,
		Handler:      handler,
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ErrorLog:     log.New(os.Stderr, "", 0),
	}
	go func() { log.Fatal(secure.ListenAndServeTLS(chain, key)) }()
	log.Fatal(http.ListenAndServe("127.0.0.1:"+port, handler))
}
