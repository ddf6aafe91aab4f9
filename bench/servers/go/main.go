// Package main contains Go servers that answer a Get. To answer a Get, they do
// the same work as the service. The first argument selects the server: "grpc"
// (grpc-go), "connect" (connect-go) or "rest" (net/http).
package main

import (
	"fmt"
	"log"
	"net"
	"os"
)

func main() {
	work, err := openWork()
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(os.Getenv("HOST"), os.Getenv("PORT")))
	if err != nil {
		log.Fatal(err)
	}
	serve := map[string]func(net.Listener, *Work) error{"grpc": serveGrpc, "connect": serveConnect, "rest": serveRest}[os.Args[1]]
	fmt.Printf("{\"msg\":\"listening\",\"url\":\"http://%s\"}\n", listener.Addr())
	log.Fatal(serve(listener, work))
}
