package test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
)

// mixer generates a random load: jobs of several queues at every stage of their lives, requests that are refused, and
// foreign writes that break things. The same seed gives the same load.
type mixer struct {
	rand   *rand.Rand
	queues []queue
	ids    int
	breaks bool
}

func mix(t *testing.T, breaks bool) *mixer {
	t.Helper()
	return &mixer{rand: rand.New(rand.NewPCG(store.Seed(t), 6)), queues: []queue{"a", "b", "c:\xff", "ü"}, breaks: breaks}
}

func (m *mixer) id() string {
	m.ids++
	return fmt.Sprintf("JOB%05d", m.rand.IntN(1+m.ids/2))
}

// jobs are the words of a list of a few jobs.
func (m *mixer) jobs(job func() []string) (words []string) {
	for range 1 + m.rand.IntN(8) {
		words = append(words, job()...)
	}
	return words
}

// next returns one request. Tokens are guessed: many match, because few jobs are claimed often.
func (m *mixer) next() []string {
	q, id := m.queues[m.rand.IntN(len(m.queues))], m.id()
	token := strconv.Itoa(1 + m.rand.IntN(3)/2)
	switch m.rand.IntN(32) {
	case 26:
		return q.Menqueue(m.jobs(func() []string { return []string{m.id(), "payload"} })...)
	case 27:
		return q.Mclaim(m.while(), int64(1+m.rand.IntN(8)))
	case 28:
		return q.Mcomplete(m.jobs(func() []string { return []string{m.id(), token} })...)
	case 29:
		return q.Mfail(int64(1+m.rand.IntN(3)), m.jobs(func() []string { return []string{m.id(), token, "5", "reason"} })...)
	case 30:
		return q.Mextend(m.while(), m.jobs(func() []string { return []string{m.id(), token} })...)
	case 31:
		return q.Mschedule("in", m.jobs(func() []string { return []string{m.id(), "5", "payload"} })...)
	case 0, 1, 2, 3, 4, 5:
		return q.Enqueue(id, "payload of "+id)
	case 6, 7, 8, 9, 10:
		return q.Claim(m.while())
	case 11, 12, 13, 14:
		return q.Complete(id, token)
	case 15, 16, 17:
		return q.Fail(id, token, m.while(), int64(1+m.rand.IntN(3)), "reason "+token)
	case 18, 19:
		return q.Promote(int64(1 + m.rand.IntN(20)))
	case 20:
		return q.ScheduleAt(id, "payload of "+id, int64(m.rand.IntN(100_000)))
	case 21:
		return q.ScheduleIn(id, "payload of "+id, m.while())
	case 22, 23:
		return q.Extend(id, token, m.while())
	case 24:
		return q.Reap(int64(m.rand.IntN(3)), int64(1+m.rand.IntN(20)))
	}
	if !m.breaks {
		return q.Claim(1000)
	}
	switch m.rand.IntN(12) {
	case 0:
		return []string{"ZADD", q.Pending(), "0", "JOB0000" + strconv.Itoa(m.rand.IntN(10)) + "x"}
	case 8:
		return []string{"ZADD", q.Schedule(), strconv.Itoa(m.rand.IntN(9)), id}
	case 9:
		return []string{"ZADD", q.Active(), strconv.Itoa(m.rand.IntN(9)), id}
	case 10:
		return []string{"HSET", q.Row(id), []string{"group", "parent"}[m.rand.IntN(2)], "g"}
	case 11:
		return []string{"HSET", q.Failed(), "count", "9223372036854775805"}
	case 1:
		return []string{"ZADD", q.Pending(), "-1", "ABC"}
	case 2:
		return []string{"DEL", q.Row(id)}
	case 3:
		return []string{"HDEL", q.Row(id), "attempts"}
	case 4:
		return []string{"SET", q.Row("JOB" + strconv.Itoa(m.rand.IntN(10)) + "s"), "x"}
	case 5:
		return []string{"HSET", q.Completed(), "count", "9223372036854775807"}
	case 6:
		return []string{"DEL", q.Completed(), q.Failed()}
	default:
		return []string{"ZREM", q.Active(), id}
	}
}

// while is a lease or a delay; half of them are over by the next batch.
func (m *mixer) while() int64 { return 1 + int64(m.rand.IntN(2)*m.rand.IntN(100_000)) }

// load runs n requests, many at a time, and returns how often each reply's first bytes were seen.
func (m *mixer) load(st *fixture, n int) map[string]int {
	st.t.Helper()
	seen := map[string]int{}
	for ; n > 0; n -= 500 {
		batch := make([][]string, min(n, 500))
		for i := range batch {
			batch[i] = m.next()
		}
		for i, reply := range st.Pipeline(batch) {
			seen[batch[i][0]+" "+reply[:min(len(reply), 9)]]++
		}
	}
	return seen
}

// A load in which every request is refused or finds nothing would prove nothing.
func TestMixedLoadIsMixed(t *testing.T) {
	st := open(t)
	seen := mix(t, false).load(st, 40_000)
	for _, want := range []string{
		"EMQ.ENQUEUE :1\r\n", "EMQ.ENQUEUE :0\r\n", "EMQ.CLAIM *3\r\n$8\r\nJ", "EMQ.COMPLETE :1\r\n", "EMQ.COMPLETE :0\r\n",
		"EMQ.COMPLETE -EMQSTALE", "EMQ.FAIL $9\r\nsched", "EMQ.FAIL $4\r\ndead\r", "EMQ.FAIL -EMQSTALE",
		"EMQ.SCHEDULE :1\r\n", "EMQ.SCHEDULE :0\r\n", "EMQ.EXTEND :1\r\n", "EMQ.EXTEND :-1\r\n", "EMQ.EXTEND -EMQSTALE", "EMQ.PROMOTE :0\r\n",
		"EMQ.PROMOTE :2\r\n", "EMQ.REAP *2\r\n*0\r\n*", "EMQ.REAP *2\r\n*1\r\n$",
	} {
		// The rarest reply comes 33 times on average, so fewer than five can't be chance.
		require.GreaterOrEqual(t, seen[want], 5, "%q of %v", want, seen)
	}
	for what := range seen {
		require.NotContains(t, what, "-ERR")
		require.NotContains(t, what, "-EMQKEY")
	}
}
