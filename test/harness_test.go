// Package test drives a real server with the module in it and asks one question: does it keep the contract, to the
// byte? Every test starts a server of its own; subtests share it, each on a store that is empty at first and is
// looked over at the end (keyspace_test.go).
package test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"emq/test/valkey"
)

var (
	update = flag.Bool("update", false, "rewrite the replies in testdata/wire.golden from the running module")
	seed   = flag.Uint64("seed", uint64(time.Now().UnixNano()), "where the random loads begin")
)

// The settings that `make test` makes, and what each of them names.
var needed = map[string]string{
	"VALKEY_SERVER":    "the server binary",
	"EMQ_MODULE":       "emq.so",
	"EMQ_MODULE_DEBUG": "the same module built with -tags emqdebug",
}

func TestMain(m *testing.M) {
	flag.Parse()
	for name, what := range needed {
		if os.Getenv(name) == "" {
			fmt.Fprintf(os.Stderr, "%s is not set: it names %s, and `make test` sets it\n", name, what)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// withModule are the options of a server that loads the module, with further settings as on the command line.
func withModule(args ...string) valkey.Options {
	return valkey.Options{Module: os.Getenv("EMQ_MODULE"), Args: args}
}

// withDebugModule is withModule for the build that has fault triggers.
func withDebugModule(args ...string) valkey.Options {
	return valkey.Options{Module: os.Getenv("EMQ_MODULE_DEBUG"), Args: args}
}

// withoutModule are the options of a plain server.
func withoutModule(args ...string) valkey.Options { return valkey.Options{Args: args} }

// server is a running server that ends with its test.
type server struct {
	*valkey.Server
	client    *redis.Client
	observers *observers
}

// start starts a server for the test. At the end the server must be alive, stop when asked, and have no crash or
// internal error in its log.
func start(t *testing.T, o valkey.Options) *server {
	t.Helper()
	v, err := valkey.Start(o)
	require.NoError(t, err)
	s := &server{Server: v, client: newClient(v)}
	t.Cleanup(func() {
		_ = s.client.Close()
		require.NoError(t, s.Close(), "the server's end")
	})
	t.Cleanup(func() {
		log := s.Log()
		require.NotContains(t, log, "BUG REPORT", "the server crashed")
		require.NotContains(t, log, "internal error", "the module panicked")
	})
	return s
}

func newClient(v *valkey.Server) *redis.Client {
	return redis.NewClient(&redis.Options{
		Network: "unix", Addr: v.Socket, Protocol: 2, ReadTimeout: replyWait, DisableIdentity: true, MaxRetries: -1,
	})
}

// crashing is start for a test that makes the server die: nothing is asked of its end.
func crashing(t *testing.T, o valkey.Options) *server {
	t.Helper()
	v, err := valkey.Start(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = v.Kill()
		_ = v.Close()
	})
	return &server{Server: v}
}

// store is a server's data as one test sees it.
type store struct {
	*conn
	t      *testing.T
	s      *server
	broken []string
	tokens tokens
}

// open starts a server with the module and returns its store.
func open(t *testing.T, args ...string) *store {
	t.Helper()
	return start(t, withModule(args...)).fresh(t)
}

// fresh empties the server and returns its store for one test or subtest, with an identity in place. At the end of
// that test the keyspace is checked.
func (s *server) fresh(t *testing.T) *store {
	t.Helper()
	st := s.bare(t)
	st.given("SET {emq}:version echomq:6.0.0")
	return st
}

// bare is fresh without an identity.
func (s *server) bare(t *testing.T) *store {
	t.Helper()
	st := s.attach(t)
	st.given("FLUSHALL", "SCRIPT FLUSH", "CONFIG RESETSTAT")
	return st
}

// attach returns the server's store as it is.
func (s *server) attach(t *testing.T) *store {
	t.Helper()
	st := &store{conn: s.dial(t), t: t, s: s, tokens: tokens{}}
	st.conn.heard = st.tokens.observe(t)
	t.Cleanup(func() { st.check() })
	return st
}

// damaged declares what is broken in the store on purpose, in the words of the keyspace check: exactly that must be
// found at the end of the test.
func (st *store) damaged(what ...string) { st.broken = append(st.broken, what...) }

// given runs commands that must not fail.
func (st *store) given(lines ...string) {
	st.t.Helper()
	for _, line := range lines {
		reply := st.run(line)
		require.NotEqual(st.t, byte('-'), reply[0], "%s: %s", line, reply)
	}
}

// run sends one command line and returns the reply's bytes. See words for how a line is read.
func (st *store) run(line string) string {
	st.t.Helper()
	return st.do(words(line)...)
}

// reply asserts the exact reply to a command line.
func (st *store) reply(want, line string) {
	st.t.Helper()
	require.Equal(st.t, want, st.run(line), line)
}

// refusal asserts an error reply that begins with the given words.
func (st *store) refusal(want string, args ...string) {
	st.t.Helper()
	require.True(st.t, strings.HasPrefix(st.last(args), "-"+want), "%s: want -%s…, got %q", show(args), want, st.lastReply)
}

func (st *store) last(args []string) string {
	st.lastReply = st.do(args...)
	return st.lastReply
}

// digest is the server's digest of all its data.
func (st *store) digest() string { return st.do("DEBUG", "DIGEST") }

// row returns the row's fields; a row that does not exist has none.
func (st *store) row(q queue, id string) map[string]string {
	st.t.Helper()
	flat, ok := value(st.do("HGETALL", q.row(id))).([]any)
	require.True(st.t, ok, "the row of %s is no hash", id)
	fields := map[string]string{}
	for i := 0; i < len(flat); i += 2 {
		fields[flat[i].(string)] = flat[i+1].(string)
	}
	return fields
}

// members returns the ids in a sorted set, in order.
func (st *store) members(key string) []string {
	st.t.Helper()
	list, ok := value(st.do("ZRANGE", key, "0", "-1")).([]any)
	require.True(st.t, ok, "%s is no sorted set", key)
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = list[i].(string)
	}
	return ids
}

// score returns a member's score; the member must be there.
func (st *store) score(key, id string) int64 {
	st.t.Helper()
	text, ok := value(st.do("ZSCORE", key, id)).(string)
	require.True(st.t, ok, "%s is not in %s", id, key)
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(st.t, err)
	return n
}

// now is the server's clock, in milliseconds.
func (st *store) now() int64 {
	st.t.Helper()
	pair := value(st.do("TIME")).([]any)
	sec, err := strconv.ParseInt(pair[0].(string), 10, 64)
	require.NoError(st.t, err)
	usec, err := strconv.ParseInt(pair[1].(string), 10, 64)
	require.NoError(st.t, err)
	return sec*1000 + usec/1000
}

// info returns one field of INFO; a field that is not there is empty.
func (st *store) info(name string) string {
	st.t.Helper()
	text := value(st.do("INFO", "everything")).(string)
	for line := range strings.SplitSeq(text, "\r\n") {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return v
		}
	}
	return ""
}

// waitFor waits until something that must happen has happened. The bound is no assertion about speed.
func waitFor(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(replyWait); !happened(); time.Sleep(2 * time.Millisecond) {
		require.True(t, time.Now().Before(end), "waited too long for: %s", what)
	}
}

// newID makes an id that sorts after all made before it.
func newID() string { return "JOB" + ulid.Make().String() }

// put writes a job by hand: its row with the state and any further fields, and its entry in the set of that state.
func (st *store) put(q queue, id, state string, fields ...string) {
	st.t.Helper()
	require.Equal(st.t, byte(':'), st.do(append([]string{"HSET", q.row(id), "state", state, "payload", "x"}, fields...)...)[0])
	score := "0"
	if state == "active" || state == "scheduled" {
		score = "9000000000000"
	}
	require.Equal(st.t, integer(1), st.do("ZADD", q.set(setOf[state]), score, id))
}

// move takes a job from one state to another by hand, as the scripts that promote and reap do.
func (st *store) move(q queue, id, from, to string) {
	st.t.Helper()
	require.Equal(st.t, integer(1), st.do("ZREM", q.set(setOf[from]), id))
	require.Equal(st.t, integer(0), st.do("HSET", q.row(id), "state", to))
	require.Equal(st.t, integer(1), st.do("ZADD", q.set(setOf[to]), "0", id))
}

// take claims the next job, which must be this one, and returns the token.
func (st *store) take(q queue, id string) string {
	st.t.Helper()
	job, ok := value(st.do(q.claim(30000)...)).([]any)
	require.True(st.t, ok && len(job) == 3, "nothing to claim")
	require.Equal(st.t, id, job[0])
	return strconv.FormatInt(job[2].(int64), 10)
}
