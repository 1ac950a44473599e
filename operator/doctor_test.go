package operator

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emq "emq/clients/go"
	"emq/test/store"
	"emq/test/wire"
)

// examined are the checks by their names.
func examined(t *testing.T, s *Server) map[string]Check {
	t.Helper()
	list := s.Doctor(t.Context())
	found := map[string]Check{}
	names := []string{"reachable", "module", "wire", "fence", "role", "memory-policy", "memory", "persistence", "replicas", "pump", "panics",
		"queues", "gates", "moves", "workers", "dead"}
	for i, c := range list {
		require.Equal(t, names[i], c.Name)
		require.NotEmpty(t, c.Text, c.Name)
		if c.Status == Warning || c.Status == Critical {
			require.NotEmpty(t, c.Advice, c.Name)
		}
		found[c.Name] = c
	}
	require.Len(t, found, len(names))
	return found
}

// statuses asserts the status of the named checks, and that all others are OK.
func statuses(t *testing.T, found map[string]Check, want map[string]Status) {
	t.Helper()
	for name, c := range found {
		require.Equal(t, want[name], c.Status, "%s: %s", name, c.Text)
	}
}

// A healthy server, and the finding on each thing that is wrong; no finding hides another.
func TestDoctor(t *testing.T) {
	needs(t)
	o := store.Pumped("--appendonly", "yes", "--maxmemory", "100mb")
	p := store.Open(t, o)
	c, s := p.Conn(), at(t, p, "")
	found := examined(t, s)
	statuses(t, found, nil)
	require.Contains(t, found["module"].Text, "emq 0.")
	require.Contains(t, found["fence"].Text, "the first job claims it")

	q := wire.Queue("q")
	old := string(emq.LeastID(time.UnixMilli(c.Now()).Add(-time.Hour)))
	must(t, c, q.Enqueue(old, "x"))
	found = examined(t, s)
	statuses(t, found, map[string]Status{"workers": Critical})
	require.Contains(t, found["workers"].Text, `"q" has 1 job to do, the oldest for 1h0m, and no worker`)
	must(t, c, q.Pause(0))
	statuses(t, examined(t, s), nil)
	must(t, c, q.Resume())
	fill(t, c, "many", "", ids(3000))
	must(t, c, wire.Queue("many").Enqueue(old, "x"))
	require.Contains(t, examined(t, s)["workers"].Text, `"many" has 3,001 jobs to do, the oldest for 1h0m, and no worker`)
	c.Must("DEL emq:{many}:pending")
	must(t, c, q.Limit(0, 1, 1<<40), q.Claim(1<<40), q.Complete(old, "1"), q.Enqueue(old, "x"))
	statuses(t, examined(t, s), map[string]Status{"workers": Critical})
	p.Conn().Send(wire.BClaim(1000, 0, "q")) // held back by the limit
	store.WaitFor(t, "a worker to wait", func() bool { return c.Info("emq_waiting_clients") == "1" })
	statuses(t, examined(t, s), nil)

	c.Must("SET emq:{broken}:dead x", "ZADD emq:{broken}:pending 0 JOB1", `HSET "emq:{a \"b}:meta" max x`, "CONFIG SET maxmemory-policy allkeys-lru",
		"CONFIG SET emq.pump-interval-ms 0", "CONFIG SET appendonly no")
	found = examined(t, s)
	statuses(t, found, map[string]Status{"queues": Critical, "gates": Warning, "memory-policy": Critical, "pump": Warning, "persistence": Critical})
	require.Contains(t, found["queues"].Text, `"broken": `)
	require.Contains(t, found["gates"].Text, `"a \"b": gate max`)
	c.Must("CONFIG SET maxmemory-policy noeviction", "CONFIG SET maxmemory 1mb", `CONFIG SET save "3600 1"`, "CONFIG SET min-replicas-to-write 1")
	statuses(t, examined(t, s), map[string]Status{"queues": Critical, "gates": Unknown, "memory": Critical, "pump": Warning, "persistence": Warning, "replicas": Critical})
	c.Must("CONFIG SET maxmemory 0", "CONFIG SET maxmemory-policy allkeys-lru", "CONFIG SET min-replicas-to-write 0")
	require.Equal(t, Warning, examined(t, s)["memory-policy"].Status)

	c.Must("SET {emq}:version echomq:4.0.0")
	found = examined(t, s)
	require.Equal(t, Critical, found["fence"].Status)
	for _, name := range []string{"queues", "gates", "moves", "workers", "dead"} {
		require.Equal(t, Unknown, found[name].Status)
		require.Contains(t, found[name].Text, "EMQFENCE")
	}
	require.Equal(t, OK, found["module"].Status)
	c.Must("DEL {emq}:version", "LPUSH {emq}:version x")
	require.Equal(t, Critical, examined(t, s)["fence"].Status)
	p.Crash()
	_, err := s.Queues(t.Context(), "q")
	require.Error(t, err, "the error concerns no single queue")
	statuses(t, examined(t, s), map[string]Status{"reachable": Critical, "module": Unknown, "wire": Unknown, "fence": Unknown, "role": Unknown, "memory-policy": Unknown,
		"memory": Unknown, "persistence": Unknown, "replicas": Unknown, "pump": Unknown, "panics": Unknown, "queues": Unknown, "gates": Unknown, "moves": Unknown, "workers": Unknown, "dead": Unknown})
	p.Start()
	require.Equal(t, OK, examined(t, s)["reachable"].Status)
}

// A server without the module, a replica, and a user without the rights.
func TestDoctorElsewhere(t *testing.T) {
	needs(t)
	plain := store.Open(t, store.Plain())
	found := examined(t, at(t, plain, ""))
	require.Equal(t, Critical, found["module"].Status)
	for _, name := range []string{"wire", "pump", "panics", "queues", "gates", "moves", "workers", "dead"} {
		require.Equal(t, Unknown, found[name].Status, name)
	}
	require.Equal(t, OK, found["role"].Status)

	p := store.Open(t, store.Pumped("--appendonly", "yes"))
	c := p.Conn()
	follower := store.Open(t, store.Pumped(store.Following(p.Addr())...))
	follower.Linked()
	p.Online()
	c.Must("CONFIG SET min-replicas-to-write 1")
	require.Equal(t, Check{Name: "replicas", Text: "1 connected"}, examined(t, at(t, p, ""))["replicas"])
	must(t, c, wire.Queue("q").Enqueue("JOBx", "x"))
	conn := follower.Conn()
	store.WaitFor(t, "the replica", func() bool { return conn.Do("EXISTS", "emq:{q}:pending") == wire.Integer(1) })
	found = examined(t, at(t, follower, ""))
	statuses(t, found, map[string]Status{"role": Warning, "gates": Unknown, "persistence": Critical})
	require.Contains(t, found["gates"].Text, "READONLY")

	c.Must("ACL SETUSER few on >secret +hello +client|setinfo +emq.queues %R~emq:*")
	found = examined(t, at(t, p, "few"))
	for name, check := range found {
		if name != "reachable" {
			require.Equal(t, Unknown, check.Status, name)
			require.True(t, strings.Contains(check.Text, "NOPERM"), check)
		}
	}
}

// While its disk is full or its primary is gone a server refuses PING too; the doctor says what is wrong nevertheless.
func TestDoctorRefused(t *testing.T) {
	needs(t)
	dir := filepath.Join(t.TempDir(), "gone")
	require.NoError(t, os.Mkdir(dir, 0o700))
	p := store.Open(t, store.Pumped("--dir", dir, "--save", "3600 1000", "--appendonly", "no"))
	c := p.Conn()
	require.NoError(t, os.RemoveAll(dir))
	c.Do("BGSAVE")
	store.WaitFor(t, "the snapshot to fail", func() bool { return strings.HasPrefix(c.Do("PING"), "-MISCONF") })
	found := examined(t, at(t, p, ""))
	require.Equal(t, Check{Name: "persistence", Status: Critical, Text: "the last snapshot failed: writes are refused", Advice: "See docs/operations.md, What is kept"}, found["persistence"])
	require.Equal(t, OK, found["reachable"].Status)
	require.Equal(t, OK, found["queues"].Status)
	c.Must(`CONFIG SET save ""`) // it could not end otherwise

	primary := store.Open(t, store.Pumped())
	follower := store.Open(t, store.Pumped(append(store.Following(primary.Addr()), "--replica-serve-stale-data", "no")...))
	follower.Linked()
	primary.Dies = true
	primary.Crash()
	c = follower.Conn()
	store.WaitFor(t, "the link to break", func() bool { return strings.HasPrefix(c.Do("PING"), "-MASTERDOWN") })
	found = examined(t, at(t, follower, ""))
	require.Equal(t, Critical, found["role"].Status)
	require.Contains(t, found["role"].Text, "without a link to its primary")
	require.Equal(t, OK, found["reachable"].Status)
	require.Equal(t, OK, found["module"].Status)
}
