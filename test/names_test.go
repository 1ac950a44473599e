package test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var allBytes = func() string {
	var b strings.Builder
	for c := range 256 {
		b.WriteByte(byte(c))
	}
	return b.String()
}()

var names = map[string]string{
	"one byte":         "x",
	"300000 bytes":     strings.Repeat("n", 300_000),
	"UTF-8":            "zażółć-队列-🙂",
	"CR LF":            "a\r\nb\r\n",
	"high bytes":       allBytes[0x80:],
	"colons":           "a:b:job:c",
	"looks like a key": "emq:q:job:JOB1",
	"blanks":           " a b ",
	"percent":          "%s%n%d",
}

// More queues in turn than the module's cache of names has slots, so that each finds another's names there: counters
// count in their own queue. In between, a verb for one queue runs in a callback of a verb for another.
func TestQueuesInTurn(t *testing.T) {
	const n = 150
	s := start(t, withModule())
	s.loadTestModule(t, "meddler")
	st := s.fresh(t)
	name := func(i int) queue { return queue(fmt.Sprintf("q%03d", i%n)) }
	for i := range n {
		require.Equal(t, integer(1), st.Do(name(i).Enqueue("JOB1", "x")...))
		require.Equal(t, integer(1), st.Do(name(i).Enqueue("JOB2", "x")...))
		st.take(name(i), "JOB1")
		st.take(name(i), "JOB2")
	}
	for i := range n {
		within := name(i+1).Complete("JOB2", "1")
		require.Equal(t, "+OK\r\n", st.Do(append([]string{"MEDDLER.ON", "zrem", name(i).Active()}, within...)...))
		require.Equal(t, bulk("dead"), st.Do(name(i).Fail("JOB1", "1", 0, 1, "why")...))
		st.reply("+done\r\n", "MEDDLER.LEFT")
	}
	for i := range n {
		require.Equal(t, bulk("1"), st.Do("HGET", name(i).Completed(), "count"))
		require.Equal(t, bulk("1"), st.Do("HGET", name(i).Failed(), "count"))
		require.Equal(t, []string{"JOB1"}, st.Members(name(i).Dead()))
	}
	require.Equal(t, integer(4*n+1), st.Do("DBSIZE"), "a row, a set and two counters of each, and the identity")
}

// The module caches the names of queues up to a length, in slots that several queues share. So there are queues with
// names of each length around that limit, more than there are slots.
func TestQueuesOfEachLength(t *testing.T) {
	const n = 150
	st := start(t, withModule()).fresh(t)
	for length := 105; length <= 125; length++ {
		var calls [][]string
		for i := range n {
			q := queue(fmt.Sprintf("%0*d", length, i))
			calls = append(calls, q.Enqueue("JOB1", "x"), q.Claim(1000), q.Complete("JOB1", "1"))
		}
		for i, reply := range st.Pipeline(calls) {
			require.Equal(t, []string{integer(1), claimed("JOB1", "x", 1), integer(1)}[i%3], reply, calls[i])
		}
		require.Equal(t, integer(n+1), st.Do("DBSIZE"), "a counter of each, and the identity")
		st.Must("FLUSHALL", "SET {emq}:version echomq:6.0.0")
	}
}

// life carries a job through all its states and leaves the queue as it was.
func (st *fixture) life(q queue, id, payload string) {
	st.t.Helper()
	require.Equal(st.t, integer(1), st.Do(q.Enqueue(id, payload)...))
	require.Equal(st.t, integer(0), st.Do(q.Enqueue(id, "another")...))
	require.Equal(st.t, claimed(id, payload, 1), st.Do(q.Claim(30000)...))
	require.Equal(st.t, bulk("scheduled"), st.Do(q.Fail(id, "1", 5000, 2, payload)...))
	require.Equal(st.t, payload, st.row(q, id)["last_error"])
	st.move(q, id, "scheduled", "pending")
	require.Equal(st.t, claimed(id, payload, 2), st.Do(q.Claim(30000)...))
	require.Equal(st.t, bulk("dead"), st.Do(q.Fail(id, "2", 5000, 2, payload)...))
	require.Equal(st.t, []string{id}, st.Members(q.Dead()))
	st.move(q, id, "dead", "pending")
	require.Equal(st.t, claimed(id, payload, 3), st.Do(q.Claim(30000)...))
	require.Equal(st.t, integer(1), st.Do(q.Complete(id, "3")...))
	require.Equal(st.t, empty, st.Do(q.Claim(30000)...))
	require.Empty(st.t, st.row(q, id))

	require.Equal(st.t, integer(1), st.Do(q.ScheduleAt(id, payload, 1)...))
	require.Equal(st.t, integer(0), st.Do(q.ScheduleIn(id, "another", 5000)...))
	require.Equal(st.t, integer(1), st.Do(q.Promote(10)...))
	require.Equal(st.t, claimed(id, payload, 1), st.Do(q.Claim(30000)...))
	st.lapse(q, id)
	require.Equal(st.t, integer(1), st.Do(q.Extend(id, "1", 30000)...))
	require.Equal(st.t, reaped(nil, nil), st.Do(q.Reap(1, 10)...))
	st.lapse(q, id)
	require.Equal(st.t, reaped([]string{id}, nil), st.Do(q.Reap(2, 10)...))
	require.Equal(st.t, claimed(id, payload, 2), st.Do(q.Claim(30000)...))
	st.lapse(q, id)
	require.Equal(st.t, reaped(nil, []string{id}), st.Do(q.Reap(2, 10)...))
	require.Equal(st.t, []string{id}, st.Members(q.Dead()))
	require.Equal(st.t, integer(-1), st.Do(q.Extend(id+"x", "1", 30000)...))
	require.Equal(st.t, integer(1), st.Do("DEL", q.Row(id)))
	require.Equal(st.t, integer(1), st.Do("ZREM", q.Dead(), id))
}

func TestNames(t *testing.T) {
	s := start(t, withModule())
	for what, name := range names {
		t.Run("queue/"+what, func(t *testing.T) { s.fresh(t).life(queue(name), "JOB1", "payload") })
		t.Run("id/"+what, func(t *testing.T) { s.fresh(t).life("q", "JOB"+name, "payload") })
	}
	t.Run("id/no more than JOB", func(t *testing.T) { s.fresh(t).life("q", "JOB", "payload") })
	t.Run("id/NUL and braces", func(t *testing.T) { s.fresh(t).life("q", "JOB\x00{}:{q}:pending", "payload") })
	t.Run("id/every byte", func(t *testing.T) { s.fresh(t).life("q", "JOB"+allBytes, "payload") })
}

// Similar names are different queues.
func TestQueuesDoNotMix(t *testing.T) {
	st := open(t)
	st.Must(
		"EMQ.ENQUEUE 2 emq:{a}:job:JOB1 emq:{a}:pending JOB1 in-a",
		"EMQ.ENQUEUE 2 emq:{a:b}:job:JOB1 emq:{a:b}:pending JOB1 in-ab",
		"EMQ.ENQUEUE 2 emq:{A}:job:JOB1 emq:{A}:pending JOB1 in-A",
	)
	require.Equal(t, claimed("JOB1", "in-ab", 1), st.Do(queue("a:b").Claim(1000)...))
	require.Equal(t, claimed("JOB1", "in-A", 1), st.Do(queue("A").Claim(1000)...))
	require.Equal(t, claimed("JOB1", "in-a", 1), st.Do(queue("a").Claim(1000)...))
}

func TestQueueNamesRefused(t *testing.T) {
	s := witnessed(t)
	for _, name := range []string{"", "{", "}", "{}", "a{b", "a}b", "a}:b", "\x00", "a\x00b", strings.Repeat("n", 1000) + "}"} {
		t.Run(escape(name)[:min(len(name), 20)], func(t *testing.T) {
			st, q := s.fresh(t), queue(name)
			for _, args := range allOn(q) {
				st.refused("EMQKEY ", args...)
			}
		})
	}
}

// Every key and the base must be exact names of one queue. The refusal names the wrong argument.
func TestLayout(t *testing.T) {
	s := witnessed(t)
	verbs := []struct {
		name string
		args []string
		at   []int
	}{
		{"enqueue", good.Enqueue("JOB1", "x"), []int{2, 3}},
		{"claim", good.Claim(1000), []int{2, 3, 4}},
		{"complete", good.Complete("JOB1", "1"), []int{2, 3, 6}},
		{"fail", good.Fail("JOB1", "1", 0, 1, "why"), []int{2, 3, 4, 5, 11}},
		{"schedule", good.ScheduleIn("JOB1", "x", 1000), []int{2, 3}},
		{"extend", good.Extend("JOB1", "1", 1000), []int{2, 3}},
		{"promote", good.Promote(10), []int{2, 3, 4}},
		{"reap", good.Reap(1, 10), []int{2, 3, 4, 5}},
	}
	for _, verb := range verbs {
		for _, at := range verb.at {
			key := verb.args[at]
			for what, wrong := range map[string]string{
				"another queue":    strings.Replace(key, "{q}", "{r}", 1),
				"a longer queue":   strings.Replace(key, "{q}", "{qq}", 1),
				"one byte more":    key + "x",
				"one byte less":    key[:len(key)-1],
				"a NUL at the end": key + "\x00",
				"no braces":        strings.Replace(key, "{q}", "q", 1),
				"upper case":       strings.Replace(key, "emq", "EMQ", 1),
				"another prefix":   strings.Replace(key, "emq:", "bull:", 1),
				"a blank first":    " " + key,
				"the identity":     identity,
				"nothing":          "",
			} {
				t.Run(verb.name+"/"+key+"/"+what, func(t *testing.T) {
					st := s.fresh(t)
					st.put(good, "JOB1", "active", "attempts", "1")
					st.put(good, "JOB2", "scheduled", "attempts", "1")
					st.lapse(good, "JOB1", "JOB2")
					st.refused("EMQKEY ", with(verb.args, at, wrong)...)
				})
			}
		}
	}
}

// Foreign bytes in a refusal are escaped and truncated, so that a request can't forge or inflate a reply.
func TestForeignBytesInRefusals(t *testing.T) {
	st := open(t)
	long := strings.Repeat("k", 300_000)
	st.refusal("EMQKEY ", "EMQ.ENQUEUE", "2", "a\r\n+OK\r\n\x00\xff"+long, "emq:{q}:pending", "JOB1", "x")
	require.Less(t, len(st.lastReply), 400)
	body := strings.TrimSuffix(st.lastReply, "\r\n")
	for i := range len(body) {
		require.True(t, body[i] >= 0x20 && body[i] < 0x7f, "a byte that does not show in %q", body)
	}
	st.reply("+PONG\r\n", "PING")
}

func TestPayloads(t *testing.T) {
	s := start(t, withModule())
	for what, payload := range map[string]string{
		"empty":        "",
		"NUL and CRLF": "\x00\r\n\x00",
		"every byte":   allBytes,
		"a number":     "12345",
		"8 MiB":        strings.Repeat("\x00\r\n\xffpayload", 8<<20/11),
	} {
		t.Run(what, func(t *testing.T) {
			st := s.fresh(t)
			st.life("q", "JOB1", payload)
			require.Equal(t, integer(1), st.Do(good.Enqueue("JOB2", payload)...))
			require.Equal(t, bulk(payload), st.Do("HGET", good.Row("JOB2"), "payload"))
		})
	}
}
