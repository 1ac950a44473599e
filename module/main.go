// Package main is the boundary between a Valkey server and the verbs of EMQ, and nothing else: the C files read and
// write the server's keys, the Go files hand the decisions in between to package commands.
//
// It is built as a C shared library and loaded by the server. Every function that C calls recovers panics, which would
// otherwise kill the server; none keeps a C pointer after it returns.
package main

// A c-shared library has a main function that never runs.
func main() {}
