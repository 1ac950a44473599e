package main

import "strings"

// axis is one way to depart from the base: all but one of its settings are the base's.
type axis struct {
	Name     string   `json:"name"`
	What     string   `json:"what"`
	Payload  int      `json:"payload"` // bytes in a job
	Backlog  int      `json:"backlog"` // pending jobs in the queue
	Conns    int      `json:"connections"`
	Depth    int      `json:"depth"`              // requests in a pipeline
	Jobs     int      `json:"leg_jobs"`           // carried through their whole life in one leg
	Settings []string `json:"settings,omitempty"` // of the server
	Replica  bool     `json:"replica,omitempty"`
}

// held is how many jobs of every queue are leased and stay so, that neither the set comes and goes with the jobs of the
// measurement nor its encoding changes under it.
const held = 256

var base = axis{
	Name: "base", What: "64 B, backlog 1 k, no AOF, pipelines of 64",
	Payload: 64, Backlog: 1_000, Conns: 4, Depth: 64, Jobs: 16 << 10,
}

func but(name, what string, change func(*axis)) axis {
	a := base
	a.Name, a.What = name, what
	change(&a)
	return a
}

var axes = []axis{
	base,
	but("clients1", "1 client, no pipeline", func(a *axis) { a.Conns, a.Depth, a.Jobs = 1, 1, 4<<10 }),
	but("clients50", "50 clients, no pipeline", func(a *axis) { a.Conns, a.Depth, a.Jobs = 50, 1, 16<<10 }),
	but("payload1k", "payload 1 KiB", func(a *axis) { a.Payload = 1 << 10 }),
	but("payload16k", "payload 16 KiB", func(a *axis) { a.Payload, a.Jobs = 16<<10, 4<<10 }),
	but("backlog100k", "backlog 100 k", func(a *axis) { a.Backlog = 100_000 }),
	but("backlog1m", "backlog 1 M", func(a *axis) { a.Backlog = 1_000_000 }),
	but("aof", "AOF, fsync every second", func(a *axis) {
		a.Settings = []string{"--appendonly", "yes", "--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0"}
	}),
	but("replica", "one replica", func(a *axis) { a.Replica = true }),
}

func axisNamed(name string) (axis, bool) {
	for _, a := range axes {
		if a.Name == name {
			return a, true
		}
	}
	return axis{}, false
}

// axisNames are all that -axis takes.
func axisNames() string {
	names := []string{}
	for _, a := range axes {
		names = append(names, a.Name)
	}
	for _, s := range studies {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}
