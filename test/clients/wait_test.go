package clients

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// The page's table of waiting clients: each row is tested with the client's default settings, and each program has a row.
func TestTableOfWaiting(t *testing.T) {
	t.Parallel()
	for _, row := range table(t, "| client | a block of 3 s |", 6) {
		p, name := programs[row[0]], row[0]
		t.Run(name, func(t *testing.T) {
			p.need(t, name)
			t.Run("3 s", func(t *testing.T) { require.Equal(t, row[1], p.waits(t, waitShort)) })
			t.Run("12 s", func(t *testing.T) { require.Equal(t, row[2], p.waits(t, waitLong)) })
			t.Run("cut off", func(t *testing.T) { require.Equal(t, row[3], p.cutOff(t, waitForEver)) })
			if row[4] != "one call at a time" { // which is how they are made
				t.Run("beside", func(t *testing.T) { require.Equal(t, row[4], p.beside(t, waitBeside)) })
			}
			t.Run("given up", func(t *testing.T) { require.Equal(t, row[5], p.givenUp(t, waitGivenUp)) })
		})
	}
}

// With the page's settings for calls that wait, each client waits as long as it should, sends a claim once, and ends it on
// request.
func TestWaitingAsThePageSays(t *testing.T) {
	t.Parallel()
	for name, p := range programs {
		t.Run(name, func(t *testing.T) {
			p.need(t, name)
			t.Run("12 s", func(t *testing.T) { require.Equal(t, "waits", p.waits(t, waitLongRight)) })
			t.Run("cut off", func(t *testing.T) { require.Equal(t, "error", p.cutOff(t, waitForEverRight)) })
			t.Run("stopped", func(t *testing.T) { p.stopped(t) })
		})
	}
	for _, name := range []string{"go-redis 9.23", "valkey-go 1.0.79", "rueidis 1.0.79", "node-redis 6.3", "ioredis 6.0", "iovalkey 0.4"} {
		t.Run("beside/"+name, func(t *testing.T) {
			p := programs[name]
			p.need(t, name)
			require.Equal(t, "served", p.beside(t, waitBesideRight))
		})
	}
}

// What the page says about other ways to give up a claim.
func TestGivingUp(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"go-redis 9.23": "cannot be given up", "valkey-go 1.0.79": "stays pending", "rueidis 1.0.79": "stays pending",
	} {
		t.Run("context/"+name, func(t *testing.T) {
			p := programs[name]
			p.need(t, name)
			require.Equal(t, want, p.givenUp(t, waitGivenUpRight))
		})
	}
	t.Run("deadline", func(t *testing.T) {
		p := programs["go-redis 9.23"]
		p.need(t, "go-redis 9.23")
		require.Equal(t, "stays pending", p.givenUp(t, waitDeadline))
	})
	for _, name := range []string{"redis-py 4.3", "redis-py 6.4", "valkey-py 6.1"} {
		t.Run("asyncio/"+name, func(t *testing.T) {
			p := programs[name]
			p.need(t, name)
			require.Equal(t, "stays pending", p.givenUp(t, waitCancelled))
		})
	}
	t.Run("the next reply", func(t *testing.T) {
		p := programs["phpredis 5.3"]
		p.need(t, "phpredis 5.3")
		r, _, c := p.begin(t, waitShifted)
		store.WaitFor(t, "the claim to end", r.over)
		require.Equal(t, wire.Integer(1), c.Do(mail.Enqueue(first, "hello")...))
		require.Equal(t, said{Reply: granted}, r.end().same(t))
	})
	t.Run("default_socket_timeout", func(t *testing.T) {
		programs["phpredis 5.3"].need(t, "phpredis 5.3")
		require.Equal(t, "error", child("", "php", "-d", "default_socket_timeout=1", "testdata/php/client.php").waits(t, waitShort))
	})
}

// waits makes a client wait for a job that does not come.
func (p program) waits(t *testing.T, deed deed) string {
	t.Helper()
	s, c := serve(t, "")
	got := p.run(t, s.Addr(), deed, "").same(t)
	calls := c.Info("emq_bclaim_calls")
	if got.Error == "" {
		require.Equal(t, []any{}, got.Reply)
		require.Equal(t, "1", calls)
		return "waits"
	}
	require.Regexp(t, "(?i)timed? ?out|waited|read error|socket error", got.Error)
	switch calls {
	case "1":
		return "error"
	case "2":
		return "error, sent twice"
	}
	return "error, sent " + calls + " times"
}

// begin makes a client wait, and returns when it does.
func (p program) begin(t *testing.T, deed deed) (*run, *store.Place, *wire.Conn) {
	t.Helper()
	s, c := serve(t, "")
	r := p.start(t, s.Addr(), deed, "")
	store.WaitFor(t, "a claim to wait", func() bool { return c.Info("emq_waiting_clients") == "1" || r.over() })
	return r, s, c
}

// waiting are the ids of the clients that wait on a server.
func waiting(c *wire.Conn) (ids []string) {
	for _, line := range strings.Split(wire.Value(c.Do("CLIENT", "LIST")).(string), "\n") {
		if strings.Contains(line, " flags=b") {
			ids = append(ids, regexp.MustCompile(`^id=(\d+)`).FindStringSubmatch(line)[1])
		}
	}
	return ids
}

// over reports whether a claim is over for its client.
func (r *run) over() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
}

// cutOff closes the connection on which a client waits.
func (p program) cutOff(t *testing.T, deed deed) string {
	t.Helper()
	r, _, c := p.begin(t, deed)
	for _, id := range waiting(c) {
		c.Do("CLIENT", "KILL", "ID", id)
	}
	store.WaitFor(t, "the claim to end, or to be sent again", func() bool { return r.over() || c.Info("emq_bclaim_calls") != "1" })
	if r.over() {
		require.Equal(t, "1", c.Info("emq_bclaim_calls"))
		require.NotEmpty(t, r.end().Error)
		return "error"
	}
	require.Equal(t, wire.Integer(1), c.Do(mail.Enqueue(first, "hello")...))
	r.end()
	return "sent again"
}

// beside makes a client wait, and enqueue a job that would end the wait: is the ENQUEUE sent before the wait is over?
func (p program) beside(t *testing.T, deed deed) string {
	t.Helper()
	r, _, _ := p.begin(t, deed)
	r.next()
	got := r.end().same(t)
	if got.Error == "" && len(got.Reply.([]any)) > 0 {
		require.Equal(t, granted, got.Reply)
		return "served"
	}
	return "waits behind it"
}

// granted is the reply with the job, as a program sees it.
var granted = replies(`["emq:{mail}:", "JOB00000000001", "hello", 1]`)

// givenUp makes a client give up a waiting claim, and then a job comes: who has it?
func (p program) givenUp(t *testing.T, deed deed) string {
	t.Helper()
	r, _, c := p.begin(t, deed)
	r.next()
	// Does its user learn of it, and does the server? A client that has not noticed within this time never does; one that is
	// between two tries is waited for.
	end := time.Now().Add(2 * time.Second)
	again := func() bool { return c.Info("emq_bclaim_calls") != "1" }
	store.WaitFor(t, "the claim to be given up", func() bool {
		waiting := c.Info("emq_waiting_clients") != "0"
		return again() || r.over() && !waiting || waiting && time.Now().After(end)
	})
	if again() {
		store.WaitFor(t, "the claim to end", func() bool {
			c.Do(mail.Enqueue(first, "hello")...)
			return r.over()
		})
		r.end()
		return "sent again"
	}
	require.Equal(t, wire.Integer(1), c.Do(mail.Enqueue(first, "hello")...))
	held := c.Do("ZSCORE", mail.Active(), first) != wire.Nil
	got := r.end().same(t)
	switch {
	case got.Error == "":
		require.Equal(t, granted, got.Reply)
		return "cannot be given up"
	case held:
		return "swallowed"
	}
	return "stays pending"
}

// A user may stop its own workers with the rights that the page names.
func TestRightsToStop(t *testing.T) {
	page, err := os.ReadFile("../../docs/protocol.md")
	require.NoError(t, err)
	rights := regexp.MustCompile("It takes the rights `([^`]+)`").FindStringSubmatch(string(page))
	require.NotNil(t, rights)
	s, c := serve(t, "")
	c.Must("ACL SETUSER worker on >" + secret + " +@emq " + rights[1] + " ~emq:{mail}:*")
	worker, other := s.Conn(), s.Conn()
	worker.Must("AUTH worker " + secret)
	other.Must("AUTH worker " + secret)
	id := wire.Value(worker.Do("CLIENT", "ID")).(int64)
	worker.Send(wire.BClaim(lease, 0, mail))
	store.WaitFor(t, "the claim to wait", func() bool { return c.Info("emq_waiting_clients") == "1" })
	require.Equal(t, wire.Integer(1), other.Do("CLIENT", "UNBLOCK", strconv.FormatInt(id, 10)))
	require.Equal(t, wire.Array(), worker.Receive())
}

// stopped makes a client wait, and ends the wait from another connection.
func (p program) stopped(t *testing.T) {
	t.Helper()
	r, _, c := p.begin(t, waitUnblocked)
	ids := waiting(c)
	require.Len(t, ids, 1)
	require.Equal(t, wire.Integer(1), c.Do("CLIENT", "UNBLOCK", ids[0]))
	require.Equal(t, said{Reply: replies(`[` + ids[0] + `, [], "PONG"]`)}, r.end().same(t))
}
