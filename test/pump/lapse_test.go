package pump

import (
	"bufio"
	"fmt"
	"net"
	"slices"
	"sort"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// A thousand leases expire without their workers: two ticks later every job is pending again, and each lost lease is
// counted. The old holders may still settle jobs that nobody else has claimed.
func TestWorkersGone(t *testing.T) {
	b := begin(t, "1000")
	ids := b.leased(q, 1000, 100)
	b.until(b.Now() + 100)
	lapsed := b.stats()["ticks"]
	for { // both in one step, so that no delay of ours counts
		b.Must("MULTI", "EMQ.DEBUG PUMP", "ZCARD "+q.Active())
		both := wire.Value(b.Do("EXEC")).([]any)
		ticks, active := both[0].([]any)[1].(int64), both[1].(int64)
		if active == 0 {
			break
		}
		require.LessOrEqual(t, ticks, lapsed+2, "%d are still active", active)
	}
	require.Equal(t, ids, b.Members(q.Pending()))
	for _, id := range []string{ids[0], ids[999]} {
		require.Equal(t, "1", b.field(q, id, "attempts"))
		require.NotEmpty(t, b.field(q, id, "lease_epoch"))
	}
	s := b.stats()
	require.EqualValues(t, 1000, s["stalled"]+s["returned"])
	require.Equal(t, wire.Integer(1), b.Do(q.Complete(ids[0], "1")...))
	require.Equal(t, wire.Claimed(ids[1], "x", 2), b.Do(q.Claim(maxTime)...))
	require.Equal(t, wire.Stale("complete"), b.Do(q.Complete(ids[1], "1")...))
}

// Leases that expire around a restart do not count, whether before or after it, and whether the server was stopped or
// killed. Retries that became due meanwhile are promoted.
func TestRestart(t *testing.T) {
	for name, kill := range map[string]bool{"stop": false, "kill": true} {
		t.Run(name, func(t *testing.T) {
			b := begin(t, never, "--appendonly", "yes", "--appendfsync", "always")
			ids := b.leased(q, 1000, 100)
			late := wire.Queue("late")
			later := b.leased(late, 10, 1500)
			failed := wire.Queue("failed")
			b.leased(failed, 1, maxTime)
			require.Equal(t, wire.Bulk("scheduled"), b.Do(failed.Fail("JOB0000000", "1", 100, 3, "why")...))
			b.until(b.Now() + 100)
			b.Options.Args[1] = soon
			if kill {
				b.Crash()
			} else {
				require.NoError(t, b.Stop())
			}
			b.again()
			b.has(q.Pending(), 1000)
			b.has(late.Pending(), 10)
			b.has(failed.Pending(), 1)
			b.uncounted(q, ids...)
			b.uncounted(late, later...)
			require.Equal(t, "1", b.field(failed, "JOB0000000", "failures"))
			require.Zero(t, b.stats()["stalled"])
		})
	}
}

// backlog makes n leases of another server that expired long ago.
func (b *bed) backlog(q wire.Queue, n int) {
	b.t.Helper()
	const script = `for i = tonumber(ARGV[1]), tonumber(ARGV[2]) do
		local id = string.format('JOB%011d', i)
		redis.call('HSET', KEYS[1] .. id, 'state', 'active', 'attempts', '1', 'payload', 'x', 'lease_epoch', 'other')
		redis.call('ZADD', KEYS[2], i, id)
	end`
	const chunk = 10_000
	for first := 1; first <= n; first += chunk {
		require.Equal(b.t, wire.Nil, b.Do("EVAL", script, "2", q.RowPrefix(), q.Active(), strconv.Itoa(first), strconv.Itoa(min(first+chunk-1, n))))
	}
}

// drained asserts that exactly the jobs of a backlog are pending.
func (b *bed) drained(q wire.Queue, n int) {
	b.t.Helper()
	const script = `local sound = 0
	for _, id in ipairs(redis.call('ZRANGE', KEYS[2], ARGV[1], ARGV[2])) do
		local row = redis.call('HMGET', KEYS[1] .. id, 'state', 'attempts', 'stalled')
		if row[1] == 'pending' and row[2] == '1' and not row[3] then sound = sound + 1 end
	end
	return sound`
	const chunk = 10_000
	sound := 0
	for first := 0; first < n; first += chunk {
		sound += int(wire.Value(b.Do("EVAL", script, "2", q.RowPrefix(), q.Pending(), strconv.Itoa(first), strconv.Itoa(first+chunk-1))).(int64))
	}
	require.Equal(b.t, n, sound)
	require.Equal(b.t, n, b.card(q.Pending()))
	require.Zero(b.t, b.card(q.Active()))
}

// A great many expired leases are returned, while the server replies to clients. How long both take is logged, not asserted.
func TestBacklog(t *testing.T) {
	n := store.Rounds(t, 20_000, 1_000_000)
	b := begin(t, "0")
	b.backlog(q, n)
	c := b.Place.Conn()
	b.Must("CONFIG SET emq.pump-interval-ms 1000")
	from := time.Now()
	var pings []time.Duration
	store.WaitFor(t, "the backlog to be returned", func() bool {
		for range 100 {
			sent := time.Now()
			require.Equal(t, "+PONG\r\n", c.Do("PING"))
			pings = append(pings, time.Since(sent))
		}
		return b.card(q.Active()) == 0
	})
	took := time.Since(from)
	sort.Slice(pings, func(i, j int) bool { return pings[i] < pings[j] })
	s := b.stats()
	t.Logf("%d leases in %s, %d slices of %d µs on average; PING p50 %s p99 %s max %s", n, took.Round(time.Millisecond), s["slices"],
		s["time_us"]/s["slices"], pings[len(pings)/2], pings[len(pings)*99/100], pings[len(pings)-1])
	b.drained(q, n)
	require.EqualValues(t, n, s["returned"])
}

// A worker that extends in time keeps its job, although the pump and another client reap all the time. It loses only
// leases that have expired by the clock, and a job is dead after three lost leases.
func TestExtendInTime(t *testing.T) {
	b := begin(t, "2")
	stop, done := make(chan struct{}), make(chan struct{})
	reaper := b.Place.Conn()
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				reaper.Do("EMQ.REAP", "3", q.Active(), q.Pending(), q.Dead(), q.Base(), "3", "100")
			}
		}
	}()
	defer func() { close(stop); <-done }()
	extended, lost, died := 0, 0, 0
	for job := 0; extended < store.Rounds(t, 100, 3000); job++ {
		id := fmt.Sprintf("JOB%d", job)
		require.Equal(t, wire.Integer(1), b.Do(q.Enqueue(id, "x")...))
		for losses := 0; ; {
			if b.field(q, id, "state") == "dead" {
				require.GreaterOrEqual(t, losses, 3)
				died++
				break
			}
			claim := wire.Value(b.Do(q.Claim(20)...)).([]any)
			if len(claim) == 0 { // it is not returned yet
				require.Contains(t, []string{"active", "pending", "dead"}, b.field(q, id, "state"))
				continue
			}
			require.Equal(t, id, claim[0])
			token := strconv.FormatInt(claim[2].(int64), 10)
			until, _ := strconv.ParseInt(fmt.Sprint(wire.Value(b.Do("ZSCORE", q.Active(), id))), 10, 64)
			held := true
			for range 20 {
				b.until(b.Now() + 10)
				b.Must("MULTI", fmt.Sprintf("EMQ.EXTEND 2 %s %s %s %s 20", q.Active(), q.Row(id), id, token), "ZSCORE "+q.Active()+" "+id, "TIME")
				all := wire.Value(b.Do("EXEC")).([]any)
				if all[0] != int64(1) {
					require.Equal(t, "EMQSTALE extend token mismatch", all[0])
					clock := all[2].([]any)
					seconds, _ := strconv.ParseInt(clock[0].(string), 10, 64)
					micros, _ := strconv.ParseInt(clock[1].(string), 10, 64)
					require.GreaterOrEqual(t, seconds*1000+micros/1000, until, "lost before its end")
					held = false
					break
				}
				until, _ = strconv.ParseInt(all[1].(string), 10, 64)
				extended++
			}
			if held {
				require.Equal(t, wire.Integer(1), b.Do(q.Complete(id, token)...))
				break
			}
			losses++
			lost++
		}
	}
	t.Logf("extended %d times, lost %d times, %d jobs dead", extended, lost, died)
}

// Entries that are broken, belong to a lane, or have no row neither stop nor delay the others. The last two kinds stay.
func TestBrokenEntries(t *testing.T) {
	b := begin(t, never)
	for _, state := range []string{"active", "scheduled"} {
		q := wire.Queue(state)
		set := q.Set(state)
		b.put(q, "JOBlane1", state, 1, "group", "g")
		for i := range 50 {
			b.put(q, fmt.Sprintf("JOB%02d", i), state, int64(i/10), "lease_epoch", "other")
		}
		for _, command := range [][]string{
			{"ZADD", set, "0", "JOBnorow", "2", "JOBnorow2", "3", "JOBstring", "4", "no job", "-inf", "JOBvery-old", "-5", ""},
			{"SET", q.Row("JOBstring"), "x"},
			{"HSET", q.Row("JOBbare"), "payload", "x"},
			{"ZADD", set, "3", "JOBbare"},
			{"HSET", q.Row("JOBnone"), "state", state, "payload", "x"},
			{"ZADD", set, "3", "JOBnone"},
			{"HSET", q.Row("JOBdead"), "state", "dead", "attempts", "1", "payload", "x"},
			{"ZADD", set, "3", "JOBdead"}, {"ZADD", q.Dead(), "0", "JOBdead"},
			{"HSET", q.Row("JOBlost"), "state", "dead", "attempts", "1", "payload", "x"},
			{"ZADD", set, "3", "JOBlost"}, // its state says dead, but it is not in that set
			{"HSET", q.Row("JOBbad"), "state", state, "attempts", "-1", "payload", "x", "stalled", "x"},
			{"ZADD", set, "4", "JOBbad"},
		} {
			require.NotEqual(t, byte('-'), b.Do(command...)[0], command)
		}
		b.put(q, "JOBlane2", state, 4, "group", "g")
	}
	// Nothing more is due: the pump rests although entries stay.
	b.Must("CONFIG SET emq.pump-interval-ms " + soon)
	for _, state := range []string{"active", "scheduled"} {
		q := wire.Queue(state)
		b.has(q.Set(state), 5)
		b.ticks(3)
		require.Equal(t, []string{"JOBvery-old", "JOBnorow", "JOBlane1", "JOBnorow2", "JOBlane2"}, b.Members(q.Set(state)))
		want := []string{"JOBbad", "JOBbare", "JOBlost", "JOBnone"}
		for i := range 50 {
			want = append(want, fmt.Sprintf("JOB%02d", i))
		}
		slices.Sort(want)
		require.Equal(t, want, b.Members(q.Pending()))
		require.Equal(t, []string{"JOBdead"}, b.Members(q.Dead()))
		b.Must("DEL " + q.Row("JOBstring"))
		// CLAIM buries jobs without attempts; the pump does not.
		for range 54 {
			b.Do(q.Claim(maxTime)...)
		}
		require.Zero(t, b.card(q.Pending()))
	}
	b.Must("FLUSHALL")
}

// A great many rows of a lane before the due jobs: the pump looks at each of them, over several ticks, and gets to the
// jobs after them.
func TestLaneInFront(t *testing.T) {
	b := begin(t, "0")
	const lanes = 20_000
	b.backlog(q, lanes)
	require.Equal(t, wire.Integer(lanes), b.Do("EVAL", `local ids = redis.call('ZRANGE', KEYS[2], 0, -1)
		for i, id in ipairs(ids) do
			redis.call('HSET', KEYS[1] .. id, 'group', 'g')
			redis.call('ZADD', KEYS[2], 1 + math.floor(i / 10000), id)
		end
		return #ids`, "2", q.RowPrefix(), q.Active()))
	b.put(q, "JOBz", "active", 2, "lease_epoch", "other") // the last of many with the same score
	b.put(q, "JOBzz", "active", 4, "lease_epoch", "other")
	other := wire.Queue("other")
	b.put(other, "JOB1", "active", 1, "lease_epoch", "other")
	b.Must("CONFIG SET emq.pump-interval-ms 300")
	b.has(other.Pending(), 1)
	b.ticks(2)
	const inABeat = 4096 + 32
	s := b.stats()
	require.NotZero(t, s["left"])
	require.LessOrEqual(t, s["left"], (s["ticks"]+1)*inABeat, "looks at the lane")
	b.Must("CONFIG SET emq.pump-interval-ms " + soon)
	b.has(q.Pending(), 2)
	require.Equal(t, lanes, b.card(q.Active()))
	// And again from the start: it finds an entry that became due before the place of the walk.
	b.put(q, "JOBa", "active", 1, "lease_epoch", "other")
	b.has(q.Pending(), 3)
}

// If a walk stopped among entries of the same score, and some of those that it has passed are removed, the next walk
// still meets all that follow.
func TestTiesGone(t *testing.T) {
	const ties, gone, jobs = 5_000, 3_000, 2_500
	b := begin(t, "0")
	require.Equal(t, wire.Nil, b.Do("EVAL", `for i = 1, tonumber(ARGV[1]) do redis.call('ZADD', KEYS[1], 1, string.format('JOB%05d', i)) end`,
		"1", q.Active(), strconv.Itoa(ties)))
	b.Must("CONFIG SET emq.pump-interval-ms " + never)
	store.WaitFor(t, "a walk", func() bool { return b.stats()["left"] >= 4096 })
	b.Must(fmt.Sprintf("ZREMRANGEBYRANK %s 0 %d", q.Active(), gone-1))
	for i := range jobs {
		b.put(q, fmt.Sprintf("JOBz%05d", i), "active", 2, "lease_epoch", "other")
	}
	b.Must("CONFIG SET emq.max-stalled 4")
	b.has(q.Pending(), jobs)
	b.Must("FLUSHALL")
}

// Leases are returned even in a queue with an endless stream of due retries, and so they are in other queues.
func TestNeitherStarves(t *testing.T) {
	b := begin(t, "0", "--emq.pump-budget-us", "100")
	const n = 20_000
	b.backlog(q, n)
	require.Equal(t, wire.Integer(n), b.Do("EVAL", `for _, id in ipairs(redis.call('ZRANGE', KEYS[2], 0, -1)) do
			redis.call('HSET', KEYS[1] .. id, 'state', 'scheduled')
		end
		redis.call('RENAME', KEYS[2], KEYS[3])
		return redis.call('ZCARD', KEYS[3])`, "3", q.RowPrefix(), q.Active(), q.Schedule()))
	other := wire.Queue("other")
	for i := range 100 {
		b.put(q, fmt.Sprintf("JOBlate%d", i), "active", 1, "lease_epoch", "other")
		b.put(other, fmt.Sprintf("JOBlate%d", i), "active", 1, "lease_epoch", "other")
	}
	b.Must("CONFIG SET emq.pump-interval-ms 1000")
	store.WaitFor(t, "the leases to be returned", func() bool {
		b.Must("MULTI", "EXISTS "+q.Active()+" "+other.Active(), "ZCARD "+q.Schedule())
		both := wire.Value(b.Do("EXEC")).([]any)
		require.NotZero(t, both[1], "the retries came first")
		return both[0] == int64(0)
	})
	b.Must("CONFIG SET emq.pump-budget-us 10000")
	b.has(q.Schedule(), 0)
	require.Equal(t, n+100, b.card(q.Pending()))
}

// FAIL gives a lease back, and the promotion of the retry does not revive it.
func TestOldHolderAfterPromotion(t *testing.T) {
	b := begin(t, soon)
	b.leased(q, 1, maxTime)
	id := "JOB0000000"
	require.Equal(t, wire.Bulk("scheduled"), b.Do(q.Fail(id, "1", 30, 3, "why")...))
	b.has(q.Pending(), 1)
	digest := b.digest()
	require.Equal(t, wire.Stale("retry"), b.Do(q.Fail(id, "1", 30, 3, "why")...))
	require.Equal(t, wire.Stale("complete"), b.Do(q.Complete(id, "1")...))
	require.Equal(t, digest, b.digest())
	require.Equal(t, wire.Claimed(id, "x", 2), b.Do(q.Claim(maxTime)...))
}

// A job that kills its workers becomes dead in the end, but never with a cap of 0. A job that belongs to a flow, and
// one for which dead can't be written, is returned again and again.
func TestMaxStalled(t *testing.T) {
	b := begin(t, soon)
	id := "JOB0000000"
	// lose claims a job and lets the lease expire. On a slow machine the server may not count that as a lost lease.
	lose := func(q wire.Queue) (state string) {
		t.Helper()
		require.Len(t, wire.Value(b.Do(q.Claim(1)...)), 3)
		store.WaitFor(t, "the lease to end", func() bool { state = b.field(q, id, "state"); return state != "active" })
		return state
	}
	const many = 50
	die := func(q wire.Queue, stalled string) {
		t.Helper()
		for lost := 1; lose(q) != "dead"; lost++ {
			require.Less(t, lost, many)
		}
		require.Equal(t, wire.Array(wire.Bulk("dead"), wire.Bulk(stalled), wire.Bulk("stalled")),
			b.Do("HMGET", q.Row(id), "state", "stalled", "last_error"))
		require.Equal(t, wire.Bulk("1"), b.Do("HGET", q.Failed(), "count"))
		require.Equal(t, []string{id}, b.Members(q.Dead()))
		require.Zero(t, b.card(q.Active())+b.card(q.Pending()))
	}
	b.enqueued(q, 1)
	die(q, "3")

	// A FAIL in between shows that the worker was alive: the count begins again.
	lived := wire.Queue("lived")
	b.enqueued(lived, 1)
	require.Equal(t, "pending", lose(lived))
	require.Equal(t, "pending", lose(lived))
	token := strconv.FormatInt(wire.Value(b.Do(lived.Claim(maxTime)...)).([]any)[2].(int64), 10)
	require.Equal(t, wire.Bulk("scheduled"), b.Do(lived.Fail(id, token, 0, 3, "why")...))
	b.has(lived.Pending(), 1)
	die(lived, "3")

	b.Must("CONFIG SET emq.max-stalled 1")
	once := wire.Queue("once")
	b.enqueued(once, 1)
	die(once, "1")

	flow := wire.Queue("flow")
	b.enqueued(flow, 1)
	b.Must("HSET " + flow.Row(id) + " parent JOBp")
	blocked := wire.Queue("blocked")
	b.enqueued(blocked, 1)
	b.Must("SET " + blocked.Dead() + " x")
	for range 5 {
		require.Equal(t, "pending", lose(flow))
		require.Equal(t, "pending", lose(blocked))
	}
	b.Must("DEL " + blocked.Dead())

	b.Must("CONFIG SET emq.max-stalled 0")
	patient := wire.Queue("patient")
	b.enqueued(patient, 1)
	for range 8 {
		require.Equal(t, "pending", lose(patient))
	}
	require.NotEmpty(t, b.field(patient, id, "stalled"))
}

// COMPLETE races with the pump at the deadline, on many connections: each job is completed once, or still exists.
func TestCompleteAtTheDeadline(t *testing.T) {
	b := begin(t, "1", "--emq.max-stalled", "0")
	const clients, batch = 4, 50
	rounds := store.Rounds(t, 6_000, 100_000) / clients / batch
	var wg sync.WaitGroup
	completed, stale := make([]int, clients), make([]int, clients)
	failures := make(chan error, clients)
	for i := range clients {
		wg.Go(func() {
			n, err := net.Dial("unix", b.Socket)
			if err != nil {
				failures <- err
				return
			}
			defer n.Close()
			r := bufio.NewReader(n)
			ask := func(commands [][]string) (replies []any) {
				if _, err := n.Write([]byte(wire.Encode(commands...))); err != nil {
					failures <- err
				}
				for range commands {
					reply, err := wire.Read(r)
					if err != nil {
						failures <- err
						return nil
					}
					replies = append(replies, wire.Value(reply))
				}
				return replies
			}
			for round := range rounds {
				var enqueues, claims, completes [][]string
				for j := range batch {
					enqueues = append(enqueues, q.Enqueue(fmt.Sprintf("JOB%d-%06d-%02d", i, round, j), "x"))
					claims = append(claims, q.Claim(1+int64(j%3)))
				}
				ask(enqueues)
				for _, reply := range ask(claims) {
					if job, ok := reply.([]any); ok && len(job) == 3 {
						completes = append(completes, q.Complete(job[0].(string), strconv.FormatInt(job[2].(int64), 10)))
					}
				}
				for _, reply := range ask(completes) {
					switch reply {
					case int64(1):
						completed[i]++
					case int64(0), "EMQSTALE complete token mismatch":
						stale[i]++
					default:
						failures <- fmt.Errorf("COMPLETE answered %v", reply)
					}
				}
			}
		})
	}
	wg.Wait()
	close(failures)
	require.NoError(t, <-failures)
	total, late := 0, 0
	for i := range clients {
		total += completed[i]
		late += stale[i]
	}
	k := b.Keyspace()
	live := 0
	for key := range k {
		if _, rest, ok := wire.Split(key); ok && len(rest) > 4 && rest[:4] == "job:" {
			live++
		}
	}
	s := b.stats()
	t.Logf("%d enqueued, %d completed, %d live, %d stale; %d returned", rounds*batch*clients, total, live, late, s["stalled"]+s["returned"])
	require.Equal(t, rounds*batch*clients, total+live)
	require.Equal(t, wire.Bulk(strconv.Itoa(total)), b.Do("HGET", q.Completed(), "count"))
	require.NotZero(t, s["stalled"]+s["returned"], "the pump was never first")
}
