// Package lua answers one question: what does the scripted executor run for a verb?
//
// Each .lua file is the twin of one native verb: the same KEYS, ARGV and replies, with the SHA in the verb's place. Those
// of enqueue, claim, complete and fail are of wire 4: they know neither lease_epoch nor failures, and none of the edges
// that the native verbs refuse. Those of schedule, extend, promote, reap, release, requeue and remove, and those for many
// jobs, are for a store of wire 6; extend, reap, mclaim and mextend take the server's run_id as one more, last argument. A verb without a count of
// keys has its base for the only key. None looks at the identity: the connector did. None looks at the gates: what claims by
// scripts takes what a pause or a limit holds back from the native claims.
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

// Of returns the twin of a native verb, spelled as in EMQ.CLAIM; ok is false if it has none.
func Of(verb string) (twin Script, ok bool) {
	twin, ok = twins[verb]
	return twin, ok
}
