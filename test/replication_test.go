package test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/valkey"
)

// follow starts a replica without the module, which must be able to execute the whole stream, and waits until it is in step.
func follow(t *testing.T, s *server, args ...string) *server {
	t.Helper()
	r := start(t, withoutModule(append(store.Following(s.Addr()), args...)...))
	r.Linked()
	return r
}

// followed starts a server with an empty store and two replicas, r with the module and plain without it.
func followed(t *testing.T) (st, r, plain *fixture) {
	t.Helper()
	s := start(t, withModule())
	st = s.fresh(t)
	replica := start(t, withModule(store.Following(s.Addr())...))
	r = replica.attachPlain(t)
	replica.Linked()
	return st, r, follow(t, s).attachPlain(t)
}

// inStep waits until all replicas have this connection's writes.
func (st *fixture) inStep(replicas string) {
	st.t.Helper()
	st.Must("SET in-step x") // so that the connection has something to wait for
	require.Equal(st.t, ":"+replicas+"\r\n", st.Do("WAIT", replicas, "0"))
	st.Must("DEL in-step")
	require.Equal(st.t, ":"+replicas+"\r\n", st.Do("WAIT", replicas, "0"))
}

// A replica without the module follows a load of every kind, also with broken data, and has the same data in the end.
// It panics if it can't execute a command.
func TestReplicaWithoutTheModuleFollows(t *testing.T) {
	s := start(t, withModule())
	st := s.attachPlain(t)
	m := mix(t, true)
	m.load(st, 2000)
	replica := follow(t, s)
	m.load(st, 15_000)
	st.inStep("1")
	r := replica.attachPlain(t)
	require.NotEqual(t, "+"+strings.Repeat("0", 40)+"\r\n", st.digest())
	require.Equal(t, st.digest(), r.digest())
	require.Equal(t, st.Info("master_repl_offset"), r.Info("master_repl_offset"))
	require.NotContains(t, r.Do("INFO", "errorstats"), "errorstat_", "a command failed on the replica")
	require.Zero(t, r.loaded())
}

// Where fields can expire, a counter keeps its time to live as with HINCRBY, on every replica too.
func TestCountersKeepTheirTimeToLive(t *testing.T) {
	s := start(t, withModule())
	st := s.fresh(t)
	if strings.Contains(st.Do("HPTTL", "none", "FIELDS", "1", "f"), "unknown command") {
		t.Skip("this server's fields have no time to live; Valkey 9.0 is the first whose have")
	}
	r := follow(t, s).attachPlain(t)
	settle := map[string]func(id string) []string{
		"completed": func(id string) []string { return good.Complete(id, "1") },
		"failed":    func(id string) []string { return good.Fail(id, "1", 0, 1, "why") },
	}
	for counter, settle := range settle {
		key := "emq:{q}:metrics:" + counter
		one := func() {
			id := newID()
			require.Equal(t, integer(1), st.Do(good.Enqueue(id, "x")...))
			st.take(good, id)
			st.Do(settle(id)...)
		}
		if counter == "failed" { // several at once
			three := func() {
				for range 3 {
					id := newID()
					st.put(good, id, "active", "attempts", "1")
					st.lapse(good, id)
				}
			}
			three()
			st.Must("EMQ.REAP 3 emq:{q}:active emq:{q}:pending emq:{q}:dead emq:{q}: 1 10", "DEL "+key)
			defer func() {
				three()
				st.Must("EMQ.REAP 3 emq:{q}:active emq:{q}:pending emq:{q}:dead emq:{q}: 1 10")
				st.reply(bulk("5"), "HGET "+key+" count")
				require.NotEqual(t, "*1\r\n:-1\r\n", st.Do("HPTTL", key, "FIELDS", "1", "count"), "the time to live is kept")
				st.inStep("1")
				require.Equal(t, st.digest(), r.digest())
			}()
		}
		one()
		require.Equal(t, "*1\r\n:1\r\n", st.Do("HPEXPIRE", key, "60000", "FIELDS", "1", "count"))
		one()
		st.reply(bulk("2"), "HGET "+key+" count")
		require.NotEqual(t, "*1\r\n:-1\r\n", st.Do("HPTTL", key, "FIELDS", "1", "count"), "the time to live is kept")
		st.inStep("1")
		require.Equal(t, st.digest(), r.digest())
		require.Equal(t, st.Do("HPEXPIRETIME", key, "FIELDS", "1", "count"), r.Do("HPEXPIRETIME", key, "FIELDS", "1", "count"))
	}
}

// A replica that has the module follows too, and does not decide anything itself.
func TestReplicaWithTheModuleFollows(t *testing.T) {
	s := start(t, withModule())
	st := s.attachPlain(t)
	replica := start(t, withModule(store.Following(s.Addr())...))
	r := replica.attachPlain(t)
	replica.Linked()
	mix(t, true).load(st, 5000)
	st.inStep("1")
	require.Equal(t, st.digest(), r.digest())

	// After its promotion it continues where the primary was, with the same leases and tokens.
	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
	require.Equal(t, "1", st.take(good, "JOB1"))
	st.inStep("1")
	r.Must("REPLICAOF NO ONE")
	require.Equal(t, stale("complete"), r.Do(good.Complete("JOB1", "2")...))
	require.Equal(t, integer(1), r.Do(good.Complete("JOB1", "1")...))
}

// On a replica, even a writable one, every verb replies READONLY and leaves no trace.
func TestOnReplica(t *testing.T) {
	s := start(t, withModule())
	st := s.fresh(t)
	host, port, _ := strings.Cut(s.Addr(), ":")
	for _, readOnly := range []string{"yes", "no"} {
		t.Run("replica-read-only "+readOnly, func(t *testing.T) {
			replica := start(t, withModule("--replicaof", host+" "+port, "--replica-read-only", readOnly))
			r := replica.attachPlain(t)
			replica.Linked()
			st.put(good, "JOB1", "active", "attempts", "1")
			st.put(good, "JOB2", "pending", "attempts", "0")
			st.inStep("1")
			before := r.digest()
			for verb, args := range verbsOn(good) {
				require.Equal(t, "-READONLY You can't write against a read only replica.\r\n", r.Do(args...), verb)
				reply := r.Do(append([]string{"EVAL", "return redis.call(unpack(ARGV))", "0"}, args...)...)
				require.True(t, strings.HasPrefix(reply, "-READONLY "), "%s from a script: %q", verb, reply)
			}
			require.Equal(t, before, r.digest())
			st.Must("DEL emq:{q}:job:JOB1 emq:{q}:job:JOB2 emq:{q}:active emq:{q}:pending")
		})
	}
}

// The role at the moment of the command counts, however the server got it, and whenever the module was loaded.
func TestRoleChanges(t *testing.T) {
	s := start(t, withoutModule("--replica-read-only", "no"))
	st := s.bare(t)
	readOnly := func(st *fixture) {
		t.Helper()
		for verb, args := range verbsOn(good) {
			require.Equal(t, "-READONLY You can't write against a read only replica.\r\n", st.Do(args...), verb)
		}
	}
	st.Must("REPLICAOF 127.0.0.1 1")
	st.Must("MODULE LOADEX " + os.Getenv("EMQ_MODULE") + " CONFIG emq.pump-interval-ms 0")
	readOnly(st)
	st.Must("REPLICAOF NO ONE")
	st.life("q", "JOB1", "x")
	st.Must("REPLICAOF 127.0.0.1 1")
	readOnly(st)
	st.Must("REPLICAOF NO ONE")
	st.life("q", "JOB1", "x")
}

// In the append-only file and the stream, a verb is one transaction of plain commands with absolute values, never the
// verb itself and never half of it.
func TestAppendOnlyFile(t *testing.T) {
	s := start(t, withModule("--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", "no"))
	st := s.bare(t)
	commands := s.Appended("incr")
	st.life("q", "JOB1", "payload")
	mix(t, true).load(st, 3000)
	st.Must("FLUSHALL")
	all := s.Appended("incr")
	require.Greater(t, len(all), len(commands)+1000)
	open := false
	for _, args := range all[len(commands):] {
		name := strings.ToUpper(args[0])
		require.NotContains(t, name, "EMQ.")
		require.Contains(t, []string{"SELECT", "MULTI", "EXEC", "HSET", "HDEL", "ZADD", "ZREM", "DEL", "HINCRBY", "SET", "FLUSHALL"}, name)
		switch name {
		case "MULTI":
			require.False(t, open)
			open = true
		case "EXEC":
			require.True(t, open)
			open = false
		}
	}
	require.False(t, open)
}

// The data are restored from the append-only file and from the snapshot, with and without the module, after a SHUTDOWN
// and after a crash.
func TestDataComesBack(t *testing.T) {
	persistence := map[string][]string{
		"append-only file":               {"--appendonly", "yes", "--appendfsync", "always"},
		"append-only file, all commands": {"--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", "no"},
		"snapshot":                       {"--save", "100000 1"},
	}
	for kind, settings := range persistence {
		for _, end := range []string{"stop", "kill"} {
			if kind == "snapshot" && end == "kill" {
				continue // a snapshot that was not taken cannot come back
			}
			t.Run(kind+"/"+end, func(t *testing.T) {
				s := start(t, withModule(settings...))
				st := s.attachPlain(t)
				require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
				require.Equal(t, claimed("JOB1", "x", 1), st.Do(good.Claim(maxTime)...))
				mix(t, true).load(st, 4000)
				if kind == "append-only file" {
					st.rewrite()
					mix(t, true).load(st, 1000)
				}
				want := st.digest()
				require.NotEqual(t, "+"+strings.Repeat("0", 40)+"\r\n", want)
				if end == "stop" {
					require.NoError(t, s.Stop())
				} else {
					s.Crash()
				}

				for _, o := range []valkey.Options{withoutModule(settings...), withModule(settings...), withoutModule(settings...)} {
					o.Dir = s.Dir
					s.Options = o
					s.Start()
					st := s.attachPlain(t)
					require.Equal(t, want, st.digest())
					if o.Module != "" { // and a lease from before the stop can be settled
						require.Equal(t, integer(1), st.Do(good.Complete("JOB1", "1")...))
						want = st.digest()
					}
					require.NoError(t, s.Stop())
				}
			})
		}
	}
}

// DEBUG RELOAD and DEBUG LOADAOF lead to the same store.
func TestReload(t *testing.T) {
	s := start(t, withModule("--appendonly", "yes"))
	st := s.attachPlain(t)
	mix(t, false).load(st, 3000)
	want := st.digest()
	for _, line := range []string{"DEBUG RELOAD", "DEBUG LOADAOF"} {
		st.reply("+OK\r\n", line)
		require.Equal(t, want, st.digest(), line)
	}
}

// Only the primary expires the keys that verbs open; the replica receives the deletions and stays in step.
func TestExpiryIsReplicated(t *testing.T) {
	s := start(t, withModule())
	st := s.fresh(t)
	replica := follow(t, s)
	st.Must("DEBUG SET-ACTIVE-EXPIRE 0")
	for i, id := range []string{"JOB0", "JOB1", "JOB2"} {
		st.put(good, id, []string{"pending", "active", "active"}[i], "attempts", "1")
	}
	st.put(good, "JOB3", "pending", "attempts", "0")
	st.expired("emq:{q}:job:JOB0", "emq:{q}:job:JOB1", "emq:{q}:job:JOB2", "{emq}:version")
	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB4", "x")...), "the identity is claimed anew")
	require.Equal(t, claimed("JOB3", "x", 1), st.Do(good.Claim(maxTime)...))
	require.Equal(t, integer(0), st.Do(good.Complete("JOB1", "1")...))
	require.Equal(t, gone, st.Do(good.Fail("JOB2", "1", 0, 1, "why")...))
	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB0", "new")...))
	st.Must("ZREM emq:{q}:active JOB1 JOB2")
	st.inStep("1")
	require.Equal(t, st.digest(), replica.attachPlain(t).digest())
	require.Equal(t, []string{"JOB0", "JOB4"}, st.Members(good.Pending()))
}
