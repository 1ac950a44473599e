// Package store answers one question: what does a server hold, and does the wire allow it? It reads every key of every
// database into comparable Go values, lists differences, and finds what is wrong with a keyspace.
package store

import (
	_ "embed"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/wire"
)

// Databases is the default number of databases of a server.
const Databases = 16

// Contents is everything that a server holds, by database.
type Contents [Databases]Keyspace

// Keyspace is everything that one database holds: a String, Hash, ZSet or Other by key.
type Keyspace map[string]any

// The values of a Keyspace.
type (
	String string
	Hash   map[string]string
	ZSet   map[string]float64
	// Other is a value that no client of the wire writes.
	Other struct{ Type, Dump string }
)

//go:embed read.lua
var readScript string

// Read reads all of a server at one instant.
func Read(t testing.TB, c *wire.Conn) Contents {
	t.Helper()
	reply := c.Do("EVAL", readScript, "0", strconv.Itoa(Databases))
	require.False(t, wire.IsError(reply), "reading the keyspace: %s", reply)
	all := New()
	for _, entry := range wire.Value(reply).([]any) {
		e := entry.([]any)
		db, key, kind, words := e[0].(int64), e[1].(string), e[2].(string), e[3].([]any)
		all[db][key] = read(t, kind, words)
	}
	return all
}

func read(t testing.TB, kind string, words []any) any {
	t.Helper()
	switch kind {
	case "string":
		return String(words[0].(string))
	case "hash":
		h := Hash{}
		for pair := range slices.Chunk(words, 2) {
			h[pair[0].(string)] = pair[1].(string)
		}
		return h
	case "zset":
		z := ZSet{}
		for pair := range slices.Chunk(words, 2) {
			score, err := strconv.ParseFloat(pair[1].(string), 64)
			require.NoError(t, err)
			z[pair[0].(string)] = score
		}
		return z
	default:
		return Other{kind, words[0].(string)}
	}
}

// New is an empty server.
func New() (c Contents) {
	for db := range c {
		c[db] = Keyspace{}
	}
	return c
}

// Clone returns a copy that shares nothing.
func (c Contents) Clone() Contents {
	for db := range c {
		c[db] = c[db].Clone()
	}
	return c
}

// Clone returns a copy that shares nothing.
func (k Keyspace) Clone() Keyspace {
	copied := make(Keyspace, len(k))
	for key, value := range k {
		switch v := value.(type) {
		case Hash:
			value = maps.Clone(v)
		case ZSet:
			value = maps.Clone(v)
		}
		copied[key] = value
	}
	return copied
}

// Diff lists the differences, one line each.
func Diff(want, got Contents) []string {
	var lines []string
	for db := range want {
		for _, line := range want[db].Diff(got[db]) {
			lines = append(lines, fmt.Sprintf("db %d: %s", db, line))
		}
	}
	return lines
}

// Diff lists the differences, one line each.
func (k Keyspace) Diff(got Keyspace) []string {
	var lines []string
	keys := slices.Sorted(maps.Keys(k))
	for key := range got {
		if _, ok := k[key]; !ok {
			keys = append(keys, key)
		}
	}
	for _, key := range keys {
		if !reflect.DeepEqual(k[key], got[key]) {
			lines = append(lines, fmt.Sprintf("%s: want %s, got %s", wire.Show(key), show(k[key]), show(got[key])))
		}
	}
	return lines
}

// show writes a value on one line.
func show(value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case String:
		return strconv.QuoteToASCII(string(v))
	case Hash:
		return "hash" + pairs(v, wire.Show)
	case ZSet:
		return "zset" + pairs(v, func(score float64) string { return strconv.FormatFloat(score, 'f', -1, 64) })
	default:
		return value.(Other).Type
	}
}

func pairs[V any](m map[string]V, text func(V) string) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(m)) {
		b.WriteString(" " + wire.Show(key) + "=" + text(m[key]))
	}
	return b.String()
}
