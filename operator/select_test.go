package operator

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emq "emq/clients/go"
	"emq/test/link"
	"emq/test/store"
	"emq/test/wire"
)

// chosen are the ids of the selected jobs, and the progress of the walk.
func chosen(t *testing.T, s *Server, queue string, state emq.State, after Cursor, window int64, f Filter) (list []string, last Progress) {
	t.Helper()
	for j, err := range s.Select(t.Context(), queue, state, after, window, f, func(p Progress) { last = p }) {
		require.NoError(t, err)
		list = append(list, j.ID)
	}
	return list, last
}

// holds asserts that each of some ids is in a list; testify's Subset would take quadratic time.
func holds(t *testing.T, list, some []string) {
	t.Helper()
	in := map[string]bool{}
	for _, id := range list {
		in[id] = true
	}
	for _, id := range some {
		require.True(t, in[id], id)
	}
}

// named are the ids of jobs, for Apply.
func named(jobs iter.Seq2[Job, error]) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for j, err := range jobs {
			if !yield(j.ID, err) {
				return
			}
		}
	}
}

// An operator finds 3000 of 8000 dead letters by their error, and requeues these and no others.
func TestRequeueGroup(t *testing.T) {
	_, c, s := serve(t)
	q := wire.Queue("mail")
	all := ids(8000)
	fill(t, c, q, "", all)
	texts := make([]string, len(all))
	var wanted []string
	for i := range texts {
		switch {
		case i%8 < 3:
			texts[i] = fmt.Sprintf("dial tcp 10.0.0.%d:25: connect: connection refused", i%250)
			wanted = append(wanted, all[i])
		case i%8 < 7:
			texts[i] = fmt.Sprintf("550 5.1.1 <user%d@example.com>: no such user", i)
		default:
			texts[i] = "stalled"
		}
	}
	bury(t, c, q, texts...)
	var last Progress
	groups, err := s.Groups(t.Context(), "mail", emq.StateDead, Filter{}, func(p Progress) { last = p })
	require.NoError(t, err)
	require.Equal(t, Progress{Seen: 8000, Chosen: 8000, Total: 8000}, last)
	require.Len(t, groups, 3)
	for i, want := range []struct {
		error string
		jobs  int64
	}{{"550 5.1.1 <MAIL>: no such user", 4000}, {"dial tcp ADDR: connect: connection refused", 3000}, {"stalled", 1000}} {
		require.Equal(t, want.error, groups[i].Error)
		require.Equal(t, want.jobs, groups[i].Jobs)
	}
	require.Equal(t, texts[7994], groups[1].Example.LastError, "the latest")
	require.Nil(t, groups[1].Example.Payload)

	p, err := s.Apply(t.Context(), Requeue, "mail", emq.StateDead, named(s.Select(t.Context(), "mail", emq.StateDead, "", 0, Filter{Group: groups[1].Error}, nil)), func(p Progress) { last = p })
	require.NoError(t, err)
	require.Equal(t, Progress{Seen: 3000, Chosen: 3000, Changed: 3000}, p)
	require.Equal(t, p, last)
	require.Equal(t, wanted, walked(t, s, "mail", emq.StatePending, 1000))
	require.Len(t, walked(t, s, "mail", emq.StateDead, 1000), 5000)
	require.Equal(t, 6, calls64(t, c, "EMQ.REQUEUE"))
	p, err = s.Apply(t.Context(), Remove, "mail", emq.StateDead, named(s.Select(t.Context(), "mail", emq.StateDead, "", 0, Filter{Match: "NO SUCH"}, nil)), nil)
	require.NoError(t, err)
	require.EqualValues(t, 4000, p.Changed)
	groups, err = s.Groups(t.Context(), "mail", emq.StateDead, Filter{}, nil)
	require.NoError(t, err)
	require.Len(t, groups, 1)
}

// What a filter matches.
func TestFilter(t *testing.T) {
	_, c, s := serve(t)
	q := wire.Queue("q")
	now := time.UnixMilli(c.Now())
	id := func(ago time.Duration) string { return string(emq.LeastID(now.Add(-ago))) }
	old, young, other := id(3*time.Hour), id(time.Minute), "JOBx"
	must(t, c, q.Enqueue(old, "to: ANN\xff, \"Ünal\""), q.Enqueue(young, "to: bob"), q.Enqueue(other, "none"))
	fill(t, c, q, "1900000000000", []string{"JOB2"})
	for i, want := range []struct {
		f    Filter
		jobs []string
	}{
		{Filter{}, []string{old, young, other}},
		{Filter{Match: "ann"}, []string{old}}, {Filter{Match: "üNAL"}, []string{old}}, {Filter{Match: "ann\xff"}, []string{old}},
		{Filter{Match: "ann\xfe"}, nil}, {Filter{Match: "a.n"}, nil}, {Filter{Match: "to:"}, []string{old, young}},
		{Filter{OlderThan: time.Hour}, []string{old}}, {Filter{OlderThan: time.Second}, []string{old, young}},
		{Filter{MadeAfter: now.Add(-time.Hour)}, []string{young}}, {Filter{MadeAfter: now.Add(-24 * time.Hour)}, []string{old, young}},
		{Filter{OlderThan: time.Hour, Match: "bob"}, nil}, {Filter{Group: none}, []string{old, young, other}}, {Filter{Group: "x"}, nil},
	} {
		found, _ := chosen(t, s, "q", emq.StatePending, "", 0, want.f)
		slices.Sort(found)
		slices.Sort(want.jobs)
		require.Equal(t, want.jobs, found, "%d %+v", i, want.f)
	}

	// Only what the filter needs is read.
	c.Must("CONFIG RESETSTAT")
	found, p := chosen(t, s, "q", emq.StatePending, "", 0, Filter{OlderThan: time.Hour})
	require.Equal(t, []string{old}, found)
	require.Equal(t, Progress{Seen: 3, Chosen: 1, Total: 3}, p)
	require.Zero(t, calls64(t, c, "hmget"))
	chosen(t, s, "q", emq.StatePending, "", 0, Filter{Group: none})
	require.Equal(t, 3, calls64(t, c, "hmget"))
	require.Zero(t, calls64(t, c, "hget"))
	for j, err := range s.Select(t.Context(), "q", emq.StateScheduled, "", 0, Filter{Rows: true, Payload: 100}, nil) {
		require.NoError(t, err)
		require.Equal(t, "payload of JOB2", string(j.Payload))
		require.Equal(t, int64(1_900_000_000_000), j.Due.UnixMilli())
	}

	for j, err := range s.Select(t.Context(), "q", emq.StatePending, "", 0, Filter{Match: "ann"}, nil) {
		require.NoError(t, err)
		require.Nil(t, j.Payload, "it was read to be searched alone")
	}

	// A long payload is not searched, and is counted as skipped; its error is searched.
	must(t, c, q.Enqueue("JOBlong", strings.Repeat("ann", 1<<20)), []string{"HSET", q.Row("JOBlong"), "last_error", "Boom"})
	found, p = chosen(t, s, "q", emq.StatePending, "", 0, Filter{Match: "ann"})
	require.Equal(t, []string{old}, found)
	require.EqualValues(t, 1, p.Skipped)
	found, _ = chosen(t, s, "q", emq.StatePending, "", 0, Filter{Match: "boom"})
	require.Equal(t, []string{"JOBlong"}, found)
	for _, err := range s.Select(t.Context(), "q", emq.StatePending, "", 0, Filter{Group: others}, nil) {
		require.ErrorContains(t, err, "is no group")
	}
}

// A walk has a window, begins at a given place, and can be stopped.
func TestWindow(t *testing.T) {
	_, c, s := serve(t)
	all := ids(5000)
	fill(t, c, "q", "", all)
	fill(t, c, "ties", "1900000000000", all)
	for queue, state := range map[string]emq.State{"q": emq.StatePending, "ties": emq.StateScheduled} {
		first, err := s.Jobs(t.Context(), queue, state, "", 700, 0)
		require.NoError(t, err)
		found, p := chosen(t, s, queue, state, first.Next, 1200, Filter{})
		require.Equal(t, all[700:1900], found)
		require.Equal(t, Progress{Seen: 1200, Chosen: 1200, Total: 1200, Next: p.Next}, p)
		found, _ = chosen(t, s, queue, state, p.Next, 0, Filter{})
		require.Equal(t, all[1900:], found)
		found, p = chosen(t, s, queue, state, first.Next, 0, Filter{})
		require.Equal(t, all[700:], found)
		require.EqualValues(t, 4300, p.Total)
		found, p = chosen(t, s, queue, state, "", 10_000, Filter{})
		require.Equal(t, all, found)
		require.EqualValues(t, 5000, p.Total)
		for range s.Select(t.Context(), queue, state, "", 0, Filter{}, func(Progress) { t.Error("a page was walked") }) {
			break
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		stopped, n := errors.New("stopped"), 0
		for _, err := range s.Select(ctx, queue, state, "", 0, Filter{}, func(Progress) { cancel(stopped) }) {
			if n++; err != nil {
				require.ErrorIs(t, err, stopped)
				require.Equal(t, stride+1, n)
			}
		}
		require.Equal(t, stride+1, n)
	}
}

// While others change the queue, a walk meets each job that stays exactly once.
func TestMoving(t *testing.T) {
	_, c, s := serve(t)
	all := ids(4000)
	for queue, state := range map[string]emq.State{"q": emq.StatePending, "ties": emq.StateScheduled} {
		q, at := wire.Queue(queue), ""
		if state == emq.StateScheduled {
			at = "1900000000000"
		}
		fill(t, c, q, at, all)
		page := 0
		var found []string
		for j, err := range s.Select(t.Context(), queue, state, "", 0, Filter{Rows: true}, func(Progress) {
			// The last of the page, so that the place has no job; some before it, so that the ranks move; some after it.
			end := (page + 1) * stride
			gone := append(slices.Clone(all[end-100:end]), all[page*stride:page*stride+90]...)
			if end < len(all) {
				gone = append(gone, all[end:end+10]...)
			}
			must(t, c, q.Remove("any", gone...))
			page++
		}) {
			require.NoError(t, err)
			found = append(found, j.ID)
		}
		require.True(t, slices.IsSorted(found))
		require.Equal(t, len(found), len(slices.Compact(slices.Clone(found))))
		holds(t, found, walked(t, s, queue, state, 1000))
		require.Greater(t, page, 5)
	}
}

// Between two commands of a page, entries are added or removed before the place, or a job of the page is claimed.
func TestBetween(t *testing.T) {
	_, c, s := serve(t)
	all := ids(3000)
	between := func(queue string, state emq.State, command string, change func()) *set {
		set, err := s.set(func(ctx context.Context, args ...string) (emq.Reply, error) {
			r, err := s.conn.Do(ctx, args...)
			if args[0] == command && change != nil {
				now := change
				change = nil
				now()
			}
			return r, err
		}, queue, state)
		require.NoError(t, err)
		return set
	}
	at := place{entry{all[1999], 1_900_000_000_000}, false, true}
	list := func(set *set, n int) (found []string, more bool) {
		entries, more, err := set.after(t.Context(), at, n)
		require.NoError(t, err)
		for _, e := range entries {
			found = append(found, e.id)
		}
		return found, more
	}
	fill(t, c, "more", "1900000000000", all)
	found, more := list(between("more", emq.StateScheduled, "ZRANK", func() { fill(t, c, "more", "1800000000000", []string{"JOB1", "JOB2", "JOB3"}) }), 10)
	require.Equal(t, all[2000:2008], found, "those that were read")
	require.True(t, more)
	fill(t, c, "fewer", "1900000000000", all)
	found, more = list(between("fewer", emq.StateScheduled, "ZRANK", func() { must(t, c, wire.Queue("fewer").Remove("any", all[:200]...)) }), 10)
	require.Equal(t, all[2000:2010], found)
	require.True(t, more)

	fill(t, c, "claimed", "", all[:10])
	set := between("claimed", emq.StatePending, "ZRANGE", func() { must(t, c, wire.Queue("claimed").Mclaim(1<<40, 3)) })
	entries, more, err := set.after(t.Context(), place{}, 5)
	require.NoError(t, err)
	require.True(t, more)
	jobs, err := set.jobs(t.Context(), entries, 0, func(*Job) bool { return true })
	require.NoError(t, err)
	require.Len(t, jobs, 2)
	require.Equal(t, all[3], jobs[0].ID)
	// A job that leaves and comes back is shown with its current state.
	row := wire.Queue("claimed").Row(all[3])
	must(t, c, []string{"HSET", row, "state", "active"})
	set = between("claimed", emq.StatePending, "HMGET", func() { must(t, c, []string{"HSET", row, "state", "pending"}) })
	j, here, err := set.job(t.Context(), entry{id: all[3]}, 0)
	require.NoError(t, err)
	require.True(t, here)
	require.NoError(t, j.Err)
}

// Many jobs before the place leave between any two commands of the walk: all pages are still read.
func TestCrowd(t *testing.T) {
	_, c, s := serve(t)
	all := ids(20_000)
	fill(t, c, "q", "1900000000000", all)
	done := make(chan struct{})
	stay := all[10_000:]
	go func() {
		defer close(done)
		for part := range slices.Chunk(all[:10_000], 20) {
			c.Do(wire.Queue("q").Requeue("scheduled", part...)...)
		}
	}()
	for range 10 {
		found, _ := chosen(t, s, "q", emq.StateScheduled, "", 0, Filter{})
		holds(t, found, stay)
		require.True(t, slices.IsSorted(found))
	}
	<-done
}

// The number of groups is bounded.
func TestManyGroups(t *testing.T) {
	_, c, s := serve(t)
	fill(t, c, "q", "", ids(3000))
	texts := make([]string, 3000)
	for i := range texts {
		word := []byte("aaa")
		for n, at := i, 0; n > 0; n, at = n/26, at+1 {
			word[at] += byte(n % 26)
		}
		texts[i] = "boom " + string(word)
	}
	bury(t, c, "q", texts...)
	groups, err := s.Groups(t.Context(), "q", emq.StateDead, Filter{}, nil)
	require.NoError(t, err)
	require.Len(t, groups, groupsKept+1)
	require.Equal(t, others, groups[0].Error)
	require.EqualValues(t, 2000, groups[0].Jobs)
}

// Held jobs are released, scheduled ones run; jobs that have left the state, those of lanes, and entries that are not
// jobs are reported.
func TestApply(t *testing.T) {
	_, c, s := serve(t)
	q := wire.Queue("q")
	all := ids(1200)
	fill(t, c, q, "", all)
	must(t, c, q.Mclaim(1<<30, 1000), q.Mclaim(1<<30, 100))
	must(t, c, q.Complete(all[3], "1"), []string{"HSET", q.Row(all[4]), "group", "g"}, []string{"HSET", q.Row(all[5]), "parent", "p"})
	each := func(ids ...string) iter.Seq2[string, error] {
		return func(yield func(string, error) bool) {
			for _, id := range ids {
				if !yield(id, nil) {
					return
				}
			}
		}
	}
	p, err := s.Apply(t.Context(), Release, "q", emq.StateActive, each(append(all, "nojob")...), nil)
	require.NoError(t, err)
	require.Equal(t, Progress{Seen: 1201, Chosen: 1200, Changed: 1097, Refused: 3}, p)
	require.Len(t, walked(t, s, "q", emq.StatePending, 1000), 1197)
	require.Equal(t, "pending", wire.Value(c.Do("HGET", q.Row(all[0]), "state")))
	require.Equal(t, wire.Nil, c.Do("HGET", q.Row(all[0]), "stalled"))

	p, err = s.Apply(t.Context(), Remove, "q", emq.StateActive, each(all...), nil)
	require.NoError(t, err)
	require.Equal(t, Progress{Seen: 1200, Chosen: 1200, Refused: 2}, p)
	fill(t, c, q, "1900000000000", []string{"JOBlater"})
	p, err = s.Apply(t.Context(), Requeue, "q", emq.StateScheduled, each("JOBlater"), nil)
	require.NoError(t, err)
	require.EqualValues(t, 1, p.Changed)
	p, err = s.Apply(t.Context(), Remove, "q", emq.StateAny, each("JOBlater", all[0]), nil)
	require.NoError(t, err)
	require.EqualValues(t, 2, p.Changed)

	for _, bad := range []struct {
		a     Action
		queue string
		state emq.State
	}{{Requeue, "q", emq.StatePending}, {Release, "q", emq.StateDead}, {Remove, "q", "odd"}, {"odd", "q", emq.StateDead}, {Remove, "a}b", emq.StateDead}} {
		_, err := s.Apply(t.Context(), bad.a, bad.queue, bad.state, each(all...), nil)
		require.Error(t, err, bad)
	}

	// A lost lease can't be released.
	fill(t, c, "lost", "", []string{"JOB1"})
	must(t, c, wire.Queue("lost").Claim(1<<40), []string{"ZADD", "emq:{lost}:active", "1", "JOB1"}, wire.Queue("lost").Reap(0, 1))
	p, err = s.Apply(t.Context(), Release, "lost", emq.StateActive, each("JOB1"), nil)
	require.NoError(t, err)
	require.Equal(t, Progress{Seen: 1, Chosen: 1}, p)
	require.Equal(t, "1", wire.Value(c.Do("HGET", "emq:{lost}:job:JOB1", "stalled")))

	// It stops between two calls, and reports what was done.
	ctx, cancel := context.WithCancel(t.Context())
	p, err = s.Apply(ctx, Remove, "q", emq.StatePending, each(all[1:]...), func(Progress) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
	require.EqualValues(t, batch-3, p.Changed, "of the first call: one was completed, two are others'")
	require.Len(t, walked(t, s, "q", emq.StatePending, 1000), 1196-batch+3)
	// A sequence that ends with an error: what came before is done.
	boom := errors.New("boom")
	p, err = s.Apply(t.Context(), Remove, "q", emq.StatePending, func(yield func(string, error) bool) {
		if yield(all[700], nil) {
			yield("", boom)
		}
	}, nil)
	require.ErrorIs(t, err, boom)
	require.EqualValues(t, 1, p.Changed)
	// A refusal stops it.
	c.Must("SET emq:{q}:dead x")
	p, err = s.Apply(t.Context(), Remove, "q", emq.StatePending, each(all...), nil)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.Zero(t, p.Changed)
}

// failing records the first error.
type failing struct {
	emq.Conn
	once   sync.Once
	failed chan struct{}
}

func (c *failing) Do(ctx context.Context, args ...string) (emq.Reply, error) {
	r, err := c.Conn.Do(ctx, args...)
	if err != nil {
		c.once.Do(func() { close(c.failed) })
	}
	return r, err
}

// A walk waits while the server can't be reached, and misses nothing.
func TestWalkThroughCut(t *testing.T) {
	p, c, _ := serve(t)
	all := ids(2000)
	fill(t, c, "q", "", all)
	l := link.New(t, p.Addr())
	s := via(t, "valkey://"+l.Address())
	conn := &failing{Conn: s.conn, failed: make(chan struct{})}
	pages := 0
	var found []string
	mended := make(chan struct{})
	for j, err := range New(conn).Select(t.Context(), "q", emq.StatePending, "", 0, Filter{Rows: true}, func(Progress) {
		if pages++; pages == 2 {
			l.Cut()
			go func() {
				defer close(mended)
				<-conn.failed
				l.Mend(t)
			}()
		}
	}) {
		require.NoError(t, err)
		found = append(found, j.ID)
	}
	require.Equal(t, all, found)
	<-mended
}

// A failover during the work: it waits, and goes on. A lost reply makes no difference.
func TestApplyThroughFailover(t *testing.T) {
	needs(t)
	place := store.Open(t, store.Module())
	other := store.Open(t, store.Module())
	c := place.Conn()
	q := wire.Queue("q")
	all := ids(3000)
	fill(t, c, q, "", all)
	bury(t, c, q, slices.Repeat([]string{"boom"}, len(all))...)
	l := link.New(t, place.Addr())
	s := via(t, "valkey://"+l.Address())
	calls := 0
	p, err := s.Apply(t.Context(), Requeue, "q", emq.StateDead, named(s.Select(t.Context(), "q", emq.StateDead, "", 0, Filter{Group: "boom"}, nil)), func(Progress) {
		switch calls++; calls {
		case 1: // it follows another for a while, and refuses to write
			host, port, _ := strings.Cut(other.Addr(), ":")
			other.Conn().Must("REPLICAOF " + strings.ReplaceAll(place.Addr(), ":", " "))
			other.Linked()
			other.Conn().Must("REPLICAOF NO ONE")
			c.Must("REPLICAOF " + host + " " + port)
			place.Linked()
			go func() {
				conn := place.Conn()
				store.Await(func() bool { return strings.Contains(conn.Do("INFO", "errorstats"), "errorstat_READONLY") })
				conn.Must("REPLICAOF NO ONE")
			}()
		case 3:
			before := calls64(t, c, "EMQ.REQUEUE")
			l.Lose("EMQ.REQUEUE", func() { store.Await(func() bool { return calls64(t, c, "EMQ.REQUEUE") > before }) })
		}
	})
	require.NoError(t, err)
	require.Equal(t, Progress{Seen: 3000, Chosen: 3000, Changed: 3000}, p)
	require.Contains(t, c.Do("INFO", "errorstats"), "errorstat_READONLY")
	require.Equal(t, 6, calls)
	require.Equal(t, all, walked(t, at(t, place, ""), "q", emq.StatePending, 1000))
}
