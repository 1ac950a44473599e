package web

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// run runs the page until the function is called or the test ends.
func (s *site) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.page.Run(ctx) }()
	stop = func() { cancel() }
	s.t.Cleanup(func() {
		cancel()
		require.NoError(s.t, <-done)
	})
	return stop
}

// shows waits for an event that contains a text.
func shows(t *testing.T, next func() event, what string) (e event) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(e.data, what); e = next() {
		require.True(t, time.Now().Before(end), "waited too long for %s; the last was %s", what, e.data)
	}
	return e
}

// A screen gets its changes by itself, and nothing else.
func TestLive(t *testing.T) {
	s := serve(t, Options{})
	s.fill("mails", []string{"JOB1"})
	s.fill(wire.Queue(evil), []string{"JOB1"})
	stop := s.run()
	all, one := s.events("/events?view=queues"), s.events("/events?view=queue&queue=mails")
	few := s.events("/events?view=queues&name=none")
	e := shows(t, all, `data-queue="mails"`)
	require.Equal(t, "patch", e.name)
	require.Contains(t, e.data, `id="totals"`)
	require.NotContains(t, e.data, "<script")
	require.NotContains(t, shows(t, one, `data-field="pending">1<`).data, "data-queue=\""+encode(evil))
	require.Contains(t, shows(t, few, "No queue has").data, `data-field="pending">2<`, "the totals are of all")
	s.fill("mails", []string{"JOB2"})
	shows(t, one, `data-field="pending">2<`)
	shows(t, all, `data-field="pending">3<`)
	require.Contains(t, s.get("/"), `data-queue="mails"`)
	require.Contains(t, s.get("/health"), `data-check="module"`)
	require.NotContains(t, s.get("/?name=MAIL"), encode(evil))
	require.Contains(t, s.get("/?name=MAIL"), `data-queue="mails"`)

	// A server that shuts down does not wait for viewers.
	stop()
	require.Eventually(t, func() bool { return s.page.ctx.Err() != nil }, time.Minute, time.Millisecond)
}

// The worst check comes first, as in the command.
func TestHealth(t *testing.T) {
	s := serve(t, Options{})
	s.Must("CONFIG SET maxmemory 100mb maxmemory-policy allkeys-lru")
	require.Regexp(t, `<ul id="checks" class="checks">\s*<li data-check="memory-policy" data-level="critical">`, s.get("/health"))
}

// The ends of lines in an event do not end its data, so that it can't contain another event.
func TestEvent(t *testing.T) {
	w := httptest.NewRecorder()
	require.NoError(t, open(w).send("hit", []byte("a\revent: b\r\ndata: c\nd")))
	for line := range strings.Lines(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(w.Body.String())) {
		require.Regexp(t, "^(event: hit|data: .*)?\n$", line)
	}
}

// The HTTP server's timeouts end neither a stream nor a download.
func TestServersBounds(t *testing.T) {
	s := serve(t, Options{})
	long := strings.Repeat("x", 8<<20)
	s.fill("mails", []string{"JOB1"})
	require.Equal(t, "*1\r\n:1\r\n", s.Do(wire.Queue("mails").Menqueue("JOBlong", long)...))
	s.run()
	bound := httptest.NewUnstartedServer(s.page)
	bound.Config.ReadHeaderTimeout, bound.Config.ReadTimeout, bound.Config.WriteTimeout = time.Minute, time.Millisecond, time.Nanosecond
	bound.Start()
	t.Cleanup(bound.Close)
	s.url = bound.URL
	next := s.events("/events?view=queue&queue=mails")
	for jobs := 2; jobs < 5; jobs++ {
		shows(t, next, fmt.Sprintf(`data-field="pending">%d<`, jobs))
		s.fill("mails", []string{fmt.Sprintf("JOB%d", jobs)})
	}
	got := s.send(s.request("GET", "/q/mails/j/JOBlong/payload", nil))
	require.True(t, long == got.body)
}

// 10,000 queues are shown 50 at a time, and many viewers cost the server no more than one.
func TestMany(t *testing.T) {
	s := serve(t, Options{})
	var commands [][]string
	for i := range 10_000 {
		commands = append(commands, wire.Queue(fmt.Sprintf("tenant-%05d", i)).Menqueue("JOB1", "x"))
	}
	s.Pipeline(commands)
	s.Must("SET emq:{broken}:dead x")
	s.run()
	shows(t, s.events("/events?view=queues"), "10,001")
	body := s.get("/")
	require.Equal(t, 50, strings.Count(body, "<tr id="))
	require.Less(t, len(body), 100<<10)
	require.Contains(t, body, "page 1 of 201")
	require.Contains(t, s.get("/?name=broken"), "WRONGTYPE")
	last := s.get("/?page=999")
	require.Equal(t, 1, strings.Count(last, "<tr id="))
	require.Equal(t, 100, strings.Count(s.get("/?n=100&page=3"), "<tr id="))
	require.Equal(t, 10, strings.Count(s.get("/?name=tenant-0123"), "<tr id="))

	// The calls of STATS in some samples, with one viewer and with fifty: one a sample for each queue on the page, and
	// some for the others.
	asked := func() (calls int) {
		for line := range strings.SplitSeq(s.Do("INFO", "commandstats"), "\r\n") {
			if _, err := fmt.Sscanf(line, "cmdstat_EMQ.STATS:calls=%d,", &calls); err == nil {
				return calls
			}
		}
		return calls
	}
	count := func(viewers int) int {
		var nexts []func() event
		for range viewers {
			nexts = append(nexts, s.events("/events?view=queues"))
		}
		for _, next := range nexts {
			shows(t, next, "tenant-")
		}
		begin, from := s.page.sampler.Latest(), asked()
		samples := 0
		store.WaitFor(t, "four samples", func() bool {
			if now := s.page.sampler.Latest(); now != begin {
				begin = now
				samples++
			}
			return samples == 4
		})
		return (asked() - from) / samples
	}
	few := count(1)
	many := count(50)
	require.LessOrEqual(t, many, few*3/2+100, "calls a sample, by one viewer and by fifty")
}

// The server stops and comes back: all viewers are told, the last figures stay, and nobody has to do anything.
func TestGone(t *testing.T) {
	s := serve(t, Options{})
	s.fill("mails", []string{"JOB1"})
	s.run()
	all, status := s.events("/events?view=queues"), s.events("/events?view=status")
	shows(t, all, `data-queue="mails"`)
	s.place.Crash()
	gone := shows(t, all, "can't be reached")
	require.Contains(t, gone.data, `data-queue="mails"`, "what was known is still there")
	shows(t, status, "can't be reached")
	body := s.get("/")
	require.Contains(t, body, "can't be reached")
	require.Contains(t, body, `data-queue="mails"`)
	body = s.get("/q/mails")
	require.Contains(t, body, "can't be reached")
	require.Contains(t, body, "data-failed")
	require.Equal(t, http.StatusBadGateway, s.send(s.request("GET", "/q/mails/j/JOB1", nil)).StatusCode)
	got := s.post("/q/mails/pause", "for", "0")
	require.Equal(t, http.StatusSeeOther, got.StatusCode)
	require.Contains(t, s.get("/health"), `data-level="critical"`)
	s.place.Start()
	store.WaitFor(t, "the banner goes", func() bool { return !strings.Contains(status().data, "can't be reached") })
	require.NotContains(t, s.get("/q/mails"), "can't be reached")
}
