package gates

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// shutGates are gates that stay shut for as long as a test runs, with the commands that shut and open them.
var shutGates = []struct {
	name       string
	shut, open [][]string
}{
	{"paused", [][]string{q.Pause(0)}, [][]string{q.Resume()}},
	{"paused for a time", [][]string{q.Pause(lease)}, [][]string{q.Resume()}},
	{"full", [][]string{q.Limit(2, 0, 0), q.Mclaim(lease, 9)}, [][]string{q.Limit(0, 0, 0)}},
	{"used up", [][]string{q.Limit(0, 2, lease), q.Claim(lease), q.Claim(lease)}, [][]string{q.Limit(0, 0, 0)}},
}

// shuts shuts a gate on a queue with some jobs, and checks that it holds them back.
func (b *bed) shuts(commands [][]string) {
	b.t.Helper()
	for i := range 5 {
		b.enqueue(q, fmt.Sprintf("JOB%d", i))
	}
	for _, args := range commands {
		require.False(b.t, wire.IsError(b.Do(args...)))
	}
	b.isShut()
}

func (b *bed) isShut() {
	b.t.Helper()
	require.Equal(b.t, wire.Empty, b.Do(q.Claim(lease)...))
	require.Equal(b.t, wire.Empty, b.Do(q.Mclaim(lease, 9)...))
}

func (b *bed) isOpened(commands [][]string, by *wire.Conn) {
	b.t.Helper()
	for _, args := range commands {
		require.False(b.t, wire.IsError(b.Do(args...)))
	}
	require.True(b.t, strings.HasPrefix(by.Receive(), "*4\r\n"))
	require.NotEqual(b.t, wire.Empty, b.Do(q.Claim(lease)...))
}

// TestGatesSurvive stops or kills a server after a gate was acknowledged: after the restart it is shut as before, and
// opens for waiting clients.
func TestGatesSurvive(t *testing.T) {
	for _, gate := range shutGates {
		for way, end := range map[string]func(b *bed){
			"kill -9": func(b *bed) { b.Crash() },
			"restart": func(b *bed) { require.NoError(b.t, b.Stop()) },
			"reload":  func(b *bed) { b.Must("DEBUG RELOAD") },
			"rewrite and kill -9": func(b *bed) {
				b.Must("BGREWRITEAOF")
				store.WaitFor(b.t, "the rewrite", func() bool { return b.Info("aof_rewrite_in_progress") == "0" && b.Info("aof_rewrite_scheduled") == "0" })
				b.Crash()
			},
		} {
			t.Run(gate.name+"/"+way, func(t *testing.T) {
				b := serve(t, store.Open(t, store.Module("--appendonly", "yes", "--appendfsync", "always")))
				b.shuts(gate.shut)
				before, stats := b.Do("DEBUG", "DIGEST"), gated(b.Conn)
				end(b)
				if way != "reload" {
					b.Start()
					b.Conn = b.Place.Conn()
				}
				require.Equal(t, before, b.Do("DEBUG", "DIGEST"))
				require.Equal(t, stats, gated(b.Conn))
				b.isShut()
				w := b.wait(q)
				b.isOpened(gate.open, w)
			})
		}
	}
}

// gated are the gates as STATS shows them.
func gated(c *wire.Conn) string {
	_, gates, _ := strings.Cut(c.Do(q.Stats()...), "paused")
	return gates
}

// TestGatesAndFailover fails over with a shut gate: waiting clients are unblocked with an error, and on the new primary
// the gate is shut as before, and can be opened.
func TestGatesAndFailover(t *testing.T) {
	for _, gate := range shutGates {
		t.Run(gate.name, func(t *testing.T) {
			primary := store.Open(t, store.Module("--propagation-error-behavior", "panic"))
			replica := store.Open(t, store.Module(append(store.Following(primary.Addr()), "--propagation-error-behavior", "panic")...))
			replica.Linked()
			primary.Online()
			b := serve(t, primary)
			b.shuts(gate.shut)
			w := b.wait(q)
			store.InStep(t, b.Conn, replica.Conn())
			stats := gated(b.Conn)
			require.Equal(t, stats, gated(replica.Conn()), "on the replica, too")
			b.Must("FAILOVER TO 127.0.0.1 " + fmt.Sprint(replica.Port()))
			store.WaitFor(t, "the hand-over", func() bool { return b.Info("master_failover_state") == "no-failover" })
			require.True(t, strings.HasPrefix(w.Receive(), "-UNBLOCKED "))
			now := &bed{Place: replica, Conn: replica.Conn(), t: t}
			store.WaitFor(t, "the new primary", func() bool { return now.Info("role") == "master" })
			require.Equal(t, stats, gated(now.Conn))
			now.isShut()
			again := now.wait(q)
			now.isOpened(gate.open, again)
			require.Empty(t, now.Keyspace().Check(wire.Wire6))
		})
	}
}

// TestGatesWhileWritesArePaused opens a gate during CLIENT PAUSE WRITE: waiting clients are served after the pause.
func TestGatesWhileWritesArePaused(t *testing.T) {
	b := begin(t)
	b.enqueue(q, "JOB1")
	b.Do(q.Pause(30)...)
	w := b.wait(q)
	b.Must("CLIENT PAUSE 600000 WRITE")
	over := b.Now() + 60
	store.WaitFor(t, "the pause of the queue to be over", func() bool { return b.Now() > over })
	require.Equal(t, "1", b.Info("emq_waiting_clients"))
	b.Must("CLIENT UNPAUSE")
	require.Equal(t, wire.BClaimed(q, "JOB1", "x", 1), w.Receive())
}
