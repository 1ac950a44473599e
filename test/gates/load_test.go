package gates

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// crew are workers that claim in every way and settle in every way.
type crew struct {
	b      *bed
	held   atomic.Int64 // jobs between the claim's reply and the verb that gives them up
	most   atomic.Int64
	done   atomic.Int64 // completed or removed
	wanted int64
}

// hold notes jobs that were handed out.
func (c *crew) hold(n int) {
	now := c.held.Add(int64(n))
	for {
		most := c.most.Load()
		if now <= most || c.most.CompareAndSwap(most, now) {
			return
		}
	}
}

type held struct{ id, token string }

// claim takes jobs in one of the ways.
func claim(conn *wire.Conn, dice *rand.Rand) (jobs []held) {
	job := func(v []any) held { return held{v[0].(string), strconv.FormatInt(v[2].(int64), 10)} }
	switch dice.IntN(3) {
	case 0:
		if v := wire.Value(conn.Do(q.Claim(lease)...)).([]any); len(v) > 0 {
			jobs = append(jobs, job(v))
		}
	case 1:
		for _, v := range wire.Value(conn.Do(q.Mclaim(lease, int64(1+dice.IntN(10)))...)).([]any) {
			jobs = append(jobs, job(v.([]any)))
		}
	default:
		if v := wire.Value(conn.Do(wire.BClaim(lease, 50, r, q)...)).([]any); len(v) > 0 {
			jobs = append(jobs, job(v[1:]))
		}
	}
	return jobs
}

// settle gives jobs up in one of the ways, and returns how many are gone for good.
func settle(t *testing.T, conn *wire.Conn, dice *rand.Rand, jobs []held) (gone int64) {
	t.Helper()
	var flat, ids []string
	for _, j := range jobs {
		flat = append(flat, j.id, j.token)
		ids = append(ids, j.id)
	}
	switch dice.IntN(8) {
	case 0:
		for _, j := range jobs {
			require.Equal(t, wire.Bulk("pending"), conn.Do(q.Release(j.id, j.token, 0)...))
		}
		return 0
	case 1:
		for _, j := range jobs {
			require.Equal(t, wire.Bulk("dead"), conn.Do(q.Fail(j.id, j.token, 0, 1, "why")...))
		}
		for _, status := range wire.Value(conn.Do(q.Requeue("dead", ids...)...)).([]any) {
			require.Equal(t, int64(1), status)
		}
		return 0
	case 2:
		for _, status := range wire.Value(conn.Do(q.Remove("active", ids...)...)).([]any) {
			require.Equal(t, int64(1), status)
		}
	case 3, 4:
		for _, status := range wire.Value(conn.Do(q.Mcomplete(flat...)...)).([]any) {
			require.Equal(t, int64(1), status)
		}
	default:
		for _, j := range jobs {
			require.Equal(t, wire.Integer(1), conn.Do(q.Complete(j.id, j.token)...))
		}
	}
	return int64(len(jobs))
}

// work runs the workers until all jobs are gone.
func (c *crew) work(workers int) {
	c.b.t.Helper()
	var wg sync.WaitGroup
	seed := store.Seed(c.b.t)
	for w := range workers {
		wg.Add(1)
		conn, dice := wire.Dial(c.b.t, c.b.Socket), rand.New(rand.NewPCG(seed, uint64(w)))
		go func() {
			defer wg.Done()
			for c.done.Load() < c.wanted && !c.b.t.Failed() {
				jobs := claim(conn, dice)
				if len(jobs) == 0 {
					continue
				}
				c.hold(len(jobs))
				if dice.IntN(3) == 0 {
					conn.Do("PING") // hold it for a while
				}
				c.held.Add(-int64(len(jobs)))
				c.done.Add(settle(c.b.t, conn, dice, jobs))
			}
		}()
	}
	wg.Wait()
	require.Equal(c.b.t, c.wanted, c.done.Load())
}

func (b *bed) stock(n int) {
	b.t.Helper()
	var jobs []string
	for i := range n {
		jobs = append(jobs, fmt.Sprintf("JOB%05d", i), "x")
		if len(jobs) == 2000 || i == n-1 {
			require.NotContains(b.t, b.Do(q.Menqueue(jobs...)...), "-")
			jobs = nil
		}
	}
}

// TestConcurrencyUnderLoad lets 20 workers claim in every way from a queue with concurrency 3: in the order in which
// the server executed the commands, there are never more than three active jobs, and often there are three.
func TestConcurrencyUnderLoad(t *testing.T) {
	b := begin(t)
	require.Equal(t, ok, b.Do(q.Limit(3, 0, 0)...))
	n := store.Rounds(t, 1500, 30_000)
	b.stock(n)
	c := &crew{b: b, wanted: int64(n)}
	c.work(20)
	require.LessOrEqual(t, c.most.Load(), int64(3), "the workers held more at a time")

	active, met := map[string]bool{}, map[int]int{}
	for _, unit := range units(b.Appended("incr")) {
		for _, args := range unit {
			if len(args) < 2 || args[1] != q.Active() {
				continue
			}
			switch strings.ToUpper(args[0]) {
			case "ZADD":
				for i := 3; i < len(args); i += 2 {
					active[args[i]] = true
				}
			case "ZREM":
				for _, id := range args[2:] {
					delete(active, id)
				}
			}
		}
		met[len(active)]++
	}
	for places, times := range met {
		require.LessOrEqual(t, places, 3, "%d active, %d times", places, times)
	}
	require.Greater(t, met[3], n/20, "the gate held nobody back: %v", met)
	require.Empty(t, b.Keyspace().Check(wire.Wire6))
}

// TestRateUnderLoad lets 20 workers claim in every way from a queue with a rate limit: no window has more jobs than the
// limit, none begins before the previous one is over, and all jobs are done.
func TestRateUnderLoad(t *testing.T) {
	const most, duration = 100, 1000
	b := begin(t)
	require.Equal(t, ok, b.Do(q.Limit(0, most, duration)...))
	n := store.Rounds(t, 450, 3000)
	b.stock(n)
	c := &crew{b: b, wanted: int64(n)}
	c.work(20)

	var window, used int64
	windows, full := 0, 0
	for _, unit := range units(b.Appended("incr")) {
		granted := int64(0)
		var spent []string
		for _, args := range unit {
			if strings.ToUpper(args[0]) == "ZADD" && args[1] == q.Active() {
				granted += int64(len(args)-2) / 2
			}
			if strings.ToUpper(args[0]) == "HSET" && args[1] == q.Meta() && args[2] != "max" {
				spent = args[2:]
			}
		}
		if granted == 0 {
			require.Nil(t, spent, "%v", unit)
			continue
		}
		require.NotNil(t, spent, "a grant that spends nothing: %v", unit)
		if spent[0] == "window" {
			begins, err := strconv.ParseInt(spent[1], 10, 64)
			require.NoError(t, err)
			require.GreaterOrEqual(t, begins-window, int64(duration), "a window began too early")
			window, used = begins, 0
			windows++
			spent = spent[2:]
		}
		used += granted
		require.Equal(t, []string{"used", strconv.FormatInt(used, 10)}, spent)
		require.LessOrEqual(t, used, int64(most))
		if used == most {
			full++
		}
	}
	require.GreaterOrEqual(t, windows, n/most)
	require.GreaterOrEqual(t, full, n/most-1, "the gate held nobody back in %d windows", windows)
	require.Empty(t, b.Keyspace().Check(wire.Wire6))
}

// TestRemoveRacesWithItsHolder removes jobs while their holders settle, extend and release them: the first succeeds,
// and the reply tells the other.
func TestRemoveRacesWithItsHolder(t *testing.T) {
	b := begin(t)
	seed := store.Seed(t)
	dice := rand.New(rand.NewPCG(seed, 0))
	holder, operator := wire.Dial(t, b.Socket), wire.Dial(t, b.Socket)
	seen := map[string]int{}
	for round := range store.Rounds(t, 600, 20_000) {
		id := fmt.Sprintf("JOB%06d", round)
		b.enqueue(q, id)
		b.take(q, id)
		way := dice.IntN(5)
		args := [][]string{q.Complete(id, "1"), q.Fail(id, "1", 0, 1, "why"), q.Extend(id, "1", lease), q.Release(id, "1", 0), q.Mcomplete(id, "1")}[way]
		if dice.IntN(2) == 0 {
			holder.Send(args)
			operator.Send(q.Remove("any", id))
		} else {
			operator.Send(q.Remove("any", id))
			holder.Send(args)
		}
		mine, theirs := holder.Receive(), operator.Receive()
		lost := []string{wire.Integer(0), wire.Gone, wire.Integer(-1), wire.Gone, wire.Statuses(0)}[way]
		won := []string{wire.Integer(1), wire.Bulk("dead"), wire.Integer(1), wire.Bulk("pending"), wire.Statuses(1)}[way]
		settled := way == 0 || way == 4
		switch {
		case mine == lost:
			require.Equal(t, wire.Statuses(1), theirs)
		case settled:
			require.Equal(t, won, mine)
			require.Equal(t, wire.Statuses(0), theirs)
		default: // it went on, and was removed afterwards
			require.Equal(t, won, mine)
			require.Equal(t, wire.Statuses(1), theirs)
		}
		seen[fmt.Sprint(way, mine == lost)]++
		require.Equal(t, wire.Integer(0), b.Do("EXISTS", q.Row(id), q.Pending(), q.Active(), q.Dead(), q.Schedule()), "nothing of it is left")
	}
	require.Len(t, seen, 10, "each came first: %v", seen)
}
