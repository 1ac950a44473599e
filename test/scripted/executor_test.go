package scripted_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"emq/lua"
	"emq/test/scripted"
	"emq/test/store"
	"emq/test/wire"
)

const q = wire.Queue("q")

// verbs are one well-formed call of each verb on JOB1, with the reply that it gets in this order.
var verbs = []struct {
	args  []string
	reply string
}{
	{q.Enqueue("JOB1", "x"), wire.Integer(1)},
	{q.Claim(30000), wire.Claimed("JOB1", "x", 1)},
	{q.Fail("JOB1", "1", 0, 9, "why"), wire.Bulk("scheduled")},
	{q.Complete("JOB1", "1"), wire.Integer(1)},
}

// Each script is loaded when it is first run, and again only if the server has lost it.
func TestLoadsOnce(t *testing.T) {
	conn := &recorder{Conn: wire.Dial(t, store.Serve(t).Socket)}
	e, err := scripted.Open(conn)
	require.NoError(t, err)
	for _, forget := range []bool{false, true} {
		if forget {
			conn.Must("SCRIPT FLUSH")
		}
		for _, verb := range verbs {
			script, ok := lua.Of(verb.args[0])
			require.True(t, ok)
			run := append([]string{"EVALSHA", script.SHA}, verb.args[1:]...)

			conn.sent = nil
			require.Equal(t, verb.reply, e.Do(verb.args...))
			require.Equal(t, [][]string{run, {"SCRIPT", "LOAD", script.Source}, run}, conn.sent)

			conn.sent = nil
			e.Do(verb.args...)
			require.Equal(t, [][]string{run}, conn.sent)
		}
	}
}

// recorder is a connection that records what is sent.
type recorder struct {
	*wire.Conn
	sent [][]string
}

func (r *recorder) Do(args ...string) string {
	r.sent = append(r.sent, args)
	return r.Conn.Do(args...)
}

// An executor claims an empty store, verifies its own, and refuses every other without writing.
func TestFence(t *testing.T) {
	conn := wire.Dial(t, store.Serve(t).Socket)
	for _, tt := range []struct {
		name, given string
		open        bool
	}{
		{"an empty store", "FLUSHALL", true},
		{"its own", "SET {emq}:version echomq:4.0.0", true},
		{"the native verbs'", "SET {emq}:version echomq:6.0.0", false},
		{"another's", "SET {emq}:version x", false},
		{"an empty identity", `SET {emq}:version ""`, false},
		{"no string", "HSET {emq}:version f v", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn.Must("FLUSHALL", tt.given)
			before := store.Read(t, conn)
			_, err := scripted.Open(conn)
			after := store.Read(t, conn)
			if tt.open {
				require.NoError(t, err)
				require.Equal(t, store.Keyspace{wire.Identity: store.String(wire.Wire4)}, after[0])
			} else {
				require.Error(t, err)
				require.Equal(t, before, after)
			}
		})
	}
}

// The two executors refuse each other's store, which the first write has claimed.
func TestEachRefusesTheOthersStore(t *testing.T) {
	conn := wire.Dial(t, store.Serve(t).Socket)
	t.Run("the scripts' store", func(t *testing.T) {
		conn.Must("FLUSHALL")
		e, err := scripted.Open(conn)
		require.NoError(t, err)
		require.Equal(t, verbs[0].reply, e.Do(verbs[0].args...))
		require.Equal(t, verbs[1].reply, e.Do(verbs[1].args...))
		before := store.Read(t, conn)
		for _, verb := range verbs {
			require.Equal(t, `-EMQFENCE {emq}:version is "echomq:4.0.0", this executor speaks "echomq:6.0.0"`+"\r\n",
				conn.Do(verb.args...))
		}
		require.Equal(t, before, store.Read(t, conn))
	})
	t.Run("the native verbs' store", func(t *testing.T) {
		conn.Must("FLUSHALL")
		require.Equal(t, verbs[0].reply, conn.Do(verbs[0].args...))
		before := store.Read(t, conn)
		_, err := scripted.Open(conn)
		require.EqualError(t, err, `the store speaks "echomq:6.0.0", this executor "echomq:4.0.0"`)
		require.Equal(t, before, store.Read(t, conn))
	})
}
