package browser

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"emq/operator/web"
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

// viewers is the number of simultaneous viewers of the page, and spell the time of the measurement.
const (
	viewers = 50
	spell   = 60 * time.Second
)

// The page with ten million jobs in ten thousand queues: its screens, and the load that fifty viewers put on the server. The
// figures are printed; docs/page.md has those to expect. It needs 4 GiB of free memory.
func TestMillions(t *testing.T) {
	if os.Getenv("EMQ_PROOF") == "" {
		t.Skip("EMQ_PROOF is not set")
	}
	s, c := serve(t)
	million(c, t, 10_000_000, 10_000)
	cpu := func(what string) {
		before, began := busy(t, s.Pid()), time.Now()
		time.Sleep(spell)
		used := busy(t, s.Pid()) - before
		t.Logf("%-40s %6.2f %% of a core, over %s", what, 100*used.Seconds()/time.Since(began).Seconds(), spell)
	}
	cpu("the server alone")
	url := host(t, "unix://"+s.Socket, web.Options{})
	b := open(t, look{})
	b.goTo(url + "/")
	b.has("#totals [data-field=queues]", "10,001")
	b.has("#totals [data-field=pending]", "10,000,000")
	b.whole("millions-queues")
	b.press("Next")
	b.reads("page 2 of 201")
	b.fill("Filter", "tenant-0420")
	b.reads("10 of 10,001 queues")
	b.press("tenant-04203")
	b.at("queue")
	b.goTo(url + place("bulk", ""))
	b.reads("9,000,000")
	b.whole("millions-queue")
	b.press("Next")
	b.reads("from number 51")
	half := wire.Value(c.Do("ZRANGE", wire.Queue("bulk").Pending(), "4500000", "4500000")).([]any)[0].(string)
	b.set("Made from", made(half).UTC().Format("2006-01-02T15:04:05"))
	b.press("Go")
	b.waitFor("the middle", fmt.Sprintf("Math.abs(new Date(document.querySelector('[data-job] time').dateTime) - %d) < 2000", made(half).UnixMilli()))
	b.whole("millions-middle")
	b.fill("Find a job by its id in all queues", half)
	b.key(kb.Enter)
	b.has("h1", half)
	b.goTo(url + place("bulk", "/search?state=pending&match=%22order%22:1000001%7D&window=100000"))
	b.reads("1 found in")
	b.goTo("about:blank")

	cpu("and the page, at which nobody looks")
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for i := range viewers {
		view := "/events?view=queues"
		if i%5 == 4 {
			view = "/events?view=queue&queue=bulk"
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+view, nil)
		require.NoError(t, err)
		reply, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, reply.StatusCode)
		go func() { defer reply.Body.Close(); _, _ = io.Copy(io.Discard, reply.Body) }()
	}
	b.goTo(url + "/")
	b.has("#totals [data-field=queues]", "10,001")
	cpu(fmt.Sprintf("and %d who look, and a browser", viewers))
}

// busy is the CPU time of a process.
func busy(t testing.TB, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	ticks := time.Duration(0)
	for _, field := range fields[11:13] { // of user and of system; a tick is a hundredth of a second to programs
		n, err := strconv.Atoi(field)
		require.NoError(t, err)
		ticks += time.Duration(n)
	}
	return ticks * time.Second / 100
}
