package test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/wire"
)

// A command can come without a user: from an append-only file, over the primary's link, from another module's timer. Such
// commands must be unrestricted, and must not crash the server.

// All requests of a job's life and one of each refusal, on an unclaimed store.
func userless() [][]string {
	return [][]string{
		good.Claim(1000), good.Complete("JOB1", "1"), good.Fail("JOB1", "1", 0, 1, "why"), good.Stats(), good.Fix("0", 10),
		good.Enqueue("JOB1", "x"), good.Enqueue("JOB1", "x"), good.Enqueue("XYZ", "x"), with(good.Enqueue("JOB1", "x"), 1, "02"),
		good.Claim(30000), good.Complete("JOB1", "7"), good.Fail("JOB1", "1", 1000, 1, "why"),
		good.Stats(), good.Audit("dead:0", 10), good.Fix("rows:0", 1000),
		good.Enqueue("JOB2", "y"), good.Enqueue("JOB3", "z"), good.Claim(30000), good.Complete("JOB2", "1"),

		good.Extend("JOB0", "1", 1000), good.Promote(10), good.Reap(1, 10),
		good.ScheduleAt("JOB0", "x", 1), good.ScheduleIn("JOB0", "x", 1), good.Promote(10), good.ScheduleIn("JOB4", "x", maxTime),
		good.Claim(30000), good.Extend("JOB0", "7", 1000), good.Extend("JOB0", "1", maxTime), good.Reap(1, 10), good.Reap(1, 0),

		wire.Queues("", 10), wire.Queues("", 0),
	}
}

// afterUserless asserts the store that these requests lead to.
func afterUserless(st *fixture) {
	st.t.Helper()
	st.reply(bulk(wire6), "GET {emq}:version")
	require.Equal(st.t, []string{"JOB1"}, st.Members(good.Dead()))
	require.Equal(st.t, []string{"JOB3"}, st.Members(good.Pending()))
	require.Equal(st.t, []string{"JOB4"}, st.Members(good.Schedule()))
	require.Equal(st.t, []string{"JOB0"}, st.Members(good.Active()))
	require.Greater(st.t, st.score(good.Active(), "JOB0"), int64(maxTime))
	require.Empty(st.t, st.row(good, "JOB2"))
	st.reply(bulk("1"), "HGET emq:{q}:metrics:completed count")
	st.reply(bulk("1"), "HGET emq:{q}:metrics:failed count")
}

// The server never writes a verb into an append-only file, but somebody else may.
func TestVerbsInAnAppendOnlyFile(t *testing.T) {
	for _, unit := range []bool{false, true} {
		t.Run(fmt.Sprintf("in a transaction %v", unit), func(t *testing.T) {
			dir, err := os.MkdirTemp("", "emq")
			require.NoError(t, err)
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			aof := filepath.Join(dir, "appendonlydir")
			require.NoError(t, os.Mkdir(aof, 0o755))
			commands := userless()
			if unit {
				commands = append(append([][]string{{"MULTI"}}, commands...), []string{"EXEC"})
			}
			text := wire.Encode([]string{"SELECT", "0"}) + wire.Encode(commands...)
			require.NoError(t, os.WriteFile(filepath.Join(aof, "appendonly.aof.1.incr.aof"), []byte(text), 0o644))
			require.NoError(t, os.WriteFile(filepath.Join(aof, "appendonly.aof.manifest"), []byte("file appendonly.aof.1.incr.aof seq 1 type i\n"), 0o644))

			o := withModule("--appendonly", "yes")
			o.Dir = dir
			s := start(t, o)
			st := s.attach(t)
			afterUserless(st)
			require.Equal(t, claimed("JOB3", "z", 1), st.Do(good.Claim(1000)...))
		})
	}
}

// A primary that sends verbs instead of effects, as no real one does: the replica refuses them and executes the rest.
func TestVerbsOverThePrimarysLink(t *testing.T) {
	for _, readOnly := range []string{"yes", "no"} {
		t.Run("replica-read-only "+readOnly, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Close() })
			stream := wire.Encode([]string{"SELECT", "0"}, []string{"SET", "before", "1"}) + wire.Encode(userless()...) +
				wire.Encode([]string{"MULTI"}, good.Enqueue("JOB9", "x"), []string{"EXEC"}) + wire.Encode([]string{"SET", "after", "1"})
			go playPrimary(l, stream)

			host, port, _ := strings.Cut(l.Addr().String(), ":")
			s := start(t, withModule("--replicaof", host+" "+port, "--replica-read-only", readOnly))
			st := s.attach(t)
			waitFor(t, "the end of the stream", func() bool { return st.Do("EXISTS", "after") == integer(1) })
			require.ElementsMatch(t, []string{"before", "after"}, st.keys(), "the verbs changed nothing")
			require.NotEmpty(t, st.Info("errorstat_READONLY"))
			st.Must("REPLICAOF NO ONE")
			require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
		})
	}
}

// playPrimary answers one replica's handshake, sends it an empty snapshot and then a stream of commands.
func playPrimary(l net.Listener, stream string) {
	c, err := l.Accept()
	if err != nil {
		return
	}
	defer c.Close()
	// An empty database of format 11, its checksum switched off.
	const snapshot = "REDIS0011\xff\x00\x00\x00\x00\x00\x00\x00\x00"
	for r := bufio.NewReader(c); ; {
		args, err := wire.ReadCommand(r)
		if err != nil {
			return
		}
		switch strings.ToUpper(args[0]) {
		case "PING":
			_, err = io.WriteString(c, "+PONG\r\n")
		case "REPLCONF":
			if strings.EqualFold(args[1], "ACK") {
				continue
			}
			_, err = io.WriteString(c, "+OK\r\n")
		case "PSYNC":
			_, err = fmt.Fprintf(c, "+FULLRESYNC %s 0\r\n$%d\r\n%s%s", strings.Repeat("a", 40), len(snapshot), snapshot, stream)
		default:
			_, err = io.WriteString(c, "-ERR what?\r\n")
		}
		if err != nil {
			return
		}
	}
}

// loadTestModule builds one of the modules under testdata and loads it beside ours.
func (s *server) loadTestModule(t *testing.T, name string) {
	t.Helper()
	require.Equal(t, "+OK\r\n", s.dial(t).Do("MODULE", "LOAD", testModule(t, name)))
}

// testModule builds a module of testdata and returns its path.
func testModule(t *testing.T, name string) string {
	t.Helper()
	other := filepath.Join(t.TempDir(), name+".so")
	out, err := exec.Command("gcc", "-std=c11", "-Wall", "-Wextra", "-O1", "-shared", "-fPIC", "-o", other,
		filepath.Join("testdata", name, name+".c")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Empty(t, string(out))
	require.NoError(t, os.Chmod(other, 0o755))
	return other
}

// Another module's timer.
func TestVerbsFromAnotherModulesTimer(t *testing.T) {
	s := witnessed(t)
	s.loadTestModule(t, "usermod")

	later := func(st *fixture, args []string) string {
		st.Must("DEL usermod:reply")
		require.Equal(st.t, "+OK\r\n", st.Do(append([]string{"USERMOD.LATER", "usermod:reply"}, args...)...))
		waitFor(st.t, "the timer", func() bool { return st.Do("EXISTS", "usermod:reply") == integer(1) })
		reply := value(st.Do("GET", "usermod:reply")).(string)
		st.Must("DEL usermod:reply")
		return reply
	}
	t.Run("a life", func(t *testing.T) {
		st := s.bare(t)
		for _, args := range userless() {
			later(st, args)
		}
		afterUserless(st)
	})
	t.Run("replies", func(t *testing.T) {
		st := s.bare(t)
		require.Equal(t, integer(1), later(st, good.Enqueue("JOB1", "x")))
		st.reply(bulk(wire6), "GET {emq}:version")
		require.Equal(t, integer(0), later(st, good.Enqueue("JOB1", "x")))
		require.Equal(t, claimed("JOB1", "x", 1), later(st, good.Claim(1000)))
		require.Equal(t, stale("complete"), later(st, good.Complete("JOB1", "9")))
		require.Equal(t, bulk("scheduled"), later(st, good.Fail("JOB1", "1", 1000, 9, "why")))
		require.Contains(t, later(st, good.Stats()), "scheduled\r\n:1\r\n")
		require.Equal(t, array(bulk("active:0"), empty), later(st, good.Fix("0", 10)))
		require.Equal(t, gone, later(st, good.Fail("JOB2", "1", 1000, 9, "why")))
		require.Equal(t, array(bulk(good.Base())), later(st, wire.Queues("", 10)), "who has no user may read all")
	})
	t.Run("replies of the added verbs", func(t *testing.T) {
		st := s.bare(t)
		require.Equal(t, integer(1), later(st, good.ScheduleAt("JOB1", "x", 1)))
		st.reply(bulk(wire6), "GET {emq}:version")
		require.Equal(t, integer(0), later(st, good.ScheduleAt("JOB1", "x", 1)))
		require.Equal(t, integer(1), later(st, good.Promote(10)))
		require.Equal(t, claimed("JOB1", "x", 1), later(st, good.Claim(60_000)))
		require.Equal(t, stale("extend"), later(st, good.Extend("JOB1", "9", 60_000)))
		require.Equal(t, integer(1), later(st, good.Extend("JOB1", "1", 60_000)))
		st.lapse(good, "JOB1")
		require.Equal(t, reaped([]string{"JOB1"}, nil), later(st, good.Reap(2, 10)))
		require.Equal(t, integer(-1), later(st, good.Extend("JOB2", "1", 1000)))
	})
	t.Run("another identity", func(t *testing.T) {
		st := s.bare(t)
		st.Must("SET {emq}:version echomq:4.0.0")
		require.Contains(t, later(st, good.Enqueue("JOB1", "x")), "-EMQFENCE ")
	})
	t.Run("effects", func(t *testing.T) {
		st := s.bare(t)
		o := st.observe(func() { require.Equal(t, integer(1), later(st, good.Enqueue("JOB1", "x"))) })
		require.NotContains(t, strings.Join(o.stream, "\n"), "EMQ.")
		require.Contains(t, o.stream, "SET {emq}:version echomq:6.0.0 NX")
		require.Contains(t, o.stream, rowPending)
		require.Contains(t, o.stream, addPending)
	})
}
