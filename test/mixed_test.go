package test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
)

// mixer makes a random load: jobs of several queues at every stage of their lives, requests that are refused, and
// foreign hands that break things. The same seed makes the same load.
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

// next returns one request. A token is guessed: many fit, because few jobs are claimed often.
func (m *mixer) next() []string {
	q, id := m.queues[m.rand.IntN(len(m.queues))], m.id()
	token := strconv.Itoa(1 + m.rand.IntN(3)/2)
	switch m.rand.IntN(20) {
	case 0, 1, 2, 3, 4, 5:
		return q.Enqueue(id, "payload of "+id)
	case 6, 7, 8, 9, 10:
		return q.Claim(int64(1 + m.rand.IntN(100_000)))
	case 11, 12, 13, 14:
		return q.Complete(id, token)
	case 15, 16, 17:
		return q.Fail(id, token, int64(m.rand.IntN(100_000)), int64(1+m.rand.IntN(3)), "reason "+token)
	case 18:
		return m.promote(q)
	}
	if !m.breaks {
		return q.Claim(1000)
	}
	switch m.rand.IntN(8) {
	case 0:
		return []string{"ZADD", q.Pending(), "0", "JOB0000" + strconv.Itoa(m.rand.IntN(10)) + "x"}
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

// promote takes the first scheduled job back to pending, as the script does.
func (m *mixer) promote(q queue) []string {
	script := `local e = redis.call('ZPOPMIN', KEYS[1]) if #e == 0 then return 0 end
		redis.call('HSET', KEYS[3] .. e[1], 'state', 'pending') redis.call('ZADD', KEYS[2], 0, e[1]) return 1`
	return []string{"EVAL", script, "3", q.Schedule(), q.Pending(), q.RowPrefix()}
}

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

// A load whose every request is refused or empty would prove nothing.
func TestMixedLoadIsMixed(t *testing.T) {
	st := open(t)
	seen := mix(t, false).load(st, 20_000)
	for _, want := range []string{
		"EMQ.ENQUEUE :1\r\n", "EMQ.ENQUEUE :0\r\n", "EMQ.CLAIM *3\r\n$8\r\nJ", "EMQ.COMPLETE :1\r\n", "EMQ.COMPLETE :0\r\n",
		"EMQ.COMPLETE -EMQSTALE", "EMQ.FAIL $9\r\nsched", "EMQ.FAIL $4\r\ndead\r", "EMQ.FAIL -EMQSTALE", "EVAL :1\r\n",
	} {
		require.GreaterOrEqual(t, seen[want], 20, "%q of %v", want, seen)
	}
	for what := range seen {
		require.NotContains(t, what, "-ERR")
		require.NotContains(t, what, "-EMQKEY")
	}
}
