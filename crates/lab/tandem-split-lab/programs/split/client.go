// A client on Go's net/http that does one job at a split site.
//
//	client PORT NAME ROOT.pem SECONDS JOB PATH [ARGUMENT]
//
// The jobs: get, twice (each on a connection of its own), keep (three on one), head, fresh (ARGUMENT: an entity tag), range (first-last),
// upload and chunked (ARGUMENT: bytes to send). Prints, for each answer, "answer STATUS LENGTH SHA-256", or "cut" and the same of what came, and why.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"
)

type onlyReader struct{ io.Reader }

func main() {
	port, name, root, job, path := os.Args[1], os.Args[2], os.Args[3], os.Args[5], os.Args[6]
	seconds, _ := strconv.Atoi(os.Args[4])
	argument := ""
	if len(os.Args) > 7 {
		argument = os.Args[7]
	}
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(root)
	if err != nil {
		fmt.Println("failed", err)
		return
	}
	roots.AppendCertsFromPEM(pem)
	dialer := net.Dialer{}
	client := http.Client{
		Timeout: time.Duration(seconds) * time.Second,
		Transport: &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: roots, ClientSessionCache: tls.NewLRUClientSessionCache(8)},
			DisableKeepAlives: job == "twice",
			DialContext: func(context context.Context, network, _ string) (net.Conn, error) {
				return dialer.DialContext(context, network, "127.0.0.1:"+port)
			},
		},
	}
	method, times := "GET", 1
	var body func() io.Reader
	header := http.Header{}
	switch job {
	case "twice":
		times = 2
	case "keep":
		times = 3
	case "head":
		method = "HEAD"
	case "fresh":
		header.Set("If-None-Match", argument)
	case "range":
		header.Set("Range", "bytes="+argument)
	case "upload", "chunked":
		method = "POST"
		length, _ := strconv.Atoi(argument)
		sent := make([]byte, length)
		for i := range sent {
			sent[i] = byte(i % 251)
		}
		body = func() io.Reader {
			if job == "chunked" {
				return onlyReader{bytes.NewReader(sent)}
			}
			return bytes.NewReader(sent)
		}
	}
	for range times {
		var sent io.Reader
		if body != nil {
			sent = body()
		}
		request, _ := http.NewRequest(method, "https://"+name+":"+port+path, sent)
		for field := range header {
			request.Header.Set(field, header.Get(field))
		}
		answer, err := client.Do(request)
		if err != nil {
			fmt.Println("failed", err)
			return
		}
		got, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		word := "answer"
		if err != nil {
			word = "cut"
		}
		fmt.Printf("%s %d %d %x", word, answer.StatusCode, len(got), sha256.Sum256(got))
		if err != nil {
			fmt.Print(" ", err)
		}
		fmt.Println()
	}
}
