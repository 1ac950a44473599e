package main

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"emq/bench/load"
	"emq/scripts"
)

// executor is one of those that do the same work. In a server each has a logical database of its own, because the
// identity of a store is per database, with the same keys in it.
type executor struct {
	Name     string
	module   string // that the server must have; "" = none
	db       int
	identity string
	open     load.Opening
	stat     func(verb string) string // its line in commandstats
}

var (
	native = ofModule("native", "emq", 0)
	// The time of an EVALSHA is that of the whole script, and all scripts share one line.
	scripted = executor{
		Name: "scripts", db: 1, identity: "echomq:4.0.0",
		open: func(verb string) []string {
			s, _ := scripts.Of("EMQ." + verb)
			return []string{"EVALSHA", s.SHA}
		},
		stat: func(string) string { return "evalsha" },
	}
	floor     = ofModule("floor", "floor", 2)
	executors = []*executor{&scripted, &native, &floor}
)

// ofModule is an executor whose verbs bear the name of their module.
func ofModule(name, module string, db int) executor {
	named := func(verb string) string { return strings.ToUpper(module) + "." + verb }
	return executor{
		Name: name, module: module, db: db, identity: "echomq:6.0.0",
		open: func(verb string) []string { return []string{named(verb)} },
		stat: named,
	}
}

var verbNames = []string{"ENQUEUE", "CLAIM", "COMPLETE", "FAIL"}

// prepare gives an executor's database the identity, and the server its scripts.
func (e *executor) prepare(ctx context.Context, c *redis.Client) error {
	if err := c.Set(ctx, "{emq}:version", e.identity, 0).Err(); err != nil {
		return err
	}
	for _, verb := range verbNames {
		if s, ok := scripts.Of("EMQ." + verb); ok && strings.HasPrefix(e.stat(verb), "eval") {
			if err := c.ScriptLoad(ctx, s.Source).Err(); err != nil {
				return err
			}
		}
	}
	return nil
}
