package faults

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// synced are the settings under which all acknowledged writes are on disk.
var synced = []string{"--appendonly", "yes", "--appendfsync", "always"}

// The server is killed at random moments under load, and started again: with `appendfsync always` no acknowledged write
// is lost. The workers then settle the jobs that they held before.
func TestKill(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			rounds := store.Rounds(t, 4, 50)
			s := store.Open(t, way.server(synced...))
			c := newCrowd(t, "kill -9, appendfsync always, "+way.name, dial(t, "unix", s.Socket))
			c.pumped = way.pumped
			dice := rand.New(rand.NewPCG(c.seed, 0))
			for range rounds {
				c.start(20, 20)
				c.more(t, 100+dice.IntN(3000))
				if c.rounds == 0 {
					c.until(t, "every kind of answer", func() bool { return len(c.missing()) == 0 })
				}
				s.Crash()
				c.moreOf(t, &c.doubt, 1, "clients that were interrupted")
				c.again(t, s)
			}
			c.drain()
			c.end(t, s.Keyspace())
		})
	}
}

// A restart ends no lease, whether after a crash or not: the job is not returned and nobody else gets it, and its
// holder can extend and settle it with its token.
func TestRestartEndsNoLease(t *testing.T) {
	for _, way := range ways {
		for _, end := range []struct {
			name string
			by   func(*store.Place)
		}{
			{"killed", (*store.Place).Crash},
			{"stopped", func(s *store.Place) { require.NoError(t, s.Stop()) }},
		} {
			t.Run(end.name+", "+way.name, func(t *testing.T) {
				s, q := store.Open(t, way.server(synced...)), wire.Queue("q")
				c := s.Conn()
				granted := c.Info("run_id")
				for _, id := range []string{"JOB1", "JOB2", "JOB3"} {
					require.Equal(t, wire.Integer(1), c.Do(q.Enqueue(id, "x")...))
					require.Equal(t, wire.Claimed(id, "x", 1), c.Do(q.Claim(maxClaim)...))
				}
				before := s.Keyspace()
				end.by(s)
				s.Start()
				c = s.Conn()
				require.NotEqual(t, granted, c.Info("run_id"))
				if way.pumped {
					store.WaitFor(t, "the pump's ticks", func() bool { return number(t, c, "emq_pump_ticks") > 2 })
				}
				require.Equal(t, wire.Reaped(nil, nil), c.Do(q.Reap(1, 1000)...))
				require.Equal(t, wire.Empty, c.Do(q.Claim(maxClaim)...))
				require.Empty(t, before.Diff(s.Keyspace()))
				for _, id := range []string{"JOB1", "JOB2"} {
					require.Equal(t, wire.Integer(1), c.Do(q.Extend(id, "1", maxClaim)...))
				}
				require.Equal(t, wire.Integer(1), c.Do(q.Complete("JOB1", "1")...))
				require.Equal(t, wire.Bulk("scheduled"), c.Do(q.Fail("JOB2", "1", maxClaim, 2, "why")...))
				require.Equal(t, wire.Stale("complete"), c.Do(q.Complete("JOB3", "0")...))
				require.Equal(t, wire.Integer(1), c.Do(q.Complete("JOB3", "1")...), "one that was not extended")
			})
		}
	}
}

// As TestKill, during a rewrite of the append-only file: in the middle of it, at any moment, and after the new file has
// replaced the old one.
func TestKillDuringRewrite(t *testing.T) {
	const finished = "Background AOF rewrite finished successfully"
	rounds := store.Rounds(t, 3, 25)
	s := store.Open(t, store.Module(synced...))
	c := newCrowd(t, "kill -9 during BGREWRITEAOF", dial(t, "unix", s.Socket))
	dice := rand.New(rand.NewPCG(c.seed, 0))
	for cut := 0; c.rounds < rounds || cut == 0; {
		require.Less(t, c.rounds, rounds+20, "no rewrite was cut short")
		c.start(25, 25)
		c.more(t, 500)
		admin := s.Conn()
		begins := func(perKey string) { admin.Must("CONFIG SET rdb-key-save-delay "+perKey, "BGREWRITEAOF") }
		switch c.rounds % 3 {
		case 0:
			begins("5000") // each job takes 5 ms, so the server is killed before all are written
		case 1:
			begins("100")
			c.more(t, 1+dice.IntN(2000))
		case 2:
			begins("0")
			store.WaitFor(t, "the rewrite", func() bool { return strings.Contains(s.Log(), finished) })
			c.more(t, 1+dice.IntN(200))
		}
		s.Crash()
		if !strings.Contains(s.Log(), finished) {
			cut++
		}
		c.again(t, s)
	}
	c.drain()
	c.end(t, s.Keyspace())
}

// A snapshot that is taken under load has each job in one set, and all that was acknowledged before it began. A server
// without the module can read it.
func TestSnapshotUnderLoad(t *testing.T) {
	rounds := store.Rounds(t, 3, 25)
	s := store.Open(t, store.Module())
	c := newCrowd(t, "BGSAVE under load", dial(t, "unix", s.Socket))
	admin := s.Conn()
	c.start(25, 25)
	for round := range rounds {
		c.more(t, 1000)
		before := c.copy()
		admin.Must("CONFIG SET rdb-key-save-delay 100", "BGSAVE")
		c.more(t, 100) // while the child writes
		admin.Must("CONFIG SET rdb-key-save-delay 0")
		store.WaitFor(t, "the snapshot", func() bool { return admin.Info("rdb_bgsave_in_progress") == "0" })
		require.Equal(t, "ok", admin.Info("rdb_last_bgsave_status"))

		dir := t.TempDir()
		snapshot, err := os.ReadFile(filepath.Join(s.Dir, "dump.rdb"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "dump.rdb"), snapshot, 0o600))
		o := store.Plain()
		if round%2 == 1 {
			o = store.Module()
		}
		o.Dir = dir
		reader := store.Open(t, o)
		c.round(t, reader.Keyspace(), before)
	}
	c.drain()
	c.end(t, s.Keyspace())
}

// A SHUTDOWN under load exits with 0, and nothing acknowledged is lost, even without fsync.
func TestStop(t *testing.T) {
	rounds := store.Rounds(t, 2, 20)
	s := store.Open(t, store.Module("--appendonly", "yes", "--appendfsync", "no"))
	c := newCrowd(t, "SIGTERM, appendfsync no", dial(t, "unix", s.Socket))
	for range rounds {
		c.start(20, 20)
		c.more(t, 1000)
		require.NoError(t, s.Stop())
		s.Sound()
		c.again(t, s)
	}
	c.drain()
	c.end(t, s.Keyspace())
}
