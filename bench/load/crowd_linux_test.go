package load

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// waiting serves those who wait for a few queues; told is the reply to one of them.
type waiting struct {
	mu   sync.Mutex
	got  []string
	ids  int
	jobs map[string]chan string // by the key of the pending set
	end  chan bool
	told func(key, id string) string
}

func serveWaiting(t *testing.T, told func(key, id string) string) (*waiting, *Crowd) {
	w := &waiting{jobs: map[string]chan string{}, end: make(chan bool), told: told}
	c, err := DialCrowd(CrowdOptions{Socket: serve(t, w.answer), Queues: 2, Each: 2, Payload: 5})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return w, c
}

func (w *waiting) queue(key string) chan string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.jobs[key] == nil {
		w.jobs[key] = make(chan string, 1)
	}
	return w.jobs[key]
}

func (w *waiting) answer(words []string) string {
	w.mu.Lock()
	w.got = append(w.got, strings.Join(words, " "))
	w.ids++
	id := w.ids
	w.mu.Unlock()
	switch strings.Join(words[:min(2, len(words))], " ") {
	case "SELECT 0":
		return "+OK\r\n"
	case "CLIENT ID":
		return fmt.Sprintf(":%d\r\n", id)
	case "CLIENT UNBLOCK":
		w.end <- true
		return ":1\r\n"
	}
	switch words[0] {
	case "PING":
		return "+PONG\r\n"
	case "BZPOPMIN":
		select {
		case id := <-w.queue(words[1]):
			return w.told(words[1], id)
		case <-w.end:
			return "*-1\r\n"
		}
	case "ZADD":
		w.queue(words[1]) <- words[3]
	}
	return ":1\r\n"
}

func popReply(key, id string) string {
	return fmt.Sprintf("*3\r\n$%d\r\n%s\r\n$14\r\n%s\r\n$1\r\n0\r\n", len(key), key, id)
}

func TestACrowdWaitsLeavesAndWaitsAgain(t *testing.T) {
	w, c := serveWaiting(t, popReply)
	require.Equal(t, 4, c.Len())
	for range 2 {
		require.NoError(t, c.Enter(BZPopMin))
		for range 3 {
			took, err := c.Round()
			require.NoError(t, err)
			require.Positive(t, took)
		}
		require.NoError(t, c.Leave())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	count := map[string]int{}
	for _, words := range w.got {
		count[strings.Fields(words)[0]]++
	}
	require.Equal(t, 2*3, count["ZADD"])
	require.Equal(t, 2*(4+3), count["BZPOPMIN"], "all, and once more who was woken")
	require.Equal(t, 5+2*4, count["CLIENT"], "each is asked its id, and each is unblocked")
	require.Contains(t, w.got, "ZADD emq:{bzpopmin 1}:pending 0 JOB00000000001")
	require.Contains(t, w.got, "ZADD emq:{bzpopmin 0}:pending 0 JOB00000000002")
}

func TestAJobIsToldToWhoWaitsForIt(t *testing.T) {
	for name, told := range map[string]func(key, id string) string{
		"another job":    func(key, id string) string { return popReply(key, "JOB00000000000") },
		"another queue":  func(key, id string) string { return popReply(strings.Replace(key, "1}", "0}", 1), id) },
		"a refusal":      func(key, id string) string { return "-ERR no\r\n" },
		"none, too soon": func(key, id string) string { return "*-1\r\n" },
	} {
		t.Run(name, func(t *testing.T) {
			_, c := serveWaiting(t, told)
			require.NoError(t, c.Enter(BZPopMin))
			_, err := c.Round()
			require.ErrorContains(t, err, "was answered")
		})
	}
}

// What Plain says is what a worker has to say without the module.
func TestThePlainWayIsARowAndALease(t *testing.T) {
	d := Plain.speak("emq:{q}:", "xxxxx")
	for _, f := range []*form{&d.made, &d.told, &d.taken, &d.settled} {
		f.put(idOf(7))
	}
	say := func(commands ...string) (all string) {
		for _, c := range commands {
			all += string(Command(strings.Fields(c)...))
		}
		return all
	}
	const row = "emq:{q}:job:JOB00000000007"
	require.Equal(t, say("MULTI", "HSET "+row+" state pending attempts 0 payload xxxxx", "ZADD emq:{q}:pending 0 JOB00000000007", "EXEC"), string(d.made.request))
	require.Equal(t, say("BZPOPMIN emq:{q}:pending 0"), string(d.told.request))
	require.Equal(t, say("MULTI", "HSET "+row+" state active attempts 1", "ZADD emq:{q}:active 4102444800000 JOB00000000007", "EXEC"), string(d.taken.request))
	require.Equal(t, "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n:0\r\n:1\r\n", string(d.taken.reply))
	require.Equal(t, popReply("emq:{q}:pending", "JOB00000000007"), string(d.told.reply))
}
