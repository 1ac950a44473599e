package gates

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// An opening opens a gate for which a client waits to get JOB2.
type opening struct {
	name  string
	given func(b *bed)
	cause [][]string
}

func exec(commands ...[]string) [][]string {
	return append(append([][]string{{"MULTI"}}, commands...), []string{"EXEC"})
}

func script(args []string) [][]string {
	return [][]string{append([]string{"EVAL", "return redis.call(unpack(ARGV))", "0"}, args...)}
}

// openings are the ones that the module notices at once.
func openings() []opening {
	paused := func(b *bed) {
		b.enqueue(q, "JOB2")
		require.Equal(b.t, ok, b.Do(q.Pause(0)...))
	}
	full := func(b *bed) {
		b.enqueue(q, "JOB1", "JOB2")
		require.Equal(b.t, ok, b.Do(q.Limit(1, 0, 0)...))
		b.take(q, "JOB1")
	}
	spent := func(b *bed) {
		b.enqueue(q, "JOB1", "JOB2")
		require.Equal(b.t, ok, b.Do(q.Limit(0, 1, lease)...))
		b.take(q, "JOB1")
		require.Equal(b.t, wire.Integer(1), b.Do(q.Complete("JOB1", "1")...))
	}
	lapsed := func(b *bed) {
		full(b)
		b.Must("ZADD "+q.Active()+" 1 JOB1", "HSET "+q.Row("JOB1")+" stalled 4")
	}
	orphan := func(b *bed) {
		full(b)
		b.Must("DEL " + q.Row("JOB1"))
	}
	one := func(args []string) [][]string { return [][]string{args} }
	return []opening{
		{"RESUME", paused, one(q.Resume())},
		{"RESUME in a transaction", paused, exec(q.Resume())},
		{"RESUME in a script", paused, script(q.Resume())},
		{"RESUME, after a pause for a time", func(b *bed) { b.enqueue(q, "JOB2"); b.Do(q.Pause(lease)...) }, one(q.Resume())},
		{"LIMIT to more", full, one(q.Limit(2, 0, 0))},
		{"LIMIT to nothing", full, one(q.Limit(0, 0, 0))},
		{"LIMIT that forgets a window", spent, one(q.Limit(0, 1, lease))},
		{"LIMIT to nothing, of a rate", spent, one(q.Limit(0, 0, 0))},
		{"COMPLETE", full, one(q.Complete("JOB1", "1"))},
		{"COMPLETE in a transaction", full, exec(q.Complete("JOB1", "1"))},
		{"COMPLETE in a script", full, script(q.Complete("JOB1", "1"))},
		{"FAIL for later", full, one(q.Fail("JOB1", "1", lease, 9, "why"))},
		{"FAIL to the dead letters", full, one(q.Fail("JOB1", "1", 0, 1, "why"))},
		{"MCOMPLETE", full, one(q.Mcomplete("JOB1", "1"))},
		{"MFAIL", full, one(q.Mfail(1, "JOB1", "1", "0", "why"))},
		{"RELEASE for later", full, one(q.Release("JOB1", "1", lease))},
		{"REMOVE", full, one(q.Remove("active", "JOB1"))},
		{"REAP to the dead letters", lapsed, one(q.Reap(1, 10))},
		{"AUDIT FIX", orphan, one(q.Fix("active:0", 10))},
	}
}

// TestServedWhenAGateOpens checks that whatever opens a gate, waiting clients are served before any other client's command.
func TestServedWhenAGateOpens(t *testing.T) {
	b := begin(t)
	for _, o := range openings() {
		b.share(o.name, func(b *bed) {
			o.given(b)
			w := b.wait(q)
			b.opens(o.cause...)
			require.Equal(b.t, wire.BClaimed(q, "JOB2", "x", 1), w.Receive())
		})
	}
	b.share("RELEASE at once", func(b *bed) {
		b.enqueue(q, "JOB1", "JOB2")
		b.Do(q.Limit(1, 0, 0)...)
		b.take(q, "JOB1")
		w := b.wait(q)
		b.opens(q.Release("JOB1", "1", 0))
		require.Equal(b.t, wire.BClaimed(q, "JOB1", "x", 2), w.Receive(), "it is the first again")
	})
	b.share("a job comes into a queue whose gate is open", func(b *bed) {
		b.Do(q.Limit(1, 5, lease)...)
		w := b.wait(q)
		b.opens(q.Enqueue("JOB2", "x"))
		require.Equal(b.t, wire.BClaimed(q, "JOB2", "x", 1), w.Receive())
	})
	b.share("a gate is shut while it waits", func(b *bed) {
		w := b.wait(q)
		require.Equal(b.t, ok, b.Do(q.Pause(0)...))
		b.opens(q.Enqueue("JOB2", "x"))
		b.opens(q.Resume())
		require.Equal(b.t, wire.BClaimed(q, "JOB2", "x", 1), w.Receive())
	})
	b.share("a gate is shut by the one before it in line", func(b *bed) {
		require.Equal(b.t, ok, b.Do(q.Limit(1, 0, 0)...))
		first, second := b.wait(q), b.wait(q)
		b.opens(q.Menqueue("JOB1", "x", "JOB2", "x"))
		require.Equal(b.t, wire.BClaimed(q, "JOB1", "x", 1), first.Receive())
		b.opens(q.Complete("JOB1", "1"))
		require.Equal(b.t, wire.BClaimed(q, "JOB2", "x", 1), second.Receive())
	})
	b.share("nothing opens: it waits on", func(b *bed) {
		b.enqueue(q, "JOB1", "JOB2", "JOB3")
		b.Do(q.Limit(1, 0, 0)...)
		b.take(q, "JOB1")
		b.Do(q.Pause(0)...)
		w := b.wait(q)
		for _, args := range [][]string{q.Complete("JOB1", "1"), q.Limit(9, 0, 0), q.Enqueue("JOB4", "x"), q.Pause(lease), q.Pause(0)} {
			b.opens(args)
		}
		require.Equal(b.t, "1", b.Info("emq_waiting_clients"))
		b.opens(q.Resume(), q.Pause(0))
		require.Equal(b.t, wire.BClaimed(q, "JOB2", "x", 1), w.Receive(), "it was open for a moment")
	})
}

// TestBeganToWaitThisMoment lets a client begin to wait for a gate, and the gate open in the same turn of the event
// loop, before any timer: the client is still served first.
func TestBeganToWaitThisMoment(t *testing.T) {
	b := begin(t)
	for _, o := range openings() {
		b.share(o.name, func(b *bed) {
			o.given(b)
			w, sleeper := wire.Dial(b.t, b.Socket), wire.Dial(b.t, b.Socket)
			require.Equal(b.t, "+PONG\r\n", w.Do("PING"))
			sleeper.Send([]string{"DEBUG", "SLEEP", "0.05"})
			w.Send(wire.BClaim(lease, 0, q))
			b.opens(o.cause...)
			require.Equal(b.t, wire.BClaimed(q, "JOB2", "x", 1), w.Receive())
			require.Equal(b.t, ok, sleeper.Receive())
		})
	}
}

// TestServedInTurn checks that the slots that a gate frees go to the waiting clients in their order, one to each.
func TestServedInTurn(t *testing.T) {
	b := begin(t)
	b.share("places", func(b *bed) {
		b.enqueue(q, "JOB0", "JOB1", "JOB2", "JOB3", "JOB4")
		b.Do(q.Limit(1, 0, 0)...)
		b.take(q, "JOB0")
		var line []*wire.Conn
		for range 4 {
			line = append(line, b.wait(q))
		}
		for i, w := range line {
			b.opens(q.Complete("JOB"+strconv.Itoa(i), "1"))
			require.Equal(b.t, wire.BClaimed(q, "JOB"+strconv.Itoa(i+1), "x", 1), w.Receive())
			require.Equal(b.t, strconv.Itoa(3-i), b.Info("emq_waiting_clients"))
		}
	})
	b.share("several places at once", func(b *bed) {
		b.enqueue(q, "JOB0", "JOB1", "JOB2", "JOB3", "JOB4", "JOB5")
		b.Do(q.Limit(2, 0, 0)...)
		b.take(q, "JOB0", "JOB1")
		var line []*wire.Conn
		for range 4 {
			line = append(line, b.wait(q))
		}
		b.opens(q.Mcomplete("JOB0", "1", "JOB1", "1"))
		require.Equal(b.t, wire.BClaimed(q, "JOB2", "x", 1), line[0].Receive())
		require.Equal(b.t, wire.BClaimed(q, "JOB3", "x", 1), line[1].Receive())
		require.Equal(b.t, "2", b.Info("emq_waiting_clients"))
		b.opens(q.Limit(3, 0, 0))
		require.Equal(b.t, wire.BClaimed(q, "JOB4", "x", 1), line[2].Receive())
		b.opens(q.Limit(0, 0, 0))
		require.Equal(b.t, wire.BClaimed(q, "JOB5", "x", 1), line[3].Receive())
	})
	b.share("the first leaves", func(b *bed) {
		b.enqueue(q, "JOB0", "JOB1")
		b.Do(q.Limit(1, 0, 0)...)
		b.take(q, "JOB0")
		first, second := b.wait(q), b.wait(q)
		require.NoError(b.t, first.Close())
		store.WaitFor(b.t, "it to be gone", func() bool { return b.Info("emq_waiting_clients") == "1" })
		b.opens(q.Complete("JOB0", "1"))
		require.Equal(b.t, wire.BClaimed(q, "JOB1", "x", 1), second.Receive())
	})
}

// TestPassesOverGatedQueues checks that a claim from several queues skips a gated one.
func TestPassesOverGatedQueues(t *testing.T) {
	b := begin(t)
	gate := map[string]func(b *bed){
		"paused":  func(b *bed) { b.Do(q.Pause(0)...) },
		"full":    func(b *bed) { b.Do(q.Limit(1, 0, 0)...); b.enqueue(q, "JOB0"); b.take(q, "JOB0") },
		"used up": func(b *bed) { b.Do(q.Limit(0, 1, lease)...); b.enqueue(q, "JOB0"); b.take(q, "JOB0") },
	}
	open := [][]string{q.Resume(), q.Limit(0, 0, 0)}
	for name, shut := range gate {
		b.share(name+"/at once", func(b *bed) {
			shut(b)
			b.enqueue(q, "JOB1")
			b.enqueue(s, "JOB2")
			require.Equal(b.t, wire.BClaimed(s, "JOB2", "x", 1), b.Do(wire.BClaim(lease, 0, q, r, s)...))
		})
		b.share(name+"/while waiting", func(b *bed) {
			shut(b)
			b.enqueue(q, "JOB1")
			w, x := b.wait(q, r, s), b.wait(q, s)
			b.Do(s.Pause(0)...)
			b.enqueue(s, "JOB2")
			b.enqueue(r, "JOB3")
			require.Equal(b.t, wire.BClaimed(r, "JOB3", "x", 1), w.Receive(), "two are shut")
			require.Equal(b.t, "1", b.Info("emq_waiting_clients"))
			b.Do(s.Resume()...)
			require.Equal(b.t, wire.BClaimed(s, "JOB2", "x", 1), x.Receive())
			w = b.wait(q, r)
			b.opens(open...)
			require.Equal(b.t, wire.BClaimed(q, "JOB1", "x", 1), w.Receive())
		})
		b.share(name+"/where waiting is denied", func(b *bed) {
			shut(b)
			b.enqueue(q, "JOB1")
			b.Must("MULTI")
			b.Do(wire.BClaim(lease, 0, q)...)
			require.Equal(b.t, wire.Array(wire.Empty), b.Do("EXEC"))
		})
	}
	b.share("all are shut, and open one after the other", func(b *bed) {
		for _, queue := range []wire.Queue{q, r, s} {
			b.enqueue(queue, "JOB1")
			b.Do(queue.Pause(0)...)
		}
		first, second, third := b.wait(q, r, s), b.wait(q, r, s), b.wait(s, r, q)
		b.Do(r.Resume()...)
		require.Equal(b.t, wire.BClaimed(r, "JOB1", "x", 1), first.Receive())
		b.Do(s.Resume()...)
		require.Equal(b.t, wire.BClaimed(s, "JOB1", "x", 1), second.Receive())
		b.Do(q.Resume()...)
		require.Equal(b.t, wire.BClaimed(q, "JOB1", "x", 1), third.Receive())
	})
}

// TestServedWhenTheTimeComes checks that waiting clients are served when a gate opens by itself, and not before its
// time by the server's clock. By how much later is logged, not asserted.
func TestServedWhenTheTimeComes(t *testing.T) {
	b := begin(t)
	at := func(b *bed, id string) int64 {
		n, err := strconv.ParseInt(wire.Value(b.Do("ZSCORE", q.Active(), id)).(string), 10, 64)
		require.NoError(b.t, err)
		return n - lease
	}
	number := func(b *bed, field string) int64 {
		n, err := strconv.ParseInt(wire.Value(b.Do("HGET", q.Meta(), field)).(string), 10, 64)
		require.NoError(b.t, err)
		return n
	}
	for i, ms := range []int64{1, 7, 30, 100, 260, 30, 7} {
		b.share(fmt.Sprintf("a pause of %d ms, %d", ms, i), func(b *bed) {
			b.enqueue(q, "JOB1")
			require.Equal(b.t, ok, b.Do(q.Pause(ms)...))
			until := number(b, "paused_until")
			c := wire.Dial(b.t, b.Socket)
			c.Send(wire.BClaim(lease, 0, q))
			require.Equal(b.t, wire.BClaimed(q, "JOB1", "x", 1), c.Receive())
			require.GreaterOrEqual(b.t, at(b, "JOB1"), until)
			t.Logf("a pause of %d ms: served %d ms after its end", ms, at(b, "JOB1")-until)
		})
		b.share(fmt.Sprintf("a window of %d ms, %d", ms, i), func(b *bed) {
			b.enqueue(q, "JOB1", "JOB2", "JOB3")
			require.Equal(b.t, ok, b.Do(q.Limit(0, 1, ms)...))
			first, second := wire.Dial(b.t, b.Socket), wire.Dial(b.t, b.Socket)
			b.take(q, "JOB1")
			window := number(b, "window")
			first.Send(wire.BClaim(lease, 0, q))
			require.Equal(b.t, wire.BClaimed(q, "JOB2", "x", 1), first.Receive())
			require.GreaterOrEqual(b.t, at(b, "JOB2"), window+ms)
			t.Logf("a window of %d ms: served %d ms after its end", ms, at(b, "JOB2")-window-ms)
			window = number(b, "window")
			second.Send(wire.BClaim(lease, 0, q))
			require.Equal(b.t, wire.BClaimed(q, "JOB3", "x", 1), second.Receive())
			require.GreaterOrEqual(b.t, at(b, "JOB3"), window+ms)
		})
	}
	b.share("not by a sweep", func(b *bed) {
		// Each sweep wakes the clients at a shut gate, in vain. Sweeps are rare, so soon a gate opens between two of them.
		b.enqueue(r, "JOB1")
		b.Do(r.Pause(0)...)
		b.wait(r)
		idle := func() string { return b.Info("emq_bclaim_woken_idle") }
		for i, shut := range [][]string{q.Pause(60), q.Limit(0, 1, 60)} {
			rounds, between := 0, false
			for ; !between; rounds++ {
				require.Less(b.t, rounds, 40, "each of these gates was opened by a sweep")
				id := fmt.Sprintf("JOB%d%02d", i, rounds)
				b.enqueue(q, "JOB0", id)
				b.Do(q.Resume()...)
				b.Do(q.Limit(0, 0, 0)...)
				b.Do(shut...)
				if i == 0 {
					b.Do(q.Remove("any", "JOB0")...)
				} else {
					b.take(q, "JOB0")
				}
				before := idle()
				w := wire.Dial(b.t, b.Socket)
				w.Send(wire.BClaim(lease, 0, q))
				// It tries again as soon as it waits.
				store.WaitFor(b.t, "its look", func() bool { return idle() != before || b.Do("ZSCORE", q.Active(), id) != wire.Nil })
				before = idle()
				require.Equal(b.t, wire.BClaimed(q, id, "x", 1), w.Receive())
				between = idle() == before
				b.Do(q.Remove("any", "JOB0", id)...)
			}
		}
	})
	b.share("several queues, each in its time", func(b *bed) {
		queues := []wire.Queue{q, r, s}
		var line []*wire.Conn
		for i, queue := range queues {
			b.enqueue(queue, "JOB1")
			require.Equal(b.t, ok, b.Do(queue.Pause(int64(90-30*i))...))
			line = append(line, b.wait(queue))
		}
		for i, queue := range queues {
			require.Equal(b.t, wire.BClaimed(queue, "JOB1", "x", 1), line[i].Receive())
		}
	})
	b.share("a longer pause comes, and a shorter", func(b *bed) {
		b.enqueue(q, "JOB1")
		b.Do(q.Pause(50)...)
		w := b.wait(q)
		idle := b.Info("emq_bclaim_woken_idle")
		b.Do(q.Pause(lease)...)
		store.WaitFor(b.t, "the first time to be over", func() bool { return b.Info("emq_bclaim_woken_idle") != idle })
		require.Equal(b.t, "1", b.Info("emq_waiting_clients"))
		b.Do(q.Pause(20)...)
		require.Equal(b.t, wire.BClaimed(q, "JOB1", "x", 1), w.Receive())
	})
	b.share("all of a window for those who wait", func(b *bed) {
		b.Do(q.Limit(0, 3, 40)...)
		var line []*wire.Conn
		for range 8 {
			line = append(line, b.wait(q))
		}
		b.stock(8)
		for i, w := range line {
			require.Equal(b.t, wire.BClaimed(q, fmt.Sprintf("JOB%05d", i), "x", 1), w.Receive())
		}
		require.GreaterOrEqual(b.t, at(b, "JOB00003")-at(b, "JOB00000"), int64(40))
		require.GreaterOrEqual(b.t, at(b, "JOB00006")-at(b, "JOB00003"), int64(40))
	})
}

// TestFoundBySweep checks that plain commands on meta and active open gates too. It does not check when: the contract
// says within a second.
func TestFoundBySweep(t *testing.T) {
	b := begin(t)
	pause, limit := func(b *bed) { b.Do(q.Pause(0)...) }, func(b *bed) {
		b.Do(q.Limit(1, 0, 0)...)
		b.enqueue(q, "JOB0")
		b.take(q, "JOB0")
	}
	for name, c := range map[string]struct {
		shut func(b *bed)
		line string
	}{
		"HDEL meta":      {pause, "HDEL " + q.Meta() + " paused"},
		"HSET meta":      {pause, "HSET " + q.Meta() + " paused 0"},
		"DEL meta":       {pause, "DEL " + q.Meta()},
		"meta expires":   {pause, "PEXPIRE " + q.Meta() + " 1"},
		"RENAME meta":    {pause, "RENAME " + q.Meta() + " elsewhere"},
		"SET meta":       {pause, "SET " + q.Meta() + " x"},
		"ZREM active":    {limit, "ZREM " + q.Active() + " JOB0"},
		"DEL active":     {limit, "DEL " + q.Active()},
		"HINCRBY places": {limit, "HINCRBY " + q.Meta() + " concurrency 1"},
	} {
		b.share(name, func(b *bed) {
			c.shut(b)
			b.enqueue(q, "JOB1")
			w := b.wait(q)
			require.False(b.t, wire.IsError(b.Run(c.line)))
			require.Equal(b.t, wire.BClaimed(q, "JOB1", "x", 1), w.Receive())
		})
	}
	b.share("another database", func(b *bed) {
		pause(b)
		b.enqueue(q, "JOB1")
		w := b.wait(q)
		b.Must("SELECT 1", "SET "+wire.Identity+" "+wire.Wire6)
		b.enqueue(q, "JOB1")
		b.Do(q.Resume()...)
		b.Must("SELECT 0")
		require.Equal(b.t, "1", b.Info("emq_waiting_clients"), "that is another queue")
		b.Must("SWAPDB 0 1")
		require.Equal(b.t, wire.BClaimed(q, "JOB1", "x", 1), w.Receive())
	})
}
