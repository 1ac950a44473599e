// Package lua answers one question: what does the scripted executor run for a verb?
//
// Each .lua file is the twin of one native verb: it has the same KEYS, ARGV and replies, with the SHA in the verb's place.
// Those of enqueue, claim, complete and fail are for wire 4: they know neither lease_epoch nor failures, and do not refuse
// the edge cases that the native verbs refuse. The others are for a store of wire 6; of these, extend, reap, mclaim and
// mextend take the server's run_id as an additional last argument. If a verb has no numkeys, the script's only key is its
// base. No script checks the identity, which the connector has done. No script checks the gates: a claim by a script ignores
// pauses and limits.
package lua

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"io/fs"
	"strings"
)

// Script is what SCRIPT LOAD takes and the name by which EVALSHA runs it.
type Script struct {
	Source string
	SHA    string
}

//go:embed *.lua
var files embed.FS

var twins = map[string]Script{}

func init() {
	names, err := fs.Glob(files, "*.lua")
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		source, err := files.ReadFile(name)
		if err != nil {
			panic(err)
		}
		sum := sha1.Sum(source)
		verb := "EMQ." + strings.ToUpper(strings.TrimSuffix(name, ".lua"))
		twins[verb] = Script{string(source), hex.EncodeToString(sum[:])}
	}
}

// Of returns the twin of a native verb, for example of EMQ.CLAIM; ok is false if it has none.
func Of(verb string) (twin Script, ok bool) {
	twin, ok = twins[verb]
	return twin, ok
}
