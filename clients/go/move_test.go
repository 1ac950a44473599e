package emq_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/clients/go"
	"emq/test/store"
	"emq/test/wire"
)

// raw is a queue of bytes.
func raw(c *emq.Client, name string, opts ...emq.QueueOption) emq.Queue[string] {
	return emq.NewQueue[string](c, name, append(opts, emq.Encoding(emq.Raw))...)
}

// stocked fills a queue with a job in each state that can move, each with its history, and one job in hand.
func stocked(t *testing.T, s *store.Place, c *emq.Client, name string) map[emq.State]emq.ID {
	t.Helper()
	q, conn := wire.Queue(name), s.Conn()
	defer conn.Close()
	ids := map[emq.State]emq.ID{}
	for i, state := range []emq.State{emq.StateActive, emq.StateDead, emq.StateScheduled, emq.StatePending} {
		id := fmt.Sprintf("JOB0Iab2RJbbR%d", i)
		require.Equal(t, wire.Integer(1), conn.Do(q.Enqueue(id, "to: \x00\xff"+string(state))...))
		if state != emq.StatePending {
			require.Equal(t, wire.Claimed(id, "to: \x00\xff"+string(state), 1), conn.Do(q.Claim(1<<30)...))
		}
		switch state {
		case emq.StateDead:
			require.Equal(t, wire.Bulk("dead"), conn.Do(q.Fail(id, "1", 0, 1, "boom")...))
		case emq.StateScheduled:
			require.Equal(t, wire.Bulk("scheduled"), conn.Do(q.Fail(id, "1", 1<<30, 9, "boom")...))
		}
		conn.Must("HSET " + q.Row(id) + " progress 42")
		ids[state] = emq.ID(id)
	}
	return ids
}

// Records and Restore preserve jobs completely. Restoring them again changes nothing. A record that can't be a job is
// refused, and then nothing of its call is restored.
func TestRestore(t *testing.T) {
	s := serve(t)
	c := client(t, s)
	ids := stocked(t, s, c, "from")
	from, to := raw(c, "from"), raw(c, "to")
	var all []emq.Record
	for _, state := range []emq.State{emq.StatePending, emq.StateActive, emq.StateScheduled, emq.StateDead} {
		records, err := from.Records(t.Context(), state, ids[state], ids[emq.StateDead], "JOB0")
		require.NoError(t, err)
		require.Equal(t, ids[state], records[0].ID)
		all = append(all, records[0])
	}
	there, err := to.Restore(t.Context(), all...)
	require.NoError(t, err)
	require.Equal(t, []bool{true, true, true, true}, there)
	require.Equal(t, map[string]string{"pending": "2", "scheduled": "1", "dead": "1"}, sizes(t, s, "to"))
	there, err = to.Restore(t.Context(), all...)
	require.NoError(t, err)
	require.Equal(t, []bool{false, false, false, false}, there)

	k := s.Keyspace()
	require.Empty(t, k.Check(wire.Wire6))
	for state, id := range ids {
		before, after := k["emq:{from}:job:"+string(id)].(store.Hash), k["emq:{to}:job:"+string(id)].(store.Hash)
		delete(before, "lease_epoch")
		if state == emq.StateActive {
			before["state"] = "pending"
		}
		require.Equal(t, before, after)
	}
	id := string(ids[emq.StateScheduled])
	require.Equal(t, k["emq:{from}:schedule"].(store.ZSet)[id], k["emq:{to}:schedule"].(store.ZSet)[id])

	digest := s.Conn().Do("DEBUG", "DIGEST")
	for _, bad := range []emq.Record{
		{ID: "X1", State: emq.StatePending, Fields: map[string]string{"payload": "x", "attempts": "0"}},
		{ID: "JOB1", State: "lost", Fields: map[string]string{"payload": "x", "attempts": "0"}},
		{ID: "JOB1", State: emq.StatePending, Fields: map[string]string{"attempts": "0"}},
		{ID: "JOB1", State: emq.StatePending, Fields: map[string]string{"payload": "x", "attempts": "01"}},
		{ID: "JOB1", State: emq.StatePending, Fields: map[string]string{"payload": "x"}},
		{ID: "JOB1", State: emq.StateScheduled, Due: time.UnixMilli(-1), Fields: map[string]string{"payload": "x", "attempts": "0"}},
	} {
		good := emq.Record{ID: "JOB2", State: emq.StatePending, Fields: map[string]string{"payload": "x", "attempts": "0"}}
		_, err := to.Restore(t.Context(), good, bad)
		require.Error(t, err)
	}
	require.Equal(t, digest, s.Conn().Do("DEBUG", "DIGEST"))
}

// Jobs move with all of their fields; those in hand, those of lanes, and those whose id exists at the destination stay.
func TestMoveTo(t *testing.T) {
	a, b := serve(t), serve(t)
	here, there := client(t, a), client(t, b)
	ids := stocked(t, a, here, "q")
	from, to := raw(here, "q"), raw(there, "new")
	before := a.Keyspace()
	for _, state := range []emq.State{emq.StatePending, emq.StateScheduled, emq.StateDead} {
		moved, exist, err := from.MoveTo(t.Context(), to, state, ids[state], ids[emq.StateActive], "JOB0")
		require.NoError(t, err)
		require.Equal(t, []int{1, 0}, []int{moved, exist}, state)
	}
	require.Equal(t, map[string]string{"active": "1"}, sizes(t, a, "q"))
	require.Equal(t, map[string]string{"pending": "1", "scheduled": "1", "dead": "1"}, sizes(t, b, "new"))
	require.Empty(t, a.Keyspace().Check(wire.Wire6))
	after := b.Keyspace()
	require.Empty(t, after.Check(wire.Wire6))
	require.Len(t, after, 7, "three rows, three sets and the identity: nothing else is left")
	for state, id := range ids {
		if state != emq.StateActive {
			row := before["emq:{q}:job:"+string(id)].(store.Hash)
			delete(row, "lease_epoch")
			require.Equal(t, row, after["emq:{new}:job:"+string(id)], state)
		}
	}

	_, err := from.Enqueue(t.Context(), "again", emq.As(ids[emq.StatePending]))
	require.NoError(t, err)
	_, err = from.Enqueue(t.Context(), "a lane's", emq.As("JOB0Iab2RJbbR7"))
	require.NoError(t, err)
	a.Conn().Must("HSET emq:{q}:job:JOB0Iab2RJbbR7 group g")
	was := a.Conn().Do("DEBUG", "DIGEST")
	moved, exist, err := from.MoveTo(t.Context(), to, emq.StatePending, ids[emq.StatePending], "JOB0Iab2RJbbR7")
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, []int{moved, exist})
	require.Equal(t, was, a.Conn().Do("DEBUG", "DIGEST"))

	_, _, err = from.MoveTo(t.Context(), from, emq.StatePending)
	require.Error(t, err)
	_, _, err = from.MoveTo(t.Context(), to, emq.StateActive)
	require.Error(t, err)
	b.Conn().Must("CONFIG SET maxmemory 1")
	a.Conn().Must("HDEL emq:{q}:job:JOB0Iab2RJbbR7 group")
	_, _, err = from.MoveTo(t.Context(), raw(there, "third"), emq.StatePending, "JOB0Iab2RJbbR7")
	require.ErrorIs(t, err, emq.ErrFull)
	b.Conn().Must("CONFIG SET maxmemory 0")
	require.Equal(t, map[string]string{"pending": "2", "active": "1"}, sizes(t, a, "q"), "what was refused is back")
	b.Conn().Must("REPLICAOF 127.0.0.1 1")
	conn := emq.Dial(options(t, b))
	defer conn.Close()
	_, _, err = from.MoveTo(t.Context(), raw(emq.Use(conn, emq.Patience(0)), "new"), emq.StatePending, "JOB0Iab2RJbbR7")
	require.ErrorContains(t, err, "READONLY")
	b.Conn().Must("REPLICAOF NO ONE")
	require.Equal(t, map[string]string{"pending": "2", "active": "1"}, sizes(t, a, "q"), "also by a replica, which might take it later")
	require.Empty(t, a.Keyspace().Check(wire.Wire6))
}

// failing is a connection that executes a limited number of commands, and then fails as if its process had been killed.
type failing struct {
	emq.Conn
	left *int
}

func (f failing) Do(ctx context.Context, args ...string) (emq.Reply, error) {
	if *f.left == 0 {
		return emq.Reply{}, emq.ErrClosed
	}
	*f.left--
	return f.Conn.Do(ctx, args...)
}

// A move may be killed after any command, and the jobs that had arrived done before it is repeated: each job is still
// done once.
func TestMoveBrokenOff(t *testing.T) {
	a, b := serve(t), serve(t)
	here, there := client(t, a), client(t, b)
	dial := func(s *store.Place, left *int) *emq.Client {
		conn := emq.Dial(options(t, s))
		t.Cleanup(conn.Close)
		return emq.Use(failing{conn, left})
	}
	steps := 0
	for ; ; steps++ {
		name := fmt.Sprint("q", steps)
		from, to := raw(here, name), raw(there, name)
		r, err := from.Enqueue(t.Context(), "x")
		require.NoError(t, err)
		left := steps
		_, _, err = raw(dial(a, &left), name).MoveTo(t.Context(), raw(dial(b, &left), name), emq.StatePending, r.ID)
		finished := err == nil
		if !finished {
			require.ErrorIs(t, err, emq.ErrClosed)
		}
		at := map[string]string{"a": sizes(t, a, name)["pending"], "b": sizes(t, b, name)["pending"]}
		require.NotEqual(t, map[string]string{"a": "1", "b": "1"}, at, "two places hand it out")
		done := 0
		finish := func() {
			n, err := to.Remove(t.Context(), emq.StatePending, r.ID)
			require.NoError(t, err)
			done += n
		}
		finish()
		if !finished {
			_, _, err = from.MoveTo(t.Context(), raw(there, "elsewhere"), emq.StatePending)
			if strings.Contains(fmt.Sprint(err), "on their way") {
				_, _, err = from.MoveTo(t.Context(), to, emq.StatePending)
			}
			require.NoError(t, err)
			_, _, err = from.MoveTo(t.Context(), to, emq.StatePending, r.ID)
			require.NoError(t, err)
		}
		finish()
		require.Equal(t, 1, done, "after %d commands", steps)
		require.Empty(t, sizes(t, a, name))
		require.NotContains(t, a.Keyspace(), "emq:{"+name+"}:moving")
		if finished {
			break
		}
	}
	require.Greater(t, steps, 3)
}

// A move may be killed after any command: the jobs on their way are reported and come back, and each job is done once,
// even if it had arrived and was done there. Where the other server can't be asked, the jobs come back too.
func TestMoveBack(t *testing.T) {
	a, b := serve(t), serve(t)
	here, left := client(t, a), 0
	mover := emq.UseAll(map[string]emq.Conn{"a": failing{emq.Dial(options(t, a)), &left}, "b": failing{emq.Dial(options(t, b)), &left}})
	t.Cleanup(func() { _ = mover.Close() })
	pick := func(server string) string { // returns the name of a queue that lives on the server
		for i := 0; ; i++ {
			if name := fmt.Sprint("q", i); mover.Server(name) == server {
				return name
			}
		}
	}
	home, away := pick("a"), pick("b")
	asked := emq.UseAll(map[string]emq.Conn{"b": emq.Dial(options(t, b))})
	t.Cleanup(func() { _ = asked.Close() })
	from, to := raw(here, home), raw(asked, away)
	for _, ask := range []bool{true, false} {
		broken := 0
		for steps := 0; ; steps++ {
			r, err := from.Enqueue(t.Context(), "x")
			require.NoError(t, err)
			left = steps
			_, _, err = raw(mover, home).MoveTo(t.Context(), raw(mover, away), emq.StatePending, r.ID)
			m, failed := from.Moving(t.Context())
			require.NoError(t, failed)
			names, failed := here.Queues(t.Context())
			require.NoError(t, failed)
			done, failed := to.Remove(t.Context(), emq.StatePending, r.ID)
			require.NoError(t, failed)
			arrived := done
			if m.Jobs > 0 {
				broken++
				require.WithinDuration(t, time.Now(), m.Since, time.Minute)
				require.Equal(t, emq.Moving{Jobs: 1, Since: m.Since, Queue: away, Server: "b"}, m)
				require.Equal(t, []string{home}, names, "the queue is listed although it has no jobs of its own")
				a.Conn().Must("DEL emq:{" + home + "}:meta")
				bare, err := from.Moving(t.Context())
				require.NoError(t, err)
				require.Equal(t, emq.Moving{Jobs: 1, Queue: away, Server: "b"}, bare)
				_, _, err = from.MoveBack(t.Context(), raw(asked, "elsewhere"))
				require.ErrorContains(t, err, "on their way")
			}
			if ask {
				back, there, err := from.MoveBack(t.Context(), to)
				require.NoError(t, err)
				require.Equal(t, []int{m.Jobs - m.Jobs*arrived, m.Jobs * arrived}, []int{back, there})
			} else {
				back, err := from.MoveBackUnasked(t.Context())
				require.NoError(t, err)
				require.Equal(t, m.Jobs, back)
			}
			n, failed := from.Remove(t.Context(), emq.StatePending, r.ID)
			require.NoError(t, failed)
			if done += n; ask {
				require.Equal(t, 1, done, "after %d commands", steps)
			}
			require.Positive(t, done)
			require.NotContains(t, a.Keyspace(), "emq:{"+home+"}:moving")
			require.NotContains(t, a.Keyspace(), "emq:{"+home+"}:meta")
			if err == nil {
				break
			}
		}
		require.Equal(t, 2, broken, "before the new queue takes it, and before the old one forgets it")
	}
}

// MoveBack also works within a server, whatever name the client has for the server.
func TestMoveBackWithinAServer(t *testing.T) {
	s := serve(t)
	left := 2 // enough to look for jobs on their way and to take some
	broken := emq.UseAll(map[string]emq.Conn{"a": failing{emq.Dial(options(t, s)), &left}})
	t.Cleanup(func() { _ = broken.Close() })
	c := client(t, s)
	from := raw(c, "q")
	r, err := from.Enqueue(t.Context(), "x")
	require.NoError(t, err)
	_, _, err = raw(broken, "q").MoveTo(t.Context(), raw(broken, "new"), emq.StatePending, r.ID)
	require.ErrorIs(t, err, emq.ErrClosed)
	m, err := from.Moving(t.Context())
	require.NoError(t, err)
	require.Equal(t, emq.Moving{Jobs: 1, Since: m.Since, Queue: "new", Here: true}, m)
	_, _, err = from.MoveBack(t.Context(), raw(client(t, s), "new"))
	require.ErrorContains(t, err, `on their way to "new"`, "another client may be connected to another server")
	back, there, err := from.MoveBack(t.Context(), raw(c, "new"))
	require.NoError(t, err)
	require.Equal(t, []int{1, 0}, []int{back, there})
	require.Equal(t, map[string]string{"pending": "1"}, sizes(t, s, "q"))
	require.Empty(t, s.Keyspace().Check(wire.Wire6))
}

// A job that was called back does not arrive although the move continues: the new queue does not get it, and the old
// one does not lose it. That includes a drain, which would give up a job that the new place already has.
func TestMoveGoesOnAfterItWasCalledBack(t *testing.T) {
	a, b := serve(t), serve(t)
	urls := map[string]string{"a": "valkey://" + a.Addr(), "b": "valkey://" + b.Addr()}
	all, err := emq.OpenAll(urls)
	require.NoError(t, err)
	t.Cleanup(func() { _ = all.Close() })
	stays, err := emq.OpenAll(map[string]string{"b": urls["b"]})
	require.NoError(t, err)
	t.Cleanup(func() { _ = stays.Close() })
	from := raw(client(t, a), "q")
	for name, move := range map[string]func(to *emq.Client) error{
		"move": func(to *emq.Client) error {
			_, _, err := from.MoveTo(t.Context(), raw(to, "q"), emq.StatePending, "JOB0Iab2RJbbR1")
			return err
		},
		"drain": func(to *emq.Client) error {
			_, err := all.DrainTo(t.Context(), to, "q")
			return err
		},
	} {
		_, err := from.Enqueue(t.Context(), "x", emq.As("JOB0Iab2RJbbR1"))
		require.NoError(t, err)
		conn := emq.Dial(options(t, b))
		t.Cleanup(conn.Close)
		reached, goOn := make(chan struct{}), make(chan struct{})
		ended := make(chan error, 1)
		go func() { ended <- move(emq.UseAll(map[string]emq.Conn{"b": gated{conn, reached, goOn}})) }()
		<-reached
		back, there, err := from.MoveBack(t.Context(), raw(stays, "q"))
		require.NoError(t, err, name)
		require.Equal(t, []int{1, 0}, []int{back, there}, name)
		close(goOn)
		require.ErrorContains(t, <-ended, "called back", name)
		require.Equal(t, map[string]string{"pending": "1"}, sizes(t, a, "q"), name)
		require.Empty(t, sizes(t, b, "q"), name)
		require.Empty(t, a.Keyspace().Check(wire.Wire6))
		n, err := from.Remove(t.Context(), emq.StatePending, "JOB0Iab2RJbbR1")
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.NoError(t, from.Resume(t.Context()))
	}
}

// gated is a connection whose first script waits for a signal.
type gated struct {
	emq.Conn
	reached, goOn chan struct{}
}

func (g gated) Do(ctx context.Context, args ...string) (emq.Reply, error) {
	if args[0] == "EVAL" {
		close(g.reached)
		<-g.goOn
	}
	return g.Conn.Do(ctx, args...)
}

// A command whose answer is lost is sent again, and no job is lost or duplicated by that.
func TestMoveWithLostAnswers(t *testing.T) {
	a, b := serve(t), serve(t)
	here := client(t, a)
	for lost := range 5 {
		name := fmt.Sprint("q", lost)
		r, err := raw(here, name).Enqueue(t.Context(), "x")
		require.NoError(t, err)
		n := 0
		dial := func(s *store.Place) *emq.Client {
			conn := emq.Dial(options(t, s))
			t.Cleanup(conn.Close)
			return emq.Use(deaf{conn, func() bool { n++; return n-1 == lost }})
		}
		moved, exist, err := raw(dial(a), name).MoveTo(t.Context(), raw(dial(b), name), emq.StatePending, r.ID)
		require.NoError(t, err)
		require.Equal(t, []int{1, 0}, []int{moved, exist}, "the answer %d was lost", lost)
		require.Empty(t, sizes(t, a, name))
		require.Equal(t, map[string]string{"pending": "1"}, sizes(t, b, name))
		require.Empty(t, b.Keyspace().Check(wire.Wire6))
	}
}

// deaf is a connection that loses an answer.
type deaf struct {
	emq.Conn
	loses func() bool
}

func (d deaf) Do(ctx context.Context, args ...string) (emq.Reply, error) {
	r, err := d.Conn.Do(ctx, args...)
	if d.loses() {
		return emq.Reply{}, errors.New("the connection was reset")
	}
	return r, err
}
