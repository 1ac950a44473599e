package operator

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emq "emq/clients/go"
	"emq/test/wire"
)

// user creates a user of docs/operations.md, and returns the commands that it may send.
func user(t *testing.T, c *wire.Conn, name string) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^ACL SETUSER ` + name + ` on >secret .*$`).FindString(string(text))
	require.NotEmpty(t, line, "the page makes no user %s", name)
	c.Must(line)
	var may []string
	for _, m := range regexp.MustCompile(` \+(\S+)`).FindAllStringSubmatch(line, -1) {
		may = append(may, m[1])
	}
	return may
}

// look reads all that can be read.
func look(t *testing.T, s *Server, allowed bool) {
	t.Helper()
	q, err := s.Queues(t.Context())
	require.NoError(t, err)
	require.Len(t, q, 1)
	for state := range setOf {
		at, err := s.At(t.Context(), "q", state, time.UnixMilli(1_800_000_000_000))
		require.NoError(t, err)
		for _, at := range []Cursor{"", at} {
			p, err := s.Jobs(t.Context(), "q", state, at, 1, 100)
			require.NoError(t, err)
			_, err = s.Jobs(t.Context(), "q", state, p.Next, 1, 100)
			require.NoError(t, err)
		}
		found, _ := chosen(t, s, "q", state, at, 0, Filter{Match: "payload"})
		require.LessOrEqual(t, len(found), 2)
		_, err = s.Groups(t.Context(), "q", state, Filter{}, nil)
		require.NoError(t, err)
	}
	found, err := s.Find(t.Context(), string(emq.LeastID(time.UnixMilli(1_750_000_000_007))))
	require.NoError(t, err)
	require.Equal(t, []string{"q"}, found)
	_, err = s.Job(t.Context(), "q", string(emq.LeastID(time.UnixMilli(1_750_000_000_007))), -1)
	require.NoError(t, err)
	for name, c := range examined(t, s) {
		require.Equal(t, c.Status == Unknown, name == "gates" && !allowed, "%s: %s", name, c.Text)
	}
}

// The users of docs/operations.md can do all that this package does, or all that changes nothing, and the latter has no
// unneeded rights.
func TestRights(t *testing.T) {
	p, c, _ := serve(t)
	c.Must("SET {emq}:version echomq:6.0.0")
	operator, observer := user(t, c, "operator"), user(t, c, "observer")
	require.Subset(t, operator, observer)
	var list []string
	for i := range 12 {
		list = append(list, string(emq.LeastID(time.UnixMilli(int64(1_750_000_000_000+i)))))
	}
	q := wire.Queue("q")
	fill(t, c, q, "", list[:10])
	fill(t, c, q, "1900000000000", list[10:])
	bury(t, c, q, "boom", "boom")
	must(t, c, q.Mclaim(1<<40, 2))
	c.Must("CONFIG RESETSTAT")
	looker := at(t, p, "observer")
	look(t, looker, false)
	used := used(t, c)
	for _, command := range observer {
		require.Contains(t, used, command, "a right that nothing needs")
	}
	log := c.Do("ACL", "LOG")
	require.True(t, strings.HasPrefix(log, "*1\r\n") && strings.Contains(log, "EMQ.AUDIT"), "one refusal, the audit's: %s", log)
	for _, a := range []struct {
		Action
		state emq.State
	}{{Requeue, emq.StateDead}, {Remove, emq.StatePending}, {Release, emq.StateActive}} {
		jobs := func(s *Server) (Progress, error) {
			return s.Apply(t.Context(), a.Action, "q", a.state, named(s.Select(t.Context(), "q", a.state, "", 1, Filter{}, nil)), nil)
		}
		_, err := jobs(looker)
		require.ErrorContains(t, err, "NOPERM")
		done, err := jobs(at(t, p, "operator"))
		require.NoError(t, err)
		require.EqualValues(t, 1, done.Changed)
	}
	c.Must("ACL LOG RESET")
	look(t, at(t, p, "operator"), true)
	require.Equal(t, wire.Empty, c.Do("ACL", "LOG"))

	// A missing right is reported.
	c.Must("ACL SETUSER observer -hmget -emq.stats")
	_, err := looker.Jobs(t.Context(), "q", emq.StatePending, "", 10, 0)
	require.ErrorContains(t, err, "NOPERM")
	queues, err := looker.Queues(t.Context())
	require.NoError(t, err)
	require.ErrorContains(t, queues[0].Err, "NOPERM")
	sample := until(t, sampling(t, looker, time.Millisecond), "a sample", func(s *Sample) bool { return len(s.Queues) == 1 })
	require.Equal(t, Unknown, sample.Queues[0].Trouble)
}

// used are the commands that the server was sent, in small letters.
func used(t *testing.T, c *wire.Conn) []string {
	t.Helper()
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`cmdstat_(\S+?):`).FindAllStringSubmatch(c.Do("INFO", "commandstats"), -1) {
		found[strings.ToLower(m[1])] = true
	}
	return slices.Collect(maps.Keys(found))
}
