package model_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"emq/test/model"
	"emq/test/store"
	"emq/test/wire"
)

// generator generates the steps of a history. It looks at the model, so that many of them make sense.
type generator struct {
	*rand.Rand
	w    *model.World
	wild bool // keys, fields and entries may be damaged
}

// What histories use: few names, so that calls meet, and numbers around every bound.
var (
	queues   = []wire.Queue{"q", "q", "q", "\xff \r\n"}
	ids      = []string{"JOB1", "JOB2", "JOB3", "JOB\x00\xff}", "JOB"}
	strange  = []string{"JOB9", "GRP1", ""}
	states   = []string{"pending", "active", "scheduled", "dead", "lost", ""}
	sets     = []string{"pending", "active", "schedule", "dead"}
	leases   = []int64{1, 1, 1000, 30_000, 1<<52 - 1}
	limits   = []int64{1, 1, 2, 3, 100, 10_000}
	payloads = []string{"x", "", "\x00\r\n"}
	fields   = []string{"state", "attempts", "payload", "lease_epoch", "failures", "stalled", "group", "parent"}
	numbers  = []string{
		"0", "1", "2", "7", "", "-1", "+1", "01", "1.5", "1e3", " 1", "x", "4503599627370495", "4503599627370496",
		"2147483647", "2147483648", "9007199254740990", "9007199254740991", "9007199254740992", "9223372036854775806",
		"9223372036854775807", "-9223372036854775808", "99999999999999999999",
	}
	scores = []string{"0", "0", "1", "-1", "1.5", "5", "1732872600000", "-inf", "9007199254740991", "1e300", "inf"}
)

func pick[T any](g *generator, from []T) T { return from[g.IntN(len(from))] }

// step generates a step: a single call of one client, a pipeline, or calls of several clients at the same time.
func (g *generator) step() (s step) {
	clients := []int{g.IntN(model.Clients)}
	calls := 1
	switch n := g.IntN(100); {
	case n < 12:
		calls = 2 + g.IntN(5)
	case n < 35:
		clients = g.Perm(model.Clients)[:2+g.IntN(2)]
		calls = 1 + g.IntN(2)
	}
	for _, client := range clients {
		for range calls {
			for _, args := range g.calls(client, len(clients)*calls == 1) {
				s = append(s, call{client, args})
			}
		}
	}
	return s
}

// calls generates what a client does. To keep the keyspace sound, it may move a job directly only if it is alone.
func (g *generator) calls(client int, alone bool) [][]string {
	db := g.w.Contents[g.w.Selected[client]]
	q := pick(g, queues)
	switch n := g.IntN(155); {
	case n >= 140:
		return [][]string{g.gate(q)}
	case n >= 130:
		return [][]string{g.operate(q, db)}
	case n >= 100:
		return [][]string{g.batch(q, db)}
	case n < 15:
		return [][]string{q.Enqueue(pick(g, ids), pick(g, payloads))}
	case n < 21:
		return [][]string{g.schedule(q)}
	case n < 38:
		return [][]string{q.Claim(pick(g, leases))}
	case n < 57:
		return [][]string{g.settle(q, db)}
	case n < 64:
		return [][]string{g.extend(q, db)}
	case n < 70:
		return [][]string{q.Promote(pick(g, limits))}
	case n < 76:
		return [][]string{q.Reap(pick(g, []int64{0, 1, 2, 3, 1<<31 - 1}), pick(g, limits))}
	case n < 84:
		if alone || g.wild {
			return g.move(q, db)
		}
	case n < 88:
		return [][]string{g.malformed(q, db)}
	case n < 96:
		if g.wild {
			return [][]string{g.vandalism(q, db)}
		}
	case n < 98:
		return [][]string{{"SELECT", strconv.Itoa(g.IntN(2))}}
	case n < 99:
		return [][]string{{"SWAPDB", "0", "1"}}
	default:
		return [][]string{pick(g, [][]string{{"FLUSHALL"}, {"FLUSHDB"}})}
	}
	return [][]string{q.Claim(30_000)}
}

// find picks a row of the queue in one of the given states, or else any id.
func (g *generator) find(q wire.Queue, db store.Keyspace, states ...string) (string, store.Hash) {
	for _, i := range g.Perm(len(ids)) {
		if row, ok := db[q.Row(ids[i])].(store.Hash); ok && slices.Contains(states, row["state"]) {
			return ids[i], row
		}
	}
	id := pick(g, ids)
	row, _ := db[q.Row(id)].(store.Hash)
	return id, row
}

func (g *generator) schedule(q wire.Queue) []string {
	if g.IntN(3) == 0 {
		return q.ScheduleAt(pick(g, ids), pick(g, payloads), pick(g, []int64{0, 1, 1732872600000, 1<<52 - 1}))
	}
	return q.ScheduleIn(pick(g, ids), pick(g, payloads), pick(g, []int64{0, 0, 1, 30_000, 1<<52 - 1}))
}

func (g *generator) extend(q wire.Queue, db store.Keyspace) []string {
	id, token := g.held(q, db)
	return q.Extend(id, token, pick(g, leases))
}

// batch is a verb for many jobs, mostly few, some of them twice.
func (g *generator) batch(q wire.Queue, db store.Keyspace) []string {
	n := 1 + g.IntN(5)
	if g.IntN(12) == 0 {
		n = 30 + g.IntN(40)
	}
	var args []string
	some := func(n int, job func() []string) []string {
		var words []string
		for range n {
			words = append(words, job()...)
		}
		return words
	}
	held := func() []string {
		id, token := g.held(q, db)
		return []string{id, token}
	}
	switch g.IntN(8) {
	case 0:
		args = q.Menqueue(some(n, func() []string { return []string{pick(g, ids), pick(g, payloads)} })...)
	case 1:
		mode := pick(g, []string{"at", "in"})
		args = q.Mschedule(mode, some(n, func() []string {
			return []string{pick(g, ids), strconv.FormatInt(pick(g, []int64{0, 0, 1, 30_000, 1732872600000, 1<<52 - 1}), 10), pick(g, payloads)}
		})...)
	case 2, 3, 4:
		args = q.Mclaim(pick(g, leases), pick(g, []int64{1, 2, 3, 5, 1000}))
	case 5:
		args = q.Mcomplete(some(n, held)...)
	case 6:
		args = q.Mextend(pick(g, leases), some(n, held)...)
	default:
		args = q.Mfail(pick(g, []int64{1, 2, 3, 1<<31 - 1}), some(n, func() []string {
			return append(held(), strconv.FormatInt(pick(g, []int64{0, 1000, 1<<52 - 1}), 10), pick(g, []string{"why", "", "\x00"}))
		})...)
	}
	return args
}

// operate is a RELEASE, or a verb for operators.
func (g *generator) operate(q wire.Queue, db store.Keyspace) []string {
	if g.IntN(3) == 0 {
		id, token := g.held(q, db)
		return q.Release(id, token, pick(g, []int64{0, 0, 1, 1000, 1<<52 - 1}))
	}
	state := pick(g, []string{"dead", "dead", "scheduled"})
	var list []string
	for range 1 + g.IntN(3) {
		id, _ := g.find(q, db, state)
		list = append(list, pick(g, []string{id, id, pick(g, ids)}))
	}
	if g.IntN(3) > 0 {
		return q.Requeue(state, list...)
	}
	return q.Remove(pick(g, []string{"pending", "active", "scheduled", "dead", "any"}), list...)
}

// gate shuts or opens a gate; opening is more frequent.
func (g *generator) gate(q wire.Queue) []string {
	switch g.IntN(7) {
	case 0:
		return q.Pause(pick(g, []int64{0, 1, 1<<52 - 1}))
	case 1, 2, 3:
		return q.Resume()
	case 4:
		rate := pick(g, []int64{0, 1, 2, 5, 1<<31 - 1})
		duration := pick(g, []int64{1, 1<<52 - 1})
		if rate == 0 {
			duration = 0
		}
		return q.Limit(pick(g, []int64{0, 1, 2, 3, 1<<31 - 1}), rate, duration)
	}
	return q.Limit(0, 0, 0)
}

// held is a job, mostly one that is held, and a token, mostly its holder's.
func (g *generator) held(q wire.Queue, db store.Keyspace) (id, token string) {
	id, row := g.find(q, db, pick(g, [][]string{{"active"}, {"active"}, {"active"}, states})...)
	token = row["attempts"]
	if g.IntN(6) == 0 {
		token = pick(g, append(numbers, "0"+token, token+" "))
	}
	return id, token
}

// settle completes or fails a job.
func (g *generator) settle(q wire.Queue, db store.Keyspace) []string {
	id, token := g.held(q, db)
	if g.IntN(2) == 0 {
		return q.Complete(id, token)
	}
	delay, limit := pick(g, []int64{0, 1000, 1<<52 - 1}), pick(g, []int64{1, 2, 3, 1<<31 - 1})
	return q.Fail(id, token, delay, limit, pick(g, []string{"why", "", "\x00"}))
}

// move is what scripts, operators and other servers do to a job: it becomes due, its lease becomes another server's, it
// enters or leaves a lane or a flow, or it goes to pending.
func (g *generator) move(q wire.Queue, db store.Keyspace) [][]string {
	from := pick(g, []string{"scheduled", "active", "active"})
	id, row := g.find(q, db, from)
	if row["state"] != from {
		return [][]string{q.Claim(1)}
	}
	owner := pick(g, []string{"group", "parent"})
	come := []string{"ZADD", q.Set(from), "1", id}
	switch n := g.IntN(12); {
	case n < 4:
		return [][]string{come}
	case n < 6 && from == "active":
		return [][]string{come, {"HSET", q.Row(id), "lease_epoch", "another"}}
	case n < 7 && from == "active":
		return [][]string{{"HDEL", q.Row(id), "lease_epoch"}}
	case n < 8:
		return [][]string{{"HSET", q.Row(id), owner, "x"}}
	case n < 10:
		return [][]string{{"HDEL", q.Row(id), "group", "parent"}}
	}
	return q.Move(id, from, "pending")
}

// malformed is a verb with one word wrong, missing or too many; sometimes it is valid nevertheless.
func (g *generator) malformed(q wire.Queue, db store.Keyspace) []string {
	args := pick(g, [][]string{
		q.Enqueue(pick(g, ids), "x"), q.Claim(30_000), g.settle(q, db), g.settle(q, db), g.schedule(q), g.extend(q, db),
		q.Promote(2), q.Reap(2, 2), g.batch(q, db), g.batch(q, db), g.batch(q, db),
		g.operate(q, db), g.operate(q, db), g.gate(q), g.gate(q),
	})
	at := 1
	if len(args) > 1 {
		at = 1 + g.IntN(len(args)-1)
	}
	other := pick(g, queues)
	switch g.IntN(12) {
	case 0:
		return args[:at]
	case 1:
		return append(args, "x")
	}
	return wire.With(args, at, pick(g, []string{
		pick(g, numbers), pick(g, numbers), pick(g, strange), pick(g, ids), other.Row(pick(g, ids)), other.Base(), other.RowPrefix(),
		other.Base() + pick(g, sets), args[at] + "x", args[at] + "\x00", strings.ToUpper(args[at]), args[at][:len(args[at])/2],
		strings.Replace(args[at], "{"+string(q), "{", 1), strings.Replace(args[at], "{", "{{", 1),
	}))
}

// vandalism is a plain command that no client of the wire would send.
func (g *generator) vandalism(q wire.Queue, db store.Keyspace) []string {
	id, _ := g.find(q, db, states...)
	if g.IntN(4) == 0 {
		id = pick(g, append(ids, strange...))
	}
	set := q.Base() + pick(g, sets)
	counter := pick(g, []string{q.Completed(), q.Failed()})
	key := pick(g, []string{set, set, q.Row(id), q.Row(id), counter, wire.Identity, q.Meta()})
	switch n := g.IntN(105); {
	case n >= 100:
		return []string{"HSET", q.Meta(), pick(g, []string{"paused", "paused_until", "concurrency", "max", "duration", "window", "used", "x"}), pick(g, numbers)}
	case n < 25:
		return []string{"ZADD", set, pick(g, scores), id}
	case n < 35:
		return []string{"ZREM", set, id}
	case n < 45:
		return []string{"DEL", key}
	case n < 65:
		field := pick(g, fields)
		value := pick(g, numbers)
		switch field {
		case "state":
			value = pick(g, states)
		case "lease_epoch":
			value = pick(g, []string{g.w.RunID, "another", ""})
		}
		return []string{"HSET", q.Row(id), field, value}
	case n < 70:
		return []string{"HDEL", q.Row(id), pick(g, fields)}
	case n < 76:
		return []string{"HSET", counter, pick(g, []string{"count", "count", "x"}), pick(g, numbers)}
	case n < 82:
		return []string{"SET", wire.Identity, pick(g, []string{wire.Wire6, wire.Wire6, wire.Wire4, ""})}
	case n < 90:
		return []string{"SET", key, "x"}
	case n < 94:
		return []string{"HSET", key, "f", "v"}
	case n < 97:
		return []string{"ZADD", key, "0", id}
	default: // more broken entries than one call may drop
		args := []string{"ZADD", pick(g, []string{q.Pending(), set})}
		for i := range 90 + g.IntN(120) {
			args = append(args, "0", fmt.Sprintf("JOB%03d", i))
		}
		return args
	}
}
