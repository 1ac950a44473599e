package model

import (
	"fmt"
	"slices"
	"strconv"

	"emq/test/store"
	"emq/test/wire"
)

// plain is one of Valkey's own commands, in the one form in which histories use it.
func plain(db store.Keyspace, args []string) string {
	key, words := args[1], args[2:]
	switch args[0] {
	case "SET":
		db[key] = store.String(words[0])
		return wire.OK
	case "DEL":
		n := len(db)
		delete(db, key)
		return wire.Integer(int64(n - len(db)))
	case "HSET":
		return on(db, key, func(h store.Hash) int {
			n := len(h)
			for pair := range slices.Chunk(words, 2) {
				h[pair[0]] = pair[1]
			}
			return len(h) - n
		})
	case "HDEL":
		return on(db, key, func(h store.Hash) int {
			n := len(h)
			for _, field := range words {
				delete(h, field)
			}
			return n - len(h)
		})
	case "ZADD":
		return on(db, key, func(z store.ZSet) int {
			n := len(z)
			for pair := range slices.Chunk(words, 2) {
				score, err := strconv.ParseFloat(pair[0], 64)
				if err != nil {
					panic(err)
				}
				z[pair[1]] = score
			}
			return len(z) - n
		})
	case "ZREM":
		return on(db, key, func(z store.ZSet) int {
			n := len(z)
			for _, id := range words {
				delete(z, id)
			}
			return n - len(z)
		})
	}
	panic(fmt.Sprintf("model: no command %s", wire.Line(args)))
}

// on changes a hash or a sorted set. If it is empty then, the key is removed.
func on[V ~map[string]E, E any](db store.Keyspace, key string, change func(V) int) string {
	if db[key] == nil {
		db[key] = V{}
	}
	value, ok := db[key].(V)
	if !ok {
		return wire.WrongType
	}
	n := change(value)
	if len(value) == 0 {
		delete(db, key)
	}
	return wire.Integer(int64(n))
}
