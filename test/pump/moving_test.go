package pump

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// Moving a store from another server, as docs/operations.md describes.

// cli runs the server's own client and returns its output.
func (b *bed) cli(input string, args ...string) string {
	b.t.Helper()
	cli := filepath.Join(filepath.Dir(os.Getenv("VALKEY_SERVER")), "valkey-cli")
	if _, err := os.Stat(cli); err != nil {
		cli = "valkey-cli"
	}
	cmd := exec.Command(cli, append([]string{"-s", b.Socket}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	require.NoError(b.t, err, "%s", out)
	return string(out)
}

// keys are the keys of a server's first database except the identity, with the sets first, which is the worst order.
func (b *bed) keys() []string {
	b.t.Helper()
	var sets, others []string
	for key, value := range b.Keyspace() {
		switch {
		case key == wire.Identity:
		case isSet(value):
			sets = append(sets, key)
		default:
			others = append(others, key)
		}
	}
	return append(sets, others...)
}

func isSet(value any) bool { _, ok := value.(store.ZSet); return ok }

// dumped are the commands that restore some keys.
func (b *bed) dumped(keys []string) (restores [][]string) {
	b.t.Helper()
	for _, key := range keys {
		restores = append(restores, []string{"RESTORE", key, "0", wire.Value(b.Do("DUMP", key)).(string)})
	}
	return restores
}

// bring are the ways to bring keys from one server to another, one by one.
var bring = map[string]func(from, to *bed, keys []string){
	"RESTORE": func(from, to *bed, keys []string) {
		for _, reply := range to.Pipeline(from.dumped(keys)) {
			require.Equal(to.t, wire.OK, reply)
		}
	},
	"MIGRATE": func(from, to *bed, keys []string) {
		for _, key := range keys {
			require.Equal(to.t, wire.OK, from.Do("MIGRATE", "127.0.0.1", strconv.Itoa(to.Port()), key, "0", "5000", "COPY"))
		}
	},
	"--pipe": func(from, to *bed, keys []string) {
		require.Contains(to.t, to.cli(wire.Encode(from.dumped(keys)...), "--pipe"), "errors: 0, replies: "+strconv.Itoa(len(keys)))
	},
}

// stock makes jobs in each state: two that were held, two that are due and one that waits, all of which will be
// pending, and a dead one.
func (b *bed) stock() (ids []string) {
	b.t.Helper()
	b.put(q, "JOB1", "active", 1, "lease_epoch", "other")
	b.put(q, "JOB2", "active", 1, "lease_epoch", "other")
	b.put(q, "JOB3", "scheduled", 1)
	b.put(q, "JOB4", "scheduled", 1)
	b.put(q, "JOB5", "pending", 0)
	b.put(q, "JOB6", "dead", 0)
	return []string{"JOB1", "JOB2", "JOB3", "JOB4", "JOB5"}
}

// The worst order: the identity, then the sets, and long after them the rows, while the new server's pump runs. No
// entry is lost, and when the rows come, the jobs move on.
func TestSetsBeforeRows(t *testing.T) {
	for name, bring := range bring {
		t.Run(name, func(t *testing.T) {
			from, to := begin(t, "0"), serve(t, pumping(soon))
			to.Must("SET " + wire.Identity + " " + wire.Wire6)
			ids := from.stock()
			var sets, rows []string
			for _, key := range from.keys() {
				if strings.HasPrefix(key, q.RowPrefix()) {
					rows = append(rows, key)
				} else {
					sets = append(sets, key)
				}
			}
			bring(from, to, sets)
			store.WaitFor(t, "the pump to meet all, again and again", func() bool { return to.stats()["left"] >= 3*4 })
			require.Equal(t, ids[:2], to.Members(q.Active()))
			require.Equal(t, ids[2:4], to.Members(q.Schedule()))
			require.Zero(t, to.stats()["dropped"])
			bring(from, to, rows)
			to.has(q.Pending(), 5)
			to.uncounted(q, ids...)
			require.Equal(t, []string{"JOB6"}, to.Members(q.Dead()))
			from.Must("FLUSHALL")
		})
	}
}

// The other side: while rows are removed one by one, the old server's pump drops no entry either.
func TestRowsTakenBeforeSets(t *testing.T) {
	b := begin(t, "0")
	ids := b.stock()
	rows := b.dumped([]string{q.Row("JOB1"), q.Row("JOB3")})
	b.Must("DEL "+q.Row("JOB1")+" "+q.Row("JOB3"), "CONFIG SET emq.pump-interval-ms "+soon)
	b.has(q.Pending(), 3)
	store.WaitFor(t, "the pump to meet them", func() bool { return b.stats()["left"] >= 6 })
	require.Equal(t, ids[:1], b.Members(q.Active()))
	require.Equal(t, ids[2:3], b.Members(q.Schedule()))
	b.Pipeline(rows)
	b.has(q.Pending(), 5)
}

// Entries whose rows will never come are dropped by a client's PROMOTE and REAP, and by AUDIT with FIX.
func TestEntriesThatNobodyNeeds(t *testing.T) {
	b := begin(t, soon)
	for name, take := range map[string][][]string{
		"the verbs": {q.Promote(100), q.Reap(3, 100)},
		"the audit": {q.Fix("0", 100), q.Fix("active:0", 100), q.Fix("schedule:0", 100)},
	} {
		b.Must("ZADD "+q.Active()+" 1 JOB1", "ZADD "+q.Schedule()+" 1 JOB2")
		from := b.stats()["left"]
		store.WaitFor(t, "the pump to meet them", func() bool { return b.stats()["left"] >= from+4 })
		require.Equal(t, wire.Integer(2), b.Do("EXISTS", q.Active(), q.Schedule()))
		for _, command := range take {
			require.False(t, wire.IsError(b.Do(command...)), command)
		}
		require.Equal(t, wire.Integer(0), b.Do("EXISTS", q.Active(), q.Schedule()), name)
	}
}

// In import-mode the pump moves no job, with or without a row, and leases that expire meanwhile do not count. Valkey
// 8.0 does not have the setting.
func TestImportMode(t *testing.T) {
	b := begin(t, soon)
	if b.Do("CONFIG", "GET", "import-mode") == wire.Array() {
		t.Skip("this release has no import-mode")
	}
	over, ids := b.waiting(100, "CONFIG SET IMPORT-MODE yes")
	b.Must("ZADD " + q.Active() + " 1 JOBlater")
	digest := b.digest()
	b.until(over)
	b.stoodDown(5)
	require.Equal(t, digest, b.digest())
	b.put(q, "JOBlater", "active", 1)
	b.Must("CONFIG SET import-mode no")
	b.moved(append(ids, "JOBlater"))

	// The same with the setting at the start.
	b.Options.Args = append(b.Options.Args, "--import-mode", "yes")
	require.NoError(t, b.Stop())
	b.again()
	b.Must("SET " + wire.Identity + " " + wire.Wire6)
	b.put(q, "JOB1", "active", 1)
	b.stoodDown(5)
	require.Equal(t, 1, b.card(q.Active()))
	b.Must("CONFIG SET import-mode no")
	b.moved([]string{"JOB1"})
}

// closed gives a store an identity that nobody uses, and asserts that nothing can use it, whatever is due.
func (b *bed) closed() {
	b.t.Helper()
	b.Must("SET " + wire.Identity + " moving")
	for _, command := range [][]string{q.Enqueue("JOB9", "x"), q.Claim(1), q.Complete("JOB1", "1"), q.Promote(1), q.Reap(1, 1), q.Audit("0", 1)} {
		require.Contains(b.t, b.Do(command...), `-EMQFENCE {emq}:version is "moving"`, command)
	}
}

// opened asserts that a server has all of another's data, and opens it: then due jobs move.
func (b *bed) opened(ids []string, had store.Keyspace) {
	b.t.Helper()
	b.ticks(2)
	require.Empty(b.t, had.Diff(b.Keyspace()))
	require.Equal(b.t, wire.OK, b.Do("SET", wire.Identity, wire.Wire6))
	b.has(q.Pending(), len(ids))
	b.uncounted(q, ids...)
	require.Equal(b.t, []string{"JOB6"}, b.Members(q.Dead()))
	for cursor := "0"; ; {
		reply := wire.Value(b.Do(q.Audit(cursor, 100)...)).([]any)
		require.Empty(b.t, reply[1])
		if cursor = reply[0].(string); cursor == "0" {
			break
		}
	}
}

// Key by key: both stores are closed by an identity that nobody uses, everything else is copied, in any order, and the
// new one is opened. Both pumps are on.
func TestMovingKeyByKey(t *testing.T) {
	for name, bring := range bring {
		t.Run(name, func(t *testing.T) {
			from, to := begin(t, soon), serve(t, pumping(soon))
			from.closed()
			ids := from.stock()
			to.closed()
			had := from.Keyspace()
			bring(from, to, from.keys())
			to.opened(ids, had)
			require.Empty(t, had.Diff(from.Keyspace()), "the old one is as it was")
			from.Must("FLUSHALL")
		})
	}
}

// One queue, by MIGRATE, while both servers serve others: first its rows, then pending and dead, to which the pump
// adds, then the sets from which the pump takes. Both pumps run all the time.
func TestMovingOneQueue(t *testing.T) {
	from, to := begin(t, soon), serve(t, pumping(soon))
	to.Must("SET " + wire.Identity + " " + wire.Wire6)
	ids := from.stock()
	from.has(q.Pending(), 5)
	for _, id := range ids[:4] { // the jobs that the pump has returned are claimed and scheduled again, and become due during the move
		require.Len(t, wire.Value(from.Do(q.Claim(50)...)), 3)
		if id > "JOB2" {
			require.Equal(t, wire.Bulk("scheduled"), from.Do(q.Fail(id, "2", 50, 3, "why")...))
		}
	}
	move := func(keys ...string) {
		for _, key := range keys {
			require.Contains(t, []string{wire.OK, "+NOKEY\r\n"}, from.Do("MIGRATE", "127.0.0.1", strconv.Itoa(to.Port()), key, "0", "5000"), key)
			from.ticks(1)
			to.ticks(1)
		}
	}
	var rows []string
	for _, key := range from.keys() {
		if strings.HasPrefix(key, q.RowPrefix()) {
			rows = append(rows, key)
		}
	}
	move(rows...)
	move(q.Pending(), q.Dead(), q.Schedule(), q.Active())
	to.has(q.Pending(), 5)
	require.Empty(t, to.Keyspace().Check(wire.Wire6))
	require.Len(t, wire.Value(to.Do(q.Claim(maxTime)...)), 3)
}

// As a whole, by replication: the new server follows the old one, both are closed with one write, and the new one is
// promoted and opened.
func TestMovingByReplication(t *testing.T) {
	from := begin(t, soon)
	to := from.follower(t, soon)
	from.closed()
	ids := from.stock()
	store.InStep(t, from.Conn, to.Conn)
	had := from.Keyspace()
	to.Must("REPLICAOF NO ONE")
	to.opened(ids, had)
	to.Must("DEL in-step")
	from.Must("FLUSHALL")
}

// As a whole, by a snapshot.
func TestMovingBySnapshot(t *testing.T) {
	from := begin(t, soon)
	from.closed()
	ids := from.stock()
	to := serve(t, pumping(soon))
	require.NoError(t, to.Stop())
	from.cli("", "--rdb", filepath.Join(to.Dir, "dump.rdb"))
	had := from.Keyspace()
	to.again()
	to.opened(ids, had)
	from.Must("FLUSHALL")
}
