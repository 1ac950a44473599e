package browser

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/test/wire"
)

// million fills a server with n jobs: a tenth of them in as many queues, the others in one, "bulk".
func million(c *wire.Conn, t testing.TB, jobs, queues int) {
	t.Helper()
	start, now, made := time.Now(), time.Now(), 0
	var commands [][]string
	send := func(q wire.Queue, n int) {
		words := make([]string, 0, 2*n)
		for range n {
			made++
			words = append(words, id(now.Add(time.Duration(made/1000-jobs/1000)*time.Second), made%(1<<22)), `{"order":`+strconv.Itoa(made)+`}`)
		}
		if commands = append(commands, q.Menqueue(words...)); len(commands) == 100 {
			all(c, t, commands)
			commands = nil
		}
	}
	each := jobs / 10 / queues
	for i := range queues {
		send(wire.Queue(fmt.Sprintf("tenant-%05d", i)), each)
	}
	for range (jobs - each*queues) / 1000 {
		send("bulk", 1000)
	}
	all(c, t, commands)
	require.Equal(t, wire.Integer(int64(jobs-each*queues)), c.Do("ZCARD", wire.Queue("bulk").Pending()))
	t.Logf("%d jobs in %d queues in %s; %s", made, queues+1, time.Since(start).Round(time.Second), c.Info("used_memory_human"))
}

func TestMillion(t *testing.T) {
	_, c := serve(t)
	million(c, t, 1_000_000, 1000)
}
