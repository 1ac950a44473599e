package faults

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/link"
	"emq/test/store"
	"emq/test/wire"
)

// Two replicas, one of them without the module, join under load with each kind of full sync, and follow while their
// links are cut again and again. They panic if they can't execute a command; they resume where they were; and after the
// load they have the primary's data.
func TestReplicasFollow(t *testing.T) {
	rounds := store.Rounds(t, 2, 15)
	for _, sync := range []string{"disk", "diskless"} {
		t.Run(sync, func(t *testing.T) {
			diskless := map[string]string{"disk": "no", "diskless": "yes"}[sync]
			s := store.Open(t, store.Module("--repl-backlog-size", "64mb", "--repl-diskless-sync", diskless))
			c := newCrowd(t, "replica's link cut, "+sync+" sync", dial(t, "unix", s.Socket))
			primary := s.Conn()
			c.start(20, 20)
			c.more(t, 500)
			l := link.New(t, s.Addr())
			replicas := []*store.Place{
				store.Open(t, store.Plain(store.Following(l.Address())...)),
				store.Open(t, store.Module(append(store.Following(l.Address()), "--repl-diskless-load", map[string]string{"no": "disabled", "yes": "swapdb"}[diskless])...)),
			}
			var conns []*wire.Conn
			for _, r := range replicas {
				r.Linked()
				conns = append(conns, r.Conn())
			}
			joined := number(t, primary, "sync_full")
			dice := rand.New(rand.NewPCG(c.seed, 0))
			for round := range rounds {
				if round > 0 {
					c.start(20, 20)
				}
				c.more(t, 200+dice.IntN(1000))
				l.Cut()
				c.more(t, 200+dice.IntN(1000))
				l.Mend(t)
				for _, r := range replicas {
					r.Linked()
				}
				c.more(t, 200)
				c.stop()
				store.InStep(t, primary, conns...)
				c.round(t, replicas[0].Keyspace(), c.copy())
			}
			require.Equal(t, joined, number(t, primary, "sync_full"), "a replica had to begin anew")
			require.GreaterOrEqual(t, number(t, primary, "sync_partial_ok"), rounds*len(replicas))
			for _, r := range conns {
				require.NotContains(t, r.Do("INFO", "errorstats"), "errorstat_", "a command failed on the replica")
			}
			c.drain()
			store.InStep(t, primary, conns...)
			c.end(t, replicas[0].Keyspace())
		})
	}
}
