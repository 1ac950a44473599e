// Package test drives a real server with the module and answers one question: does it keep the contract, to the byte? Every
// test starts a server of its own; its subtests share that, each on a store that is empty at first and is checked at the end
// (keyspace_test.go).
package test

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/valkey"
	"emq/test/wire"
)

var update = flag.Bool("update", false, "rewrite the replies in testdata/wire.golden from the running module")

func TestMain(m *testing.M) {
	flag.Parse()
	store.Needs("VALKEY_SERVER", "EMQ_MODULE", "EMQ_MODULE_DEBUG")
	os.Exit(m.Run())
}

// The harness is test/store's; these are its names here.
var (
	withModule, withDebugModule, withPump, withoutModule = store.Module, store.Debug, store.Pumped, store.Plain

	waitFor = store.WaitFor
)

// server is a running server that ends with its test.
type server struct {
	*store.Place
	observers *observers
}

func start(t *testing.T, o valkey.Options) *server {
	t.Helper()
	return &server{Place: store.Open(t, o)}
}

// fixture is a server's store during one test, with a connection to it.
type fixture struct {
	*wire.Conn
	t         *testing.T
	s         *server
	lastReply string
	broken    []string
	tokens    tokens
}

// open starts a server with the module and returns its store.
func open(t *testing.T, args ...string) *fixture {
	t.Helper()
	return start(t, withModule(args...)).fresh(t)
}

// fresh empties the server and returns its store for one test or subtest, with an identity in place. At the end of
// that test the keyspace is checked.
func (s *server) fresh(t *testing.T) *fixture {
	t.Helper()
	st := s.bare(t)
	st.Must("SET {emq}:version echomq:6.0.0")
	return st
}

// bare is fresh without an identity.
func (s *server) bare(t *testing.T) *fixture {
	t.Helper()
	st := s.attach(t)
	st.Must("FLUSHALL", "SCRIPT FLUSH", "CONFIG RESETSTAT")
	return st
}

// dial opens a connection that ends with the test, dial3 one that speaks RESP3.
func (s *server) dial(t *testing.T) *wire.Conn  { t.Helper(); return wire.Dial(t, s.Socket) }
func (s *server) dial3(t *testing.T) *wire.Conn { t.Helper(); return wire.Dial3(t, s.Socket) }

// attach returns the server's store as it is.
func (s *server) attach(t *testing.T) *fixture {
	t.Helper()
	st := s.attachPlain(t)
	st.Heard = st.tokens.observe(t)
	t.Cleanup(func() { st.check() })
	return st
}

// attachPlain is attach without the check at the end, for a server whose store is checked elsewhere.
func (s *server) attachPlain(t *testing.T) *fixture {
	t.Helper()
	return &fixture{Conn: s.dial(t), t: t, s: s, tokens: tokens{}}
}

// damaged declares what the test breaks on purpose, in the words of the keyspace check, which must find exactly that at the
// end of the test.
func (st *fixture) damaged(what ...string) { st.broken = append(st.broken, what...) }

// reply asserts the exact reply to a command line.
func (st *fixture) reply(want, line string) {
	st.t.Helper()
	require.Equal(st.t, want, st.Run(line), line)
}

// refusal asserts an error reply that begins with the given words.
func (st *fixture) refusal(want string, args ...string) {
	st.t.Helper()
	require.True(st.t, strings.HasPrefix(st.last(args), "-"+want), "%s: want -%s…, got %q", show(args), want, st.lastReply)
}

func (st *fixture) last(args []string) string {
	st.lastReply = st.Do(args...)
	return st.lastReply
}

// digest is the server's digest of all its data.
func (st *fixture) digest() string { return st.Do("DEBUG", "DIGEST") }

// row returns the row's fields; a row that does not exist has none.
func (st *fixture) row(q queue, id string) map[string]string {
	st.t.Helper()
	flat, ok := value(st.Do("HGETALL", q.Row(id))).([]any)
	require.True(st.t, ok, "the row of %s is no hash", id)
	fields := map[string]string{}
	for i := 0; i < len(flat); i += 2 {
		fields[flat[i].(string)] = flat[i+1].(string)
	}
	return fields
}

// score returns a member's score; the member must exist.
func (st *fixture) score(key, id string) int64 {
	st.t.Helper()
	text, ok := value(st.Do("ZSCORE", key, id)).(string)
	require.True(st.t, ok, "%s is not in %s", id, key)
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(st.t, err)
	return n
}

// expired makes keys expire, and waits until they have by the server's clock. It does not access them, so they stay in
// memory unless active expiry is on.
func (st *fixture) expired(keys ...string) {
	st.t.Helper()
	for _, key := range keys {
		st.Must("PEXPIRE " + key + " 1")
	}
	end := st.Now() + 1
	waitFor(st.t, "keys to expire", func() bool { return st.Now() > end })
}

// newID makes an id that sorts after all made before it.
func newID() string { return "JOB" + ulid.Make().String() }

// put writes a job directly: its row with the state and any further fields, and its entry in the set of that state.
func (st *fixture) put(q queue, id, state string, fields ...string) {
	st.t.Helper()
	require.Equal(st.t, byte(':'), st.Do(append([]string{"HSET", q.Row(id), "state", state, "payload", "x"}, fields...)...)[0])
	score := "0"
	if state == "active" || state == "scheduled" {
		score = "9000000000000"
	}
	require.Equal(st.t, integer(1), st.Do("ZADD", q.Set(state), score, id))
}

// lapse sets the due time or the deadline of scheduled or active jobs to the past.
func (st *fixture) lapse(q queue, ids ...string) {
	st.t.Helper()
	for _, id := range ids {
		set := q.Set(st.row(q, id)["state"])
		require.Equal(st.t, integer(1), st.Do("ZADD", set, "XX", "CH", "1", id), "%s in %s", escape(id), escape(set))
	}
}

// move writes directly to take a job from one state to another.
func (st *fixture) move(q queue, id, from, to string) {
	st.t.Helper()
	for i, command := range q.Move(id, from, to) {
		require.Equal(st.t, integer([]int64{1, 0, 1}[i]), st.Do(command...), show(command))
	}
}

// take claims the next job, which must be this one, and returns the token.
func (st *fixture) take(q queue, id string) string {
	st.t.Helper()
	job, ok := value(st.Do(q.Claim(30000)...)).([]any)
	require.True(st.t, ok && len(job) == 3, "nothing to claim")
	require.Equal(st.t, id, job[0])
	return strconv.FormatInt(job[2].(int64), 10)
}

// Short names for what nearly every test uses.
const (
	identity = wire.Identity
	wire6    = wire.Wire6
	nothing  = wire.Nil
	empty    = wire.Empty
	gone     = wire.Gone
)

var (
	bulk    = wire.Bulk
	integer = wire.Integer
	array   = wire.Array
	claimed = wire.Claimed
	stale   = wire.Stale
	reaped  = wire.Reaped
	status  = wire.Statuses
	value   = wire.Value
	words   = wire.Words
	show    = wire.Line
	with    = wire.With
)

type queue = wire.Queue

// good is the queue of most tests.
const good = queue("q")

// Bounds of the numbers on the wire.
const (
	maxTime  = 1<<52 - 1
	maxInt31 = 1<<31 - 1
)

// escape writes bytes that are not printable ASCII, quotes and backslashes as in a Go string, with every byte of UTF-8
// escaped.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\\' || c == '"':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
