package waiting

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

const (
	unblocked = "-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n"
	foreign   = "-EMQFENCE {emq}:version is \"echomq:4.0.0\", this executor speaks \"echomq:6.0.0\"\r\n"
)

// Each way in which a client may leave before a job comes. The next in line gets the job.
func TestLeaves(t *testing.T) {
	b := begin(t)
	for name, leave := range map[string]func(b *bed, w *claimant){
		"CLIENT UNBLOCK":       func(b *bed, w *claimant) { b.Must("CLIENT UNBLOCK " + w.id); w.gets(wire.Empty) },
		"CLIENT UNBLOCK ERROR": func(b *bed, w *claimant) { b.Must("CLIENT UNBLOCK " + w.id + " ERROR"); w.gets(unblocked) },
		"CLIENT KILL":          func(b *bed, w *claimant) { b.Must("CLIENT KILL ID " + w.id); w.Ended() },
		"close":                func(b *bed, w *claimant) { _ = w.Close(); b.waiting(1) },
	} {
		b.share(name, func(b *bed) {
			w, next := b.wait(q, r), b.wait(r, q)
			leave(b, w)
			require.Equal(b.t, "1", b.Info("emq_waiting_clients"))
			b.before(q, q.Enqueue("JOB1", "x"))
			next.has(q, "JOB1")
		})
	}
	b.share("RST", func(b *bed) {
		w := named(b, wire.DialTCP(b.t, b.Addr())).wait(0, q)
		next := b.wait(q)
		w.Reset()
		b.waiting(1)
		b.before(q, q.Enqueue("JOB1", "x"))
		next.has(q, "JOB1")
	})
	b.share("ACL DELUSER", func(b *bed) {
		w, next := b.user("w", "on nopass ~* +@all").wait(0, q), b.wait(q)
		b.before(q, []string{"ACL", "DELUSER", "w"}, q.Enqueue("JOB1", "x"))
		w.Ended()
		next.has(q, "JOB1")
	})
	b.share("a timeout", func(b *bed) {
		w, next, start := b.client(), b.client(), b.Now()
		w.Send(wire.BClaim(lease, 1000, q))
		next.wait(0, q)
		w.gets(wire.Empty)
		require.GreaterOrEqual(b.t, b.Now(), start+1000)
		b.before(q, q.Enqueue("JOB1", "x"))
		next.has(q, "JOB1")
	})
	b.share("the longest timeout", func(b *bed) {
		w := b.client().wait(1<<52-1, q)
		require.Contains(b.t, b.Do(wire.BClaim(lease, 1<<52, q)...), "-ERR ")
		b.before(q, q.Enqueue("JOB1", "x"))
		w.has(q, "JOB1")
	})
	require.Equal(t, "0", b.Info("emq_panics"))
}

// user is a client that has logged in as a user with these rights.
func (b *bed) user(name, rights string) *claimant {
	b.t.Helper()
	b.Must("ACL SETUSER " + name + " reset " + rights)
	b.t.Cleanup(func() { b.Do("ACL", "DELUSER", name) })
	w := b.client()
	w.Must("AUTH " + name + " any")
	return w
}

// The same after the grant, in the same turn of the event loop: there is at most one reply, and the job is leased.
func TestLeavesAfterGrant(t *testing.T) {
	b := begin(t)
	for name, tt := range map[string]struct {
		leave string
		gets  func(w *claimant)
	}{
		"CLIENT UNBLOCK":       {"CLIENT UNBLOCK %s", func(w *claimant) { w.has(q, "JOB1") }},
		"CLIENT UNBLOCK ERROR": {"CLIENT UNBLOCK %s ERROR", func(w *claimant) { w.gets(unblocked) }},
		"CLIENT KILL":          {"CLIENT KILL ID %s", func(w *claimant) { w.Ended() }},
		"ACL DELUSER":          {"ACL DELUSER w", func(*claimant) {}}, // the reply may or may not have been sent
	} {
		b.share(name, func(b *bed) {
			w, next := b.user("w", "on nopass ~* +@all").wait(0, q), b.wait(q)
			leave := tt.leave
			if strings.Contains(leave, "%s") {
				leave = fmt.Sprintf(leave, w.id)
			}
			b.before(q, q.Enqueue("JOB1", "x"), words(leave))
			tt.gets(w)
			b.leased(q, "JOB1")
			b.waiting(1)
			b.before(q, q.Enqueue("JOB2", "x"))
			next.has(q, "JOB2")
		})
	}
}

// Between the wake and the grant, in one transaction: the woken client leaves, and the next is woken.
func TestLeavesWhenWoken(t *testing.T) {
	b := begin(t)
	for name, tt := range map[string]struct {
		leave string
		gets  func(w *claimant)
	}{
		"CLIENT UNBLOCK":            {"CLIENT UNBLOCK %s", func(w *claimant) { w.gets(wire.Empty) }},
		"CLIENT UNBLOCK ERROR":      {"CLIENT UNBLOCK %s ERROR", func(w *claimant) { w.gets(unblocked) }},
		"CLIENT KILL":               {"CLIENT KILL ID %s", func(w *claimant) { w.Ended() }},
		"ACL DELUSER":               {"ACL DELUSER w", func(w *claimant) { w.Ended() }},
		"another user of that name": {"ACL DELUSER w;ACL SETUSER w on nopass ~* +@all", func(w *claimant) { w.Ended() }},
	} {
		for _, first := range []bool{false, true} {
			b.share(fmt.Sprintf("%s, %v", name, first), func(b *bed) {
				w, next := b.user("w", "on nopass ~* +@all").wait(0, q, r), b.wait(r, q)
				leave := tt.leave
				if strings.Contains(leave, "%s") {
					leave = fmt.Sprintf(leave, w.id)
				}
				var commands [][]string
				for line := range strings.SplitSeq(leave, ";") {
					commands = append(commands, words(line))
				}
				commands = slices.Insert(commands, map[bool]int{true: len(commands)}[first], q.Enqueue("JOB1", "x"))
				b.before(q, exec(commands...)...)
				tt.gets(w)
				next.has(q, "JOB1")
			})
		}
	}
}

// A client times out in the turn in which a timer wakes it: the next in line is served, before any other client's command.
func TestTimesOutWhenWoken(t *testing.T) {
	t.Parallel()
	b := serve(t, store.Pumped(append(logged, "--emq.pump-interval-ms", "10")...))
	for round := range 3 {
		w, next, other := b.client(), b.client(), b.client()
		id := fmt.Sprintf("JOB%d", round)
		w.Send(wire.BClaim(lease, 400, q))
		w.blocked()
		next.wait(0, q)
		b.Do(q.ScheduleIn(id, "x", 400)...)
		b.Send(words("DEBUG SLEEP 1"))
		other.Send(q.Claim(lease)) // is read in the turn after the one in which the timer fires
		require.Equal(t, wire.OK, b.Receive())
		first, second := w.Receive(), ""
		if first == wire.Empty {
			second = next.Receive()
		} else {
			b.Must("CLIENT UNBLOCK " + next.id)
			second = next.Receive()
			first, second = second, first
		}
		require.Equal(t, wire.Empty, first)
		require.Equal(t, wire.BClaimed(q, id, "x", 1), second)
		require.Equal(t, wire.Empty, other.Receive())
	}
}

// The server stops being a primary: in the turn of a grant, and without one.
func TestBecomesReplica(t *testing.T) {
	for _, granted := range []bool{true, false} {
		t.Run(fmt.Sprint(granted), func(t *testing.T) {
			b, primary := begin(t), store.Open(t, store.Module())
			w, next := b.wait(q), b.wait(q)
			host, port, _ := net.SplitHostPort(primary.Addr())
			commands := [][]string{q.Enqueue("JOB1", "x"), {"REPLICAOF", host, port}}
			if !granted {
				commands = commands[1:]
			}
			b.Pipeline(commands)
			for _, c := range []*claimant{w, next} {
				require.Contains(t, c.Receive(), "-UNBLOCKED force unblock from blocking operation")
				c.Ended()
			}
			require.Equal(t, "0", b.Info("emq_waiting_clients"))
			b.Must("REPLICAOF NO ONE")
			last := b.wait(q)
			b.Must("SET " + wire.Identity + " " + wire.Wire6)
			b.before(q, q.Enqueue("JOB2", "x"))
			last.has(q, "JOB2")
		})
	}
	t.Run("FAILOVER", func(t *testing.T) {
		b := begin(t)
		replica := store.Open(t, store.Module(store.Following(b.Addr())...))
		replica.Linked()
		b.Online()
		w := b.wait(q)
		b.Must("FAILOVER TO 127.0.0.1 " + strconv.Itoa(replica.Port()))
		require.Contains(t, w.Receive(), "-UNBLOCKED force unblock from blocking operation")
		w.Ended()
		store.WaitFor(t, "the hand-over", func() bool { return b.Info("role") == "slave" })
		require.Contains(t, b.Do(wire.BClaim(lease, 0, q)...), "-READONLY ")
	})
}

// While writes are paused no job is granted, but clients time out; afterwards the jobs are granted. A write during the
// pause would abort a server with an append-only file or a replica.
func TestPaused(t *testing.T) {
	b := begin(t)
	replica := store.Open(t, store.Module(store.Following(b.Addr())...))
	replica.Linked()
	b.Online()
	for _, cause := range [][]string{q.Enqueue("JOB1", "x"), {"EVAL", "return redis.call(unpack(ARGV))", "0", "EMQ.ENQUEUE", "2", q.Row("JOB1"), q.Pending(), "JOB1", "x"}} {
		b.share("WRITE "+cause[0], func(b *bed) {
			w, next := b.wait(q), b.wait(q)
			idle := b.count("emq_bclaim_woken_idle")
			b.Pipeline(exec(words("CLIENT PAUSE 600000 WRITE"), cause))
			require.Equal(b.t, "2", b.Info("emq_waiting_clients"))
			require.Equal(b.t, []string{"JOB1"}, b.Members(q.Pending()))
			b.Must("CLIENT UNBLOCK " + w.id)
			w.gets(wire.Empty)
			require.Equal(b.t, idle, b.count("emq_bclaim_woken_idle"), "one in a pause is not idle")
			b.Must("CLIENT UNPAUSE")
			next.has(q, "JOB1")
		})
	}
	b.share("timeouts run on", func(b *bed) {
		w := b.client()
		w.Send(wire.BClaim(lease, 100, q))
		w.blocked()
		b.Pipeline(exec(words("CLIENT PAUSE 600000 WRITE"), q.Enqueue("JOB1", "x")))
		w.gets(wire.Empty)
		b.Must("CLIENT UNPAUSE")
		require.Equal(b.t, wire.BClaimed(q, "JOB1", "x", 1), b.Do(wire.BClaim(lease, 0, q)...))
	})
	b.share("ALL", func(b *bed) {
		w := b.wait(q)
		b.Pipeline(exec(words("CLIENT PAUSE 300 ALL"), q.Enqueue("JOB1", "x")))
		w.has(q, "JOB1")
	})
	b.share("the call itself", func(b *bed) {
		w := b.client()
		b.Must("CLIENT PAUSE 600000 WRITE")
		w.Send(wire.BClaim(lease, 0, q))
		w.blocked()
		require.Equal(b.t, "0", b.Info("emq_waiting_clients"))
		b.Must("CLIENT UNPAUSE")
		b.waiting(1)
		b.before(q, q.Enqueue("JOB1", "x"))
		w.has(q, "JOB1")
	})
	store.InStep(t, b.Conn, replica.Conn())
}

// Changes to the store while a client waits.
func TestWaitsOn(t *testing.T) {
	b := begin(t)
	for name, lines := range map[string][]string{
		"FLUSHALL":                    {"FLUSHALL", "SET " + wire.Identity + " " + wire.Wire6},
		"FLUSHDB ASYNC":               {"FLUSHDB ASYNC", "SET " + wire.Identity + " " + wire.Wire6},
		"DEL pending":                 {"ZADD other 0 x", "DEL " + q.Pending()},
		"the identity is removed":     {"DEL " + wire.Identity},
		"DEBUG RELOAD":                {"DEBUG RELOAD"},
		"pending was of another type": {"SET " + q.Pending() + " x", "DEL " + q.Pending()},
		"a key of its own name":       {"SET \"\\x00emq:waiting:1\" x", "LPUSH \"\\x00emq:waiting:2\" x", "DEL \"\\x00emq:waiting:1\""},
		"the module's unload":         nil,
	} {
		b.share(name, func(b *bed) {
			w := b.wait(q)
			b.Must(lines...)
			if lines == nil {
				require.Contains(b.t, b.Do("MODULE", "UNLOAD", "emq"), "-ERR ")
			}
			require.Equal(b.t, "1", b.Info("emq_waiting_clients"))
			b.before(q, q.Enqueue("JOB1", "x"))
			w.has(q, "JOB1")
		})
	}
	b.share("in a transaction with the job", func(b *bed) {
		w := b.wait(q)
		for _, last := range []string{"FLUSHALL", "DEL " + q.Pending(), "ZREM " + q.Pending() + " JOB1", "DEL " + wire.Identity} {
			b.Pipeline(exec(q.Enqueue("JOB1", "x"), words(last)))
			require.Equal(b.t, "1", b.Info("emq_waiting_clients"))
			b.Must("FLUSHALL", "SET "+wire.Identity+" "+wire.Wire6)
		}
		b.before(q, q.Enqueue("JOB1", "x"))
		w.has(q, "JOB1")
	})
}

// The identity is foreign at the call, or becomes foreign while clients wait.
func TestFence(t *testing.T) {
	b := begin(t)
	b.share("at the call", func(b *bed) {
		b.Must("SET " + wire.Identity + " " + wire.Wire4)
		require.Equal(b.t, foreign, b.Do(wire.BClaim(lease, 0, q)...))
		b.Must("DEL "+wire.Identity, "SADD "+r.Pending()+" x")
		require.Contains(b.t, b.Do(wire.BClaim(lease, 0, q, r)...), "-EMQFENCE {emq}:version is absent")
		w := b.wait(q)
		b.before(q, q.Enqueue("JOB1", "x"))
		w.has(q, "JOB1")
	})
	b.share("while waiting", func(b *bed) {
		all := b.waits(3, q)
		b.row(q, "JOB1")
		b.Pipeline([][]string{{"SET", wire.Identity, wire.Wire4}, {"ZADD", q.Pending(), "0", "JOB1"}})
		for _, w := range all {
			w.gets(foreign)
		}
		require.Equal(b.t, []string{"JOB1"}, b.Members(q.Pending()))
	})
}

// A client loses its rights while it waits: it gets the server's own refusal, the ACL log gets the server's own entry,
// and the next client is woken.
func TestRightsLost(t *testing.T) {
	b := begin(t)
	for name, rights := range map[string]string{
		"the command": "-emq.bclaim",
		"all":         "-@all",
		"the key":     "resetkeys ~emq:{r}:*",
		"one of two":  "resetkeys ~emq:{q}:*",
		"to write":    "resetkeys %R~emq:{q}:* ~emq:{r}:*",
	} {
		b.share(name, func(b *bed) {
			w, next := b.user("w", "on nopass ~* +@all").wait(0, q, r), b.wait(q)
			b.Must("ACL LOG RESET", "ACL SETUSER w "+rights)
			b.before(q, q.Enqueue("JOB1", "x"))
			reply := w.Receive()
			entry := logEntry(b)
			b.Must("ACL LOG RESET")
			require.Equal(b.t, w.Do(wire.BClaim(lease, 0, q, r)...), reply)
			require.Equal(b.t, logEntry(b), entry)
			require.Contains(b.t, reply, "-NOPERM ")
			next.has(q, "JOB1")
		})
	}
	b.share("kept", func(b *bed) {
		w := b.user("w", "on nopass ~emq:{q}:* +emq.bclaim +ping +client").wait(0, q)
		b.Must("ACL SETUSER w -client")
		b.before(q, q.Enqueue("JOB1", "x"))
		w.has(q, "JOB1")
	})
}

// logEntry is the cause in the only entry of ACL LOG.
func logEntry(b *bed) string {
	b.t.Helper()
	entries := wire.Value(b.Do("ACL", "LOG")).([]any)
	require.Len(b.t, entries, 1)
	fields := entries[0].([]any)
	said := ""
	for i := 0; i < len(fields); i += 2 {
		if name := fields[i].(string); name == "reason" || name == "object" || name == "username" {
			said += fmt.Sprint(name, "=", fields[i+1], " ")
		}
	}
	return said
}

// A wrong argument, anywhere in the list, is refused before the client waits.
func TestRefused(t *testing.T) {
	b := begin(t)
	for _, tt := range []struct{ line, want string }{
		{"EMQ.BCLAIM 1 0", "-ERR wrong number of arguments"},
		{"EMQ.BCLAIM 0 0 emq:{q}:", "-ERR lease_ms must be"},
		{"EMQ.BCLAIM 1 -1 emq:{q}:", "-ERR timeout_ms must be"},
		{"EMQ.BCLAIM 1 01 emq:{q}:", "-ERR timeout_ms must be"},
		{"EMQ.BCLAIM 1 0 emq:{q}:pending", "-EMQKEY base must be"},
		{"EMQ.BCLAIM 1 0 emq:{q}: emq:{}:", "-EMQKEY base must be"},
		{"EMQ.BCLAIM x x emq:{q}: emq:{r}: emq:{r}:x", "-EMQKEY base must be"},
	} {
		require.Contains(t, b.Run(tt.line), tt.want, tt.line)
	}
	require.Equal(t, "0", b.Info("emq_waiting_clients"))
	require.Equal(t, "0", b.Info("emq_panics"))
}

// When memory is full, and with too few replicas: waiting clients get the jobs that come.
func TestUnderPressure(t *testing.T) {
	b := begin(t)
	b.share("maxmemory", func(b *bed) {
		w := b.wait(q)
		b.row(q, "JOB1", "JOB2")
		b.Pipeline(exec(words("ZADD "+q.Pending()+" 0 JOB1"), words("CONFIG SET maxmemory 1")))
		w.has(q, "JOB1")
		last := b.wait(q)
		require.Contains(b.t, b.Do(q.Enqueue("JOB3", "x")...), "-OOM ")
		b.Must("CONFIG SET maxmemory 0")
		b.before(q, words("ZADD "+q.Pending()+" 0 JOB2"))
		last.has(q, "JOB2")
	})
	b.share("NOREPLICAS", func(b *bed) {
		w := b.wait(q)
		b.Must("CONFIG SET min-replicas-to-write 1")
		require.Contains(b.t, b.Do(q.Enqueue("JOB1", "x")...), "-NOREPLICAS ")
		require.Contains(b.t, b.Do(wire.BClaim(lease, 0, q)...), "-NOREPLICAS ")
		b.Must("CONFIG SET min-replicas-to-write 0")
		b.before(q, q.Enqueue("JOB1", "x"))
		w.has(q, "JOB1")
	})
}

// Where blocking is denied the reply comes at once, with a job or empty.
func TestDenied(t *testing.T) {
	b := begin(t)
	b.Must("FUNCTION LOAD REPLACE " + strconv.Quote("#!lua name=d\nserver.register_function('run', function(_, a) return server.call(unpack(a)) end)"))
	for name, run := range map[string]func(args []string) string{
		"MULTI": func(args []string) string { return strings.TrimPrefix(b.Pipeline(exec(args))[2], "*1\r\n") },
		"script": func(args []string) string {
			return b.Do(append([]string{"EVAL", "return redis.call(unpack(ARGV))", "0"}, args...)...)
		},
		"pcall": func(args []string) string {
			return b.Do(append([]string{"EVAL", "return redis.pcall(unpack(ARGV))", "0"}, args...)...)
		},
		"function": func(args []string) string { return b.Do(append([]string{"FCALL", "run", "0"}, args...)...) },
	} {
		b.share(name, func(shared *bed) {
			require.Equal(shared.t, wire.Empty, run(wire.BClaim(lease, 0, q, r)))
			shared.Do(r.Enqueue("JOB1", "x")...)
			require.Equal(shared.t, wire.BClaimed(r, "JOB1", "x", 1), run(wire.BClaim(lease, 0, q, r)))
			require.Equal(shared.t, "0", shared.Info("emq_waiting_clients"))
		})
	}
}

// SHUTDOWN with an armed timer, and with waiting clients or after they have left. From 9.1 on the server logs that a
// module with blocked clients is not unloaded, without asking the module; nothing else is logged.
func TestStop(t *testing.T) {
	for name, stay := range map[string]bool{"they wait": true, "they went": false} {
		t.Run(name, func(t *testing.T) {
			b := begin(t)
			all := b.waits(3, q)
			b.Must("EMQ.PAUSE " + q.Base() + " 600000")
			idle := b.count("emq_bclaim_woken_idle")
			b.Do(q.Enqueue("JOB1", "x")...) // the timer is armed for the opening of the gate
			store.WaitFor(t, "a wake", func() bool { return b.count("emq_bclaim_woken_idle") > idle })
			for _, w := range all {
				if !stay {
					b.Must("CLIENT UNBLOCK " + w.id)
					w.gets(wire.Empty)
				}
			}
			require.NoError(t, b.Stop())
			for line := range strings.SplitSeq(b.Log(), "\n") {
				if !stay || !strings.Contains(line, " # Failed to unload module emq: the module has blocked clients.") {
					require.NotRegexp(t, ` # .*(emq|module|timer)`, line)
				}
			}
			b.Place.Start() // so that its end can be checked
		})
	}
}

// While the server accepts no writes, one with waiting clients is as idle as one without: the module does not check at
// each turn of the event loop whether it may write. The server counts the turns.
func TestIdle(t *testing.T) {
	b := begin(t)
	turns := func(lines ...string) int {
		b.Must(lines...)
		from := b.count("eventloop_cycles")
		end := b.client()
		end.Send(words("XREAD BLOCK 1000 STREAMS nothing $"))
		require.Equal(t, "*-1\r\n", end.Receive())
		return b.count("eventloop_cycles") - from
	}
	b.wait(q)
	for _, refuses := range []string{"CONFIG SET min-replicas-to-write 1", "CLIENT PAUSE 600000 WRITE"} {
		require.Less(t, turns(refuses), 300, refuses)
		b.Must("CONFIG SET min-replicas-to-write 0", "CLIENT UNPAUSE")
	}
	b.Pipeline(exec(words("CLIENT PAUSE 600000 WRITE"), q.Enqueue("JOB1", "x")))
	require.Less(t, turns(), 300, "a job in a pause")
	b.Must("CLIENT UNPAUSE")
}

// A panic has the same reply as in CLAIM, at the call and for a waiting client; nobody waits for ever because of the entry.
func TestPanic(t *testing.T) {
	t.Parallel()
	o := store.Module(logged...)
	o.Module = os.Getenv("EMQ_MODULE_DEBUG")
	b := serve(t, o)
	b.Panics = true
	const internal = "-ERR internal error in the EMQ module: no job was changed, see the server's log\r\n"
	all := b.waits(2, r, q)
	b.row(q, "JOB-debug-panic")
	b.Must("ZADD " + q.Pending() + " 0 JOB-debug-panic")
	for _, w := range all {
		w.gets(internal)
	}
	require.Equal(t, internal, b.Do(wire.BClaim(lease, 0, r, q)...))
	require.Equal(t, internal, b.Do(q.Claim(lease)...))
	require.Equal(t, "0", b.Info("emq_waiting_clients"))
	require.Equal(t, []string{"JOB-debug-panic"}, b.Members(q.Pending()))
	b.Must("ZREM " + q.Pending() + " JOB-debug-panic")
	w := b.wait(q)
	b.before(q, q.Enqueue("JOB1", "x"))
	w.has(q, "JOB1")
}
