package waiting

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// Whatever makes a job claimable, the first in line gets it, before any other client's command.
func TestServedAtOnce(t *testing.T) {
	b := begin(t)
	enqueue := func(ids ...string) (commands [][]string) {
		for _, id := range ids {
			commands = append(commands, q.Enqueue(id, "x"))
		}
		return commands
	}
	script := func(body string, words ...string) []string { return append([]string{"EVAL", body, "0"}, words...) }
	add := []string{"ZADD", q.Pending(), "0", "JOB1"}
	elsewhere := func(b *bed, db string, commands ...string) {
		b.Must("SELECT " + db)
		b.row(q, "JOB1")
		b.Must(commands...)
		b.Must("SELECT 0")
	}
	for _, tt := range []struct {
		name    string
		prepare func(b *bed)
		cause   [][]string
		hidden  bool // some releases have no event for it
	}{
		{name: "ENQUEUE", cause: enqueue("JOB1")},
		{name: "MENQUEUE", cause: [][]string{{"EMQ.MENQUEUE", q.Base(), "JOB1", "x"}}},
		{name: "a transaction", cause: exec(enqueue("JOB1")...)},
		{name: "a script", cause: [][]string{script("return redis.call(unpack(ARGV))", q.Enqueue("JOB1", "x")...)}},
		{name: "PROMOTE", prepare: func(b *bed) { b.Do(q.ScheduleAt("JOB1", "x", 1)...) }, cause: [][]string{q.Promote(10)}},
		{name: "REAP", prepare: func(b *bed) {
			b.row(q, "JOB1")
			b.Must("HSET "+q.Row("JOB1")+" state active", "ZADD "+q.Active()+" 1 JOB1")
		}, cause: [][]string{q.Reap(0, 10)}},
		{name: "AUDIT FIX", prepare: func(b *bed) { b.row(q, "JOB1") }, cause: [][]string{q.Fix("rows:0", 1000)}},
		{name: "ZADD", prepare: func(b *bed) { b.row(q, "JOB1") }, cause: [][]string{add}},
		{name: "ZADD in a transaction", prepare: func(b *bed) { b.row(q, "JOB1") }, cause: exec(add)},
		{name: "ZADD in a script", prepare: func(b *bed) { b.row(q, "JOB1") }, cause: [][]string{script("return redis.call(unpack(ARGV))", add...)}},
		{name: "ZUNIONSTORE", prepare: func(b *bed) { b.row(q, "JOB1"); b.Must("ZADD other 0 JOB1") },
			cause: [][]string{{"ZUNIONSTORE", q.Pending(), "1", "other"}}},
		{name: "ZRANGESTORE", prepare: func(b *bed) { b.row(q, "JOB1"); b.Must("ZADD other 0 JOB1") },
			cause: [][]string{{"ZRANGESTORE", q.Pending(), "other", "0", "-1"}}},
		{name: "RENAME", prepare: func(b *bed) { b.row(q, "JOB1"); b.Must("ZADD other 0 JOB1") },
			cause: [][]string{{"RENAME", "other", q.Pending()}}, hidden: true},
		{name: "COPY", prepare: func(b *bed) { b.row(q, "JOB1"); b.Must("ZADD other 0 JOB1") },
			cause: [][]string{{"COPY", "other", q.Pending()}}, hidden: true},
		{name: "RESTORE", prepare: func(b *bed) { b.row(q, "JOB1") },
			cause: [][]string{{"RESTORE", q.Pending(), "0", dumped(b, "ZADD other 0 JOB1")}}, hidden: true},
		{name: "MOVE", prepare: func(b *bed) {
			b.row(q, "JOB1")
			b.Must("SELECT 1", "ZADD "+q.Pending()+" 0 JOB1")
		}, cause: [][]string{{"MOVE", q.Pending(), "0"}, {"SELECT", "0"}}, hidden: true},
		{name: "SWAPDB", prepare: func(b *bed) {
			elsewhere(b, "3", "SET "+wire.Identity+" "+wire.Wire6, wire.Line(add))
		}, cause: [][]string{{"SWAPDB", "0", "3"}}},
		{name: "SWAPDB, the other way", prepare: func(b *bed) {
			elsewhere(b, "3", "SET "+wire.Identity+" "+wire.Wire6, wire.Line(add))
		}, cause: [][]string{{"SWAPDB", "3", "0"}}},
	} {
		b.share(tt.name, func(b *bed) {
			w := b.wait(q)
			if tt.prepare != nil {
				tt.prepare(b)
			}
			if tt.hidden && b.hidden() {
				b.Pipeline(tt.cause)
			} else {
				b.before(q, tt.cause...)
			}
			w.has(q, "JOB1")
			b.leased(q, "JOB1")
			b.waiting(0)
		})
	}
	b.share("a verb adds to a set that is there", func(b *bed) {
		all := b.waits(2, q)
		b.row(q, "JOB1")
		b.Must("DEL "+wire.Identity, wire.Line(add))
		b.before(q, []string{"SET", wire.Identity, wire.Wire6}, q.Enqueue("JOB2", "x"))
		all[0].has(q, "JOB1")
		all[1].has(q, "JOB2")
	})
	b.share("a function", func(b *bed) {
		b.Must("FUNCTION LOAD REPLACE " + strconv.Quote("#!lua name=w\nserver.register_function('add', function(_, a) return server.call(unpack(a)) end)"))
		w := b.wait(q)
		b.before(q, append([]string{"FCALL", "add", "0"}, q.Enqueue("JOB1", "x")...))
		w.has(q, "JOB1")
	})
}

// dumped is the DUMP of a key that a command has made.
func dumped(b *bed, line string) string {
	b.t.Helper()
	b.Must(line)
	return wire.Value(b.Do("DUMP", "other")).(string)
}

// Entries without an event are found by a sweep. The test does not check when: the contract says within a second.
func TestFoundBySweep(t *testing.T) {
	b := begin(t)
	for name, hide := range map[string]func(b *bed){
		"pending is overwritten": func(b *bed) {
			b.Must("SET "+q.Pending()+" x", "ZADD other 0 JOB1", "ZUNIONSTORE "+q.Pending()+" 1 other")
		},
		"an identity by hand": func(b *bed) {
			b.Must("DEL "+wire.Identity, "ZADD "+q.Pending()+" 0 JOB1", "SET "+wire.Identity+" "+wire.Wire6)
		},
		"active had another type": func(b *bed) {
			b.Must("SET "+q.Active()+" x", "ZADD "+q.Pending()+" 0 JOB1", "DEL "+q.Active())
		},
	} {
		b.share(name, func(b *bed) {
			w := b.wait(q)
			b.row(q, "JOB1")
			hide(b)
			w.has(q, "JOB1")
		})
	}
}

// The pump wakes waiting clients as a client's command does.
func TestServedByPump(t *testing.T) {
	t.Parallel()
	b := serve(t, store.Pumped(append(logged, "--emq.pump-interval-ms", "5")...))
	first, second := b.wait(q), b.wait(q)
	require.Equal(t, wire.Integer(1), b.Do(q.ScheduleIn("JOB1", "x", 20)...))
	first.has(q, "JOB1")
	b.row(q, "JOB2")
	b.Must("HSET "+q.Row("JOB2")+" state active attempts 1 lease_epoch other", "ZADD "+q.Active()+" 1 JOB2")
	second.gets(wire.BClaimed(q, "JOB2", "x", 2))
}

// Clients are served in the order in which they began to wait, from their queues in the order in which they name them.
func TestOrder(t *testing.T) {
	b := begin(t)
	b.share("first come, first served", func(b *bed) {
		all := b.waits(5, q)
		var jobs [][]string
		for i := range all {
			jobs = append(jobs, q.Enqueue(fmt.Sprintf("JOB%d", i), "x"))
		}
		b.before(q, exec(jobs[:3]...)...)
		b.before(q, jobs[3:]...)
		for i, w := range all {
			w.has(q, fmt.Sprintf("JOB%d", i))
		}
	})
	b.share("priority", func(b *bed) {
		w := b.wait(q, r)
		b.before(r, exec(r.Enqueue("JOB1", "x"), q.Enqueue("JOB2", "x"), q.Enqueue("JOB3", "x"), words("ZREM "+q.Pending()+" JOB3"), r.Claim(lease))...)
		w.has(q, "JOB2")
		require.Equal(b.t, wire.BClaimed(r, "JOB4", "x", 1), func() string {
			b.Do(r.Enqueue("JOB4", "x")...)
			return b.Do(wire.BClaim(lease, 0, q, r, s)...)
		}(), "at the call")
		b.Do(r.Enqueue("JOB5", "x")...)
		b.Do(q.Enqueue("JOB6", "x")...)
		require.Equal(b.t, wire.BClaimed(q, "JOB6", "x", 1), b.Do(wire.BClaim(lease, 0, q, r)...))
	})
	b.share("only where it is first", func(b *bed) {
		first, second := b.wait(q), b.wait(q, r)
		b.before(q, exec(r.Enqueue("JOB1", "x"), q.Enqueue("JOB2", "x"))...)
		first.has(q, "JOB2")
		second.has(r, "JOB1")
	})
	b.share("who is served in one queue makes way in the others", func(b *bed) {
		first, second, third := b.wait(q, r, s), b.wait(r), b.wait(s, r)
		b.before(r, exec(q.Enqueue("JOB1", "x"), r.Enqueue("JOB2", "x"), s.Enqueue("JOB3", "x"))...)
		first.has(q, "JOB1")
		second.has(r, "JOB2")
		third.has(s, "JOB3")
	})
	b.share("a queue named twice", func(b *bed) {
		first, second := b.wait(q, r, q), b.wait(q)
		require.Equal(b.t, "2", b.Info("emq_waiting_clients"))
		require.Equal(b.t, "2", b.Info("emq_waiting_queues"))
		require.Contains(b.t, b.Do(q.Stats()...), wire.Bulk("waiting")+wire.Integer(2), "each once")
		b.Must("SET kept "+wire.Wire6, "DEL "+wire.Identity)
		require.Contains(b.t, b.Do(q.Stats()...), wire.Bulk("waiting")+wire.Integer(2), "on an unclaimed store")
		b.Must("RENAME kept " + wire.Identity)
		b.before(q, q.Enqueue("JOB1", "x"), q.Enqueue("JOB2", "x"))
		first.has(q, "JOB1")
		second.has(q, "JOB2")
	})
	b.share("databases", func(b *bed) {
		first := b.wait(q)
		second := b.client()
		second.Must("SELECT 5")
		second.wait(0, q)
		b.Must("SELECT 5", "SET "+wire.Identity+" "+wire.Wire6)
		b.before(q, q.Enqueue("JOB1", "x"))
		second.has(q, "JOB1")
		b.Must("SELECT 0")
		b.waiting(1)
		b.before(q, q.Enqueue("JOB2", "x"))
		first.has(q, "JOB2")
	})
	b.share("a hundred queues", func(b *bed) {
		queues := make([]wire.Queue, 101)
		for i := range queues {
			queues[i] = wire.Queue(fmt.Sprintf("q%d", i))
		}
		require.Contains(b.t, b.Do(wire.BClaim(lease, 0, queues...)...), "-ERR ")
		require.Contains(b.t, b.Do(wire.BClaim(lease, 0)...), "-ERR wrong number of arguments")
		w := b.wait(queues[:100]...)
		require.Equal(b.t, "100", b.Info("emq_waiting_queues"))
		b.before(queues[99], queues[99].Enqueue("JOB1", "x"))
		w.has(queues[99], "JOB1")
	})
	b.share("long names", func(b *bed) {
		long := wire.Queue(fmt.Sprintf("%0300d", 1))
		w := b.wait(q, long)
		b.before(long, long.Enqueue("JOB1", "x"))
		w.has(long, "JOB1")
	})
}

// A call or a wake drops a hundred broken entries, in all queues together; then the client waits, and the next turn
// continues.
func TestBadEntries(t *testing.T) {
	b := begin(t)
	bad := func(q wire.Queue, n int) []string {
		add := []string{"ZADD", q.Pending()}
		for i := range n {
			add = append(add, "0", fmt.Sprintf("JOB!%04d", i))
		}
		return add
	}
	for _, n := range []int{0, 1, 99, 100, 101, 199, 200, 350} {
		b.share(fmt.Sprintf("%d at the call", n), func(b *bed) {
			w := b.client()
			half := n / 2
			if half > 0 {
				b.Do(bad(q, half)...)
				b.Do(bad(r, n-half)...)
			}
			b.Do(r.Enqueue("JOBx", "x")...)
			w.Send(wire.BClaim(lease, 0, q, r))
			w.has(r, "JOBx")
			require.Equal(b.t, wire.Integer(1), b.Do("EXISTS", r.Active(), r.Pending(), q.Pending()))
		})
		b.share(fmt.Sprintf("%d at a wake", n), func(b *bed) {
			w, next := b.wait(q, r), b.wait(r)
			commands := [][]string{r.Enqueue("JOBx", "x"), r.Enqueue("JOBy", "x")}
			if n > 1 {
				commands = append(commands, bad(q, n/2), bad(r, n-n/2))
			}
			if n < 100 {
				b.before(r, exec(commands...)...)
			} else {
				b.Pipeline(exec(commands...))
			}
			w.has(r, "JOBx")
			next.has(r, "JOBy")
		})
		b.share(fmt.Sprintf("%d where waiting is denied", n), func(b *bed) {
			for _, behind := range []wire.Queue{q, r} {
				b.Must("FLUSHALL", "SET "+wire.Identity+" "+wire.Wire6)
				if n > 0 {
					b.Do(bad(q, n)...)
				}
				b.Do(behind.Enqueue("JOBx", "x")...)
				want := wire.BClaimed(behind, "JOBx", "x", 1)
				if n >= 100 {
					want = wire.Empty
				}
				require.Equal(b.t, wire.Array(want), b.Pipeline(exec(wire.BClaim(lease, 0, q, r)))[2])
			}
		})
	}
	b.share("of all queues together", func(b *bed) {
		w, idle := b.wait(q, r, s), b.count("emq_bclaim_woken_idle")
		b.Pipeline(exec(bad(q, 60), bad(r, 39), s.Enqueue("JOBx", "x")))
		w.has(s, "JOBx")
		require.Equal(b.t, idle, b.count("emq_bclaim_woken_idle"))
		w.wait(0, q, r, s)
		b.Pipeline(exec(bad(q, 60), bad(r, 40), s.Enqueue("JOBy", "x")))
		w.has(s, "JOBy")
		require.Equal(b.t, idle+1, b.count("emq_bclaim_woken_idle"), "the job is behind a hundred")
	})
	b.share("and nothing behind them", func(b *bed) {
		b.Do(bad(q, 100)...)
		w := b.wait(q)
		require.Equal(b.t, wire.Integer(0), b.Do("EXISTS", q.Pending()))
		b.before(q, q.Enqueue("JOB1", "x"))
		w.has(q, "JOB1")
	})
}

// A queue with a key of the wrong type is refused at the call, and skipped while a client waits.
func TestTypes(t *testing.T) {
	b := begin(t)
	for _, key := range []string{q.Pending(), q.Active(), r.Pending(), r.Active()} {
		b.share(key+" at the call", func(b *bed) {
			b.Do(q.Enqueue("JOB1", "x")...)
			b.Must("DEL "+key, "SADD "+key+" x")
			require.Equal(b.t, wire.WrongType, b.Do(wire.BClaim(lease, 0, q, r)...))
			require.Equal(b.t, wire.WrongType, b.Pipeline(exec(wire.BClaim(lease, 0, q, r)))[2][len("*1\r\n"):])
			b.waiting(0)
		})
	}
	for _, key := range []string{q.Pending(), q.Active()} {
		b.share(key+" while waiting", func(b *bed) {
			w := b.wait(q, r)
			b.Pipeline(exec(q.Enqueue("JOB1", "x"), words("DEL "+key), words("SADD "+key+" x")))
			b.waiting(1)
			b.before(r, r.Enqueue("JOB2", "x"))
			w.has(r, "JOB2")
		})
	}
	b.share("unclaimed comes before", func(b *bed) {
		b.Must("DEL "+wire.Identity, "SET "+q.Active()+" x", "SET "+r.Pending()+" x")
		require.Contains(b.t, b.Do(wire.BClaim(lease, 0, q, r)...), "-EMQFENCE ")
		b.Must("DEL " + r.Pending())
		require.Equal(b.t, wire.WrongType, b.Do(wire.BClaim(lease, 0, q, r)...))
	})
}

// The memory of clients that waited is freed.
func TestNoGrowth(t *testing.T) {
	t.Parallel()
	b := serve(t, store.Module())
	rounds := 200
	if os.Getenv("EMQ_PROOF") != "" {
		rounds = 2000
	}
	queues := []wire.Queue{q, r, s, wire.Queue(fmt.Sprintf("%0200d", 0))}
	clients := make([]*claimant, 100)
	turn := func(round int) {
		var commands, jobs [][]string
		for i, w := range clients {
			timeout := int64(0)
			switch i % 4 {
			case 1:
				timeout = 1
			case 2:
				commands = append(commands, []string{"CLIENT", "UNBLOCK", w.id, []string{"TIMEOUT", "ERROR"}[round%2]})
			}
			w.Send(wire.BClaim(lease, timeout, queues...))
		}
		for i, w := range clients {
			if i%4 != 1 {
				w.blocked()
			}
			if i%4 == 0 {
				jobs = append(jobs, queues[i/4%4].Enqueue(fmt.Sprintf("JOB%d-%d", round, i), "x"))
			}
			if i%4 == 3 {
				commands = append(commands, []string{"CLIENT", "KILL", "ID", w.id})
			}
		}
		b.Pipeline(commands)
		for i, w := range clients {
			switch i % 4 {
			case 1, 2:
				w.Receive()
			case 3:
				w.Ended()
				clients[i] = b.client()
			}
		}
		b.Pipeline(jobs)
		for i := 0; i < len(clients); i += 4 {
			clients[i].Receive()
		}
	}
	// held is the server's allocated memory without clients and data.
	held := func(rounds int) int {
		for i := range clients {
			clients[i] = b.client()
		}
		for i := range rounds {
			turn(i)
		}
		b.waiting(0)
		for _, w := range clients {
			_ = w.Close()
		}
		b.Must("FLUSHALL SYNC", "SET "+wire.Identity+" "+wire.Wire6)
		store.WaitFor(t, "the clients to be gone", func() bool { return b.Info("connected_clients") == "1" })
		return b.count("used_memory")
	}
	before := held(20)
	grown := held(rounds) - before
	// The variation is less than a leak for one in a hundred waiters.
	require.Less(t, grown, 100<<10)
	t.Logf("%d waits: %d bytes", rounds*len(clients), grown)
}

// Entries after a hundred broken ones, and entries that came during a pause, are claimed in the next turn, not only by
// the sweep: the sweep does nothing while there are too few replicas.
func TestSeenToInTheNextTurn(t *testing.T) {
	b := begin(t)
	bad := []string{"ZADD", q.Pending()}
	for i := range 250 {
		bad = append(bad, "0", fmt.Sprintf("JOB!%04d", i))
	}
	for name, cause := range map[string][]string{"behind bad entries": bad, "in a pause": words("CLIENT PAUSE 600000 WRITE")} {
		b.share(name, func(b *bed) {
			w := b.wait(q)
			b.Pipeline(exec(cause, q.Enqueue("JOBx", "x"), words("CONFIG SET min-replicas-to-write 1")))
			b.Must("CLIENT UNPAUSE")
			w.has(q, "JOBx")
			b.Must("CONFIG SET min-replicas-to-write 0")
		})
	}
}
