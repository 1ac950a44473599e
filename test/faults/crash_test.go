package faults

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
)

// synced are the settings under which what was answered is on the disk.
var synced = []string{"--appendonly", "yes", "--appendfsync", "always"}

// The server is killed at random moments under load, and started again: with `appendfsync always` every answer holds.
// The workers then settle what they held before.
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
					store.WaitFor(t, "every kind of answer", func() bool { return len(c.missing()) == 0 })
				}
				s.Crash()
				c.moreOf(t, &c.doubt, 1, "clients that were interrupted")
				c.stop()
				s.Start()
				c.round(t, s.Keyspace(), c.copy())
			}
			c.drain()
			c.end(t, s.Keyspace())
		})
	}
}

// As TestKill, while the append-only file is being rewritten: before, during and after the moment at which the new one
// takes the old one's place.
func TestKillDuringRewrite(t *testing.T) {
	rounds := store.Rounds(t, 3, 25)
	s := store.Open(t, store.Module(append(synced, "--rdb-key-save-delay", "100")...))
	c := newCrowd(t, "kill -9 during BGREWRITEAOF", dial(t, "unix", s.Socket))
	dice := rand.New(rand.NewPCG(c.seed, 0))
	cut := 0
	for range rounds {
		c.start(25, 25)
		c.more(t, 500)
		s.Conn().Must("BGREWRITEAOF")
		c.more(t, 1+dice.IntN(2000))
		s.Crash()
		if !strings.Contains(s.Log(), "Background AOF rewrite finished successfully") {
			cut++
		}
		c.stop()
		s.Start()
		c.round(t, s.Keyspace(), c.copy())
	}
	c.drain()
	c.end(t, s.Keyspace())
	if rounds >= 20 {
		require.NotZero(t, cut, "no rewrite was cut short")
	}
}

// A snapshot that is taken under load has each job in one place: whatever was promised before it began is in it. A plain
// server reads it.
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

// An orderly stop under load ends with 0, and nothing that was answered is lost, also where nobody waits for the disk.
func TestStop(t *testing.T) {
	rounds := store.Rounds(t, 2, 20)
	s := store.Open(t, store.Module("--appendonly", "yes", "--appendfsync", "no"))
	c := newCrowd(t, "SIGTERM, appendfsync no", dial(t, "unix", s.Socket))
	for range rounds {
		c.start(20, 20)
		c.more(t, 1000)
		require.NoError(t, s.Stop())
		s.Sound()
		c.stop()
		s.Start()
		c.round(t, s.Keyspace(), c.copy())
	}
	c.drain()
	c.end(t, s.Keyspace())
}
