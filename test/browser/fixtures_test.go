package browser

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// hostile is a queue's name that no page can show as it is.
const hostile = wire.Queue(`"it's" <b>über</b> 🦊/../%2F?a=b&c#d` + "\xff\xfe")

// serve starts a server with the module, as in service.
func serve(t testing.TB, args ...string) (*store.Place, *wire.Conn) {
	t.Helper()
	s := store.Open(t, store.Pumped(args...))
	return s, s.Conn()
}

// id makes an id that contains its time: the canonical form of the Go package.
func id(made time.Time, n int) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	since := made.UnixMilli() - time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	text := make([]byte, 11)
	for i, rest := len(text)-1, since<<22|int64(n); i >= 0; i-- {
		text[i] = digits[rest%62]
		rest /= 62
	}
	return "JOB" + string(text)
}

// all sends commands, some thousand in a pipeline, and checks that none was refused.
func all(c *wire.Conn, t testing.TB, commands [][]string) (replies []string) {
	t.Helper()
	for some := range slices.Chunk(commands, 2000) {
		for i, reply := range c.Pipeline(some) {
			require.False(t, wire.IsError(reply), "%.200q: %s", some[i], reply)
			replies = append(replies, reply)
		}
	}
	return replies
}

// batches are the commands that take the words of many jobs, in calls of 500.
func batches(words []string, each int, command func(words ...string) []string) (commands [][]string) {
	for some := range slices.Chunk(words, 500*each) {
		commands = append(commands, command(some...))
	}
	return commands
}

// enqueue puts n jobs into a queue, made one a second until now, and returns their ids.
func enqueue(c *wire.Conn, t testing.TB, q wire.Queue, n int, payload func(i int) string) (ids []string) {
	t.Helper()
	var words []string
	now := time.Now()
	for i := range n {
		ids = append(ids, id(now.Add(time.Duration(i-n)*time.Second), i))
		words = append(words, ids[i], payload(i))
	}
	all(c, t, batches(words, 2, q.Menqueue))
	return ids
}

// cause is a reason for failures: the error text of the i-th job, and the number of jobs.
type cause struct {
	jobs int
	text func(i int) string
}

// causes are those of 8000 jobs. The variable parts of the texts differ from job to job; two causes differ only at
// their end.
var causes = []cause{
	{3000, func(i int) string {
		return fmt.Sprintf("dial tcp 10.%d.%d.%d:5432: connect: connection refused", i%7, i%251, i%13)
	}},
	{1700, func(i int) string { return fmt.Sprintf("dial tcp 10.%d.%d.%d:5432: i/o timeout", i%7, i%251, i%13) }},
	{1300, func(i int) string {
		return fmt.Sprintf("order %d: no such customer: %q", 100000+i, fmt.Sprintf("c-%x", i*7919))
	}},
	{1000, func(i int) string {
		return fmt.Sprintf("POST https://pay-%d.example.com/v1/charges/%08x-1111-4222-8333-%012x: 502 Bad Gateway", i%40, i, i)
	}},
	{700, func(i int) string {
		return fmt.Sprintf("550 5.1.1 <user%d@example.com>: recipient address rejected", i)
	}},
	{300, func(i int) string { return fmt.Sprintf("panic: index out of range [%d] with length %d", i%9+3, i%3+1) }},
}

// deadLetters makes the dead letters of all causes, mixed, and returns the ids of each.
func deadLetters(c *wire.Conn, t testing.TB, q wire.Queue) (of [][]string) {
	t.Helper()
	var kinds []int // of each job, as they lie
	left := make([]int, len(causes))
	for k := range causes {
		left[k] = causes[k].jobs
	}
	for more := true; more; {
		more = false
		for k := range left {
			for range min(left[k], 1+causes[k].jobs/300) {
				kinds, left[k], more = append(kinds, k), left[k]-1, true
			}
		}
	}
	ids := enqueue(c, t, q, len(kinds), func(i int) string {
		return fmt.Sprintf(`{"order":%d,"customer":"c-%x","items":[{"sku":"A-%d","n":%d}],"note":"please ring"}`, 100000+i, i*7919, i%97, i%5+1)
	})
	of = make([][]string, len(causes))
	var claims [][]string
	for range len(ids) / 500 {
		claims = append(claims, q.Mclaim(1<<40, 500))
	}
	all(c, t, claims)
	var words []string
	for i, id := range ids {
		words = append(words, id, "1", "0", causes[kinds[i]].text(i))
		of[kinds[i]] = append(of[kinds[i]], id)
	}
	all(c, t, batches(words, 4, func(words ...string) []string { return q.Mfail(1, words...) }))
	require.Equal(t, wire.Integer(int64(len(ids))), c.Do("ZCARD", q.Dead()))
	return of
}

// members returns the ids in a set, sorted.
func members(c *wire.Conn, key string) (ids []string) {
	for _, id := range wire.Value(c.Do("ZRANGE", key, "0", "-1")).([]any) {
		ids = append(ids, id.(string))
	}
	slices.Sort(ids)
	return ids
}

// sorted are the ids of several lists.
func sorted(lists ...[]string) []string {
	ids := slices.Concat(lists...)
	slices.Sort(ids)
	return ids
}

// ofManyKinds makes jobs in all states, in a healthy queue and in broken ones, and a payload of 20 MB.
func ofManyKinds(c *wire.Conn, t testing.TB) {
	t.Helper()
	enqueue(c, t, "orders", 320, func(i int) string { return fmt.Sprintf(`{"order":%d,"to":{"name":"Ann","city":"Gràcia"}}`, i) })
	all(c, t, [][]string{
		wire.Queue("orders").Mclaim(3600_000, 25),
		wire.Queue("orders").Limit(25, 100, 1000),
		wire.Queue("mails").Menqueue(id(time.Now(), 1), "to: ann", id(time.Now(), 2), "\x00\x01\x02\xff\xfe", id(time.Now(), 3), "", "JOBbyhand", "an id that tells no time"),
		wire.Queue("mails").Pause(0),
		wire.Queue("reports").Mschedule("in", scheduled(120)...),
		hostile.Menqueue(id(time.Now(), 4), `<script>alert("x")</script>`, `JOB<img src=x onerror=alert(1)>'"`+"\xff", "an id as bad as the queue's name"),
		wire.Queue("videos").Menqueue(id(time.Now(), 5), `{"frames":"`+strings.Repeat("0123456789abcdef", 20<<20/16)+`"}`),
		wire.Queue("broken").Menqueue(id(time.Now(), 6), "its dead letters are a string"),
		{"SET", wire.Queue("broken").Dead(), "somebody's"},
	})
	deadLetters(c, t, "payments")
}

func scheduled(n int) (words []string) {
	for i := range n {
		words = append(words, id(time.Now(), 1000+i), fmt.Sprint(3600_000+60_000*i), fmt.Sprintf(`{"report":%d}`, i))
	}
	return words
}
