package faults

import (
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// inStep waits until so many replicas have all that the connection's server has written; then their digests are its own.
func inStep(t testing.TB, primary *wire.Conn, replicas ...*wire.Conn) {
	t.Helper()
	primary.Must("SET in-step x") // so that the connection has something to wait for
	require.Equal(t, wire.Integer(int64(len(replicas))), primary.Do("WAIT", strconv.Itoa(len(replicas)), "0"))
	for _, replica := range replicas {
		require.Equal(t, primary.Do("DEBUG", "DIGEST"), replica.Do("DEBUG", "DIGEST"))
	}
}

// Two replicas, one of them without the module, join under load in either way of a full sync, and follow it while their
// links are cut again and again. They carry out what they are sent, or panic; they take up where they were; and when
// the load rests, they have what the primary has.
func TestReplicasFollow(t *testing.T) {
	rounds := store.Rounds(t, 2, 15)
	for _, sync := range []string{"disk", "diskless"} {
		t.Run(sync, func(t *testing.T) {
			diskless := map[string]string{"disk": "no", "diskless": "yes"}[sync]
			s := open(t, module("--repl-backlog-size", "64mb", "--repl-diskless-sync", diskless))
			c := newCrowd(t, dial(t, "unix", s.Socket))
			primary := s.conn()
			c.start(20, 20)
			c.more(t, 500)
			l := newLink(t, s.Addr())
			replicas := []*place{
				open(t, plain(following(l.address)...)),
				open(t, module(append(following(l.address), "--repl-diskless-load", map[string]string{"no": "disabled", "yes": "swapdb"}[diskless])...)),
			}
			var conns []*wire.Conn
			for _, r := range replicas {
				r.linked()
				conns = append(conns, r.conn())
			}
			joined := number(t, primary, "sync_full")
			dice := rand.New(rand.NewPCG(c.seed, 0))
			for round := range rounds {
				if round > 0 {
					c.start(20, 20)
				}
				c.more(t, 200+dice.IntN(1000))
				l.cut()
				c.more(t, 200+dice.IntN(1000))
				l.mend(t)
				for _, r := range replicas {
					r.linked()
				}
				c.more(t, 200)
				c.stop()
				inStep(t, primary, conns...)
				c.check(replicas[0].keyspace(), c.q, c.copy())
				c.verdict(t)
			}
			require.Equal(t, joined, number(t, primary, "sync_full"), "a replica had to begin anew")
			require.GreaterOrEqual(t, number(t, primary, "sync_partial_ok"), rounds*len(replicas))
			for _, r := range conns {
				require.NotContains(t, r.Do("INFO", "errorstats"), "errorstat_", "a command failed on the replica")
			}
			c.drain(t)
			inStep(t, primary, conns...)
			c.drained(replicas[0].keyspace(), c.q)
			report(t, "replica's link cut, "+sync+" sync", rounds, c)
		})
	}
}
