package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"emq/bench/load"
	"emq/lua"
)

// executor is one of those that do the same work. In a server each has a logical database of its own, because the
// identity of a store is per database, with the same keys in it.
type executor struct {
	Name     string
	module   string // that the server must have; "" = none
	db       int
	identity string
	batch    int // jobs in a call; 0 = the verbs that take one job
	open     load.Opening
	stat     func(verb string) string // its line in commandstats
}

var (
	native = ofModule("native", "emq", 0)
	// The time of an EVALSHA is that of the whole script, and all scripts share one line.
	scripted = executor{
		Name: "scripts", db: 1, identity: "echomq:4.0.0",
		open: func(verb string) []string {
			s, _ := lua.Of("EMQ." + verb)
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

// batchesOf is an executor that gives the verbs for many jobs so many of them.
func batchesOf(n, db int) executor {
	e := ofModule(fmt.Sprintf("%d in a call", n), "emq", db)
	e.batch = n
	e.stat = func(verb string) string { return native.stat("M" + verb) }
	return e
}

// pipeline is how many jobs are in a pipeline on an axis, with batches as near to its depth as they come.
func (e *executor) pipeline(a axis) int {
	return max(a.Depth/max(e.batch, 1), 1) * max(e.batch, 1)
}

// whole is the number of jobs nearest to n that fills its pipelines.
func (e *executor) whole(n int, a axis) int {
	of := e.pipeline(a)
	return max((n+of/2)/of, 1) * of
}

var verbNames = []string{"ENQUEUE", "CLAIM", "COMPLETE", "FAIL"}

// prepare gives an executor's database the identity, and the server its scripts.
func (e *executor) prepare(ctx context.Context, c *redis.Client) error {
	if err := c.Set(ctx, "{emq}:version", e.identity, 0).Err(); err != nil {
		return err
	}
	for _, verb := range verbNames {
		if s, ok := lua.Of("EMQ." + verb); ok && strings.HasPrefix(e.stat(verb), "eval") {
			if err := c.ScriptLoad(ctx, s.Source).Err(); err != nil {
				return err
			}
		}
	}
	return nil
}
