package test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/test/wire"
)

// observed is all that others can observe of a test's action.
type observed struct {
	stream      []string // the commands that a replica received, one line each
	events      []string // the keyspace events, "event key"
	changed     []string // the keys whose content is another now
	aborted     []string // the keys whose WATCH fails
	invalidated []string // the keys that client-side caches were told to forget
	digest      [2]string
	clock       [2]int64 // the server's time before and after, ms
}

// observers are a server's witnesses: a replica's link, a subscriber to keyspace events, a client that tracks keys,
// and connections that watch one key each.
type observers struct {
	replica    *replica
	subscriber *wire.Conn
	tracker    *wire.Conn
	watchers   []*wire.Conn
	marks      int
}

// observe runs act and returns what could be observed of it. It looks at the keys that exist before or after, and at
// the named ones.
func (st *fixture) observe(act func(), named ...string) observed {
	st.t.Helper()
	w := st.s.observers
	require.NotNil(st.t, w, "the server was not started by witnessed")
	db := st.db()

	var o observed
	w.settle(st)
	keys := union(st.keys(), named)
	before := st.contents(keys)
	watchers := w.watch(st.t, st.s, db, keys)
	w.tracker.Pushes = nil
	o.digest[0], o.clock[0] = st.digest(), st.Now()

	act()

	o.clock[1], o.digest[1] = st.Now(), st.digest()
	o.stream, o.events = w.settle(st)
	for _, push := range w.tracker.Pushes {
		if m := value(push).([]any); m[0] == "invalidate" && m[1] != nil {
			for _, k := range m[1].([]any) {
				o.invalidated = append(o.invalidated, k.(string))
			}
		}
	}
	for i, k := range keys {
		watchers[i].Do("MULTI")
		watchers[i].Do("PING")
		if reply := watchers[i].Do("EXEC"); value(reply) == nil {
			o.aborted = append(o.aborted, k)
		}
	}
	keys = union(keys, st.keys())
	after := st.contents(keys)
	for _, k := range keys {
		if before[k] != after[k] {
			o.changed = append(o.changed, k)
		}
	}
	o.invalidated = union(o.invalidated, nil)
	return o
}

// unchanged asserts that nothing could be observed of act.
func (st *fixture) unchanged(act func(), named ...string) {
	st.t.Helper()
	o := st.observe(act, named...)
	require.Equal(st.t, o.digest[0], o.digest[1], "the digest")
	require.Empty(st.t, o.stream, "propagated")
	require.Empty(st.t, o.events, "keyspace events")
	require.Empty(st.t, o.aborted, "a WATCH fails")
	require.Empty(st.t, o.invalidated, "client caches were told")
}

// refused asserts that a command is refused with an error that begins with the given words, and that nothing else could be
// observed of it.
func (st *fixture) refused(want string, args ...string) {
	st.t.Helper()
	st.unchanged(func() { st.refusal(want, args...) }, family(args)...)
}

// quiet asserts the exact reply to a command, and that nothing else could be observed of it.
func (st *fixture) quiet(want string, args ...string) {
	st.t.Helper()
	st.unchanged(func() { require.Equal(st.t, want, st.Do(args...), show(args)) }, family(args)...)
}

// effects runs one command and asserts its reply, and that exactly the changed keys fail a WATCH and are invalidated in
// client caches. The caller compares what a replica received.
func (st *fixture) effects(want string, args ...string) observed {
	st.t.Helper()
	o := st.observe(func() { require.Equal(st.t, want, st.Do(args...), show(args)) }, family(args)...)
	require.Equal(st.t, o.changed, o.aborted, "the keys that changed and those whose WATCH fails")
	require.Equal(st.t, o.changed, o.invalidated, "the keys that changed and those that left the client caches")
	return o
}

// family are the identity, all keys of the queue to which a command's first key belongs, all keys that it names, and
// the rows of the first jobs that a verb for many jobs lists.
func family(args []string) []string {
	keys := []string{identity}
	for i, a := range args {
		q, _, ok := wire.Split(a)
		if !ok {
			continue
		}
		if a != q.Base() && a != q.RowPrefix() {
			keys = append(keys, a)
		}
		if a == q.Base() {
			for _, id := range args[i+1 : min(i+200, len(args))] {
				if strings.HasPrefix(id, "JOB") {
					keys = append(keys, q.Row(id))
				}
			}
		}
		keys = append(keys, q.Pending(), q.Active(), q.Schedule(), q.Dead(), q.Completed(), q.Failed(), q.Meta())
	}
	return union(keys, nil)
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

func (st *fixture) db() string {
	st.t.Helper()
	text := st.Do("CLIENT", "INFO")
	_, rest, ok := strings.Cut(text, " db=")
	require.True(st.t, ok)
	db, _, _ := strings.Cut(rest, " ")
	return db
}

func (st *fixture) keys() []string {
	st.t.Helper()
	var keys []string
	for _, k := range value(st.Do("KEYS", "*")).([]any) {
		keys = append(keys, k.(string))
	}
	return keys
}

// contents returns a digest of each key's content.
func (st *fixture) contents(keys []string) map[string]string {
	st.t.Helper()
	content := map[string]string{}
	if len(keys) == 0 {
		return content
	}
	for i, d := range value(st.Do(append([]string{"DEBUG", "DIGEST-VALUE"}, keys...)...)).([]any) {
		content[keys[i]] = d.(string)
	}
	return content
}

// newObservers attaches the witnesses. They live as long as the test that started the server.
func newObservers(t *testing.T, s *server) *observers {
	t.Helper()
	c := s.dial(t)
	require.Equal(t, "+OK\r\n", c.Do("CONFIG", "SET", "notify-keyspace-events", "KEAn"))
	w := &observers{replica: attachReplica(t, s), subscriber: s.dial(t), tracker: s.dial3(t)}
	w.subscriber.Do("PSUBSCRIBE", "__keyevent@*__:*")
	require.Equal(t, "+OK\r\n", w.tracker.Do("CLIENT", "TRACKING", "ON", "BCAST"))
	return w
}

// witnessed is start with the observers attached.
func witnessed(t *testing.T, args ...string) *server {
	t.Helper()
	s := start(t, withModule(args...))
	s.observers = newObservers(t, s)
	return s
}

// watch watches each key with a connection of its own.
func (w *observers) watch(t *testing.T, s *server, db string, keys []string) []*wire.Conn {
	t.Helper()
	for len(w.watchers) < len(keys) {
		w.watchers = append(w.watchers, wire.Dial(w.replica.t, s.Socket))
	}
	for i, k := range keys {
		require.Equal(t, "+OK\r\n", w.watchers[i].Do("SELECT", db))
		require.Equal(t, "+OK\r\n", w.watchers[i].Do("WATCH", k))
	}
	return w.watchers[:len(keys)]
}

// settle publishes a mark, which every observer receives after all earlier changes, and returns what came since the
// last mark.
func (w *observers) settle(st *fixture) (stream, events []string) {
	st.t.Helper()
	w.marks++
	mark := strconv.Itoa(w.marks)
	st.Do("PUBLISH", "__keyevent@0__:mark", mark)

	for {
		m := value(w.subscriber.Receive()).([]any)
		_, event, _ := strings.Cut(m[2].(string), "__:")
		if event == "mark" {
			if m[3] == mark {
				break
			}
			continue
		}
		events = append(events, event+" "+escape(m[3].(string)))
	}
	for {
		args := w.replica.next()
		if args[0] == "PUBLISH" && args[2] == mark {
			break
		}
		stream = append(stream, show(args))
	}
	w.tracker.Do("PING") // pending invalidations arrive before its reply
	return stream, events
}

// replica is a link on which a server sends what its replicas execute.
type replica struct {
	t  *testing.T
	n  net.Conn
	r  *bufio.Reader
	db string
}

// attachReplica asks for a full synchronisation and discards the snapshot.
func attachReplica(t *testing.T, s *server) *replica {
	t.Helper()
	n, err := net.Dial("unix", s.Socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Close() })
	r := &replica{t: t, n: n, r: bufio.NewReader(n), db: "0"}
	require.NoError(t, n.SetDeadline(time.Now().Add(wire.Patience)))
	_, err = io.WriteString(n, wire.Encode([]string{"SYNC"}))
	require.NoError(t, err)
	for {
		line, err := r.r.ReadString('\n')
		require.NoError(t, err)
		if line == "\n" { // sent while the snapshot is being made
			continue
		}
		size, err := strconv.ParseInt(strings.TrimSpace(strings.TrimPrefix(line, "$")), 10, 64)
		require.NoError(t, err, "the snapshot's size, got %q", line)
		_, err = io.CopyN(io.Discard, r.r, size)
		require.NoError(t, err)
		return r
	}
}

// next returns the next command of the stream, without the stream's own housekeeping. A command for a database other
// than 0 is marked by an additional word.
func (r *replica) next() []string {
	r.t.Helper()
	require.NoError(r.t, r.n.SetDeadline(time.Now().Add(wire.Patience)))
	for {
		args, err := wire.ReadCommand(r.r)
		require.NoError(r.t, err, "reading the replication stream")
		switch strings.ToUpper(args[0]) {
		case "PING", "REPLCONF":
			continue
		case "SELECT":
			r.db = args[1]
			continue
		}
		if r.db != "0" && args[0] != "PUBLISH" {
			args[0] = fmt.Sprintf("[db %s] %s", r.db, args[0])
		}
		return args
	}
}

// streamed asserts what a replica received, word by word. The word {now+N} stands for a time N ms after the command.
func (o observed) streamed(t *testing.T, want ...string) {
	t.Helper()
	require.Len(t, o.stream, len(want), "the stream: %s", strings.Join(o.stream, " | "))
	for i, line := range want {
		got, wanted := strings.Split(o.stream[i], " "), strings.Split(line, " ")
		require.Len(t, got, len(wanted), "the stream: %s", strings.Join(o.stream, " | "))
		for j, word := range wanted {
			if plus, ok := strings.CutPrefix(word, "{now+"); ok {
				offset, err := strconv.ParseInt(strings.TrimSuffix(plus, "}"), 10, 64)
				require.NoError(t, err)
				at, err := strconv.ParseInt(got[j], 10, 64)
				require.NoError(t, err, "a deadline in %q", o.stream[i])
				require.GreaterOrEqual(t, at, o.clock[0]+offset)
				require.LessOrEqual(t, at, o.clock[1]+offset)
				continue
			}
			require.Equal(t, word, got[j], "the stream's line %d: %s", i+1, o.stream[i])
		}
	}
}
