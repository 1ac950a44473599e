package test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/scripted"
	"emq/test/wire"
)

// TestRewire moves a store of the scripts to the module and back, as docs/operations.md describes.
func TestRewire(t *testing.T) {
	program := built(t, "../cmd/emq")
	st := start(t, withModule()).bare(t)
	rewire := func(args ...string) (string, bool) {
		out, err := exec.Command(program, append([]string{"rewire", "--url", "valkey://" + st.s.Addr()}, args...)...).CombinedOutput()
		return string(out), err == nil
	}
	unmoved := func(want string, ok bool, args ...string) {
		t.Helper()
		before := st.digest()
		out, moved := rewire(args...)
		require.Equal(t, ok, moved, out)
		require.Contains(t, out, want)
		require.Equal(t, before, st.digest())
	}
	q := queue("old")

	unmoved("is absent", false, "--apply")
	st.Must("SET {emq}:version echomq:5.0.0")
	unmoved("does not know", false, "--apply")
	st.Must("DEL {emq}:version")

	old, err := scripted.Open(st)
	require.NoError(t, err)
	for _, id := range []string{"JOB1", "JOB2", "JOB3", "JOB4"} {
		require.Equal(t, wire.Integer(1), old.Do(q.Enqueue(id, "x")...))
	}
	require.Equal(t, wire.Claimed("JOB1", "x", 1), old.Do(q.Claim(60_000)...))
	require.Equal(t, wire.Claimed("JOB2", "x", 1), old.Do(q.Claim(60_000)...))
	require.Equal(t, wire.Bulk("scheduled"), old.Do(q.Fail("JOB2", "1", 60_000, 3, "why")...))
	st.Must("HSET " + q.Row("JOB4") + " group g")
	unmoved("1 rows of lanes", false, "--apply")
	st.Must("HDEL " + q.Row("JOB4") + " group")
	st.Must("HSET " + q.Row("JOB4") + " parent JOB9")
	unmoved("1 rows of flows", false, "--apply")
	st.Must("HDEL " + q.Row("JOB4") + " parent")
	st.Must("SET " + q.Row("JOB5") + " text")
	unmoved("1 rows that are no hash", false, "--apply")
	st.Must("DEL " + q.Row("JOB5"))
	st.Must("SET " + q.Row("JOB4") + ":logs text") // of a script, and no row
	st.Must("HSET emq:{old}:meta paused 1", "SET emq:{odd}:meta x", "HSET emq:{other}:meta version bullmq")
	unmoved(`1 queues that are paused or limited, which the module keeps to, and scripts may not, such as "emq:{old}:meta"`, true)
	unmoved(`1 queues whose meta is no hash: EMQ.PAUSE and EMQ.LIMIT will be refused there, such as "emq:{odd}:meta"`, true)

	unmoved("nothing stands in the way", true)
	unmoved("1 jobs are held", true)
	require.Contains(t, st.Do(q.Claim(60_000)...), "EMQFENCE")
	out2, ok := rewire("--apply")
	require.True(t, ok, out2)
	unmoved("already", true, "--apply")

	// The module continues with the jobs that the scripts left, and the scripts with those that the module leaves.
	require.Equal(t, wire.Integer(1), st.Do(q.Complete("JOB1", "1")...))
	require.Equal(t, wire.Empty, st.Do(q.Claim(60_000)...), "it is paused")
	require.Equal(t, wire.Integer(1), st.Do(q.Resume()...))
	st.Must("DEL emq:{odd}:meta emq:{other}:meta")
	require.Equal(t, wire.Claimed("JOB3", "x", 1), st.Do(q.Claim(60_000)...))
	out2, ok = rewire("--to", "4", "--apply")
	require.True(t, ok, out2)
	require.Contains(t, st.Do(q.Complete("JOB3", "1")...), "EMQFENCE")
	require.Equal(t, wire.Integer(1), old.Do(q.Complete("JOB3", "1")...))
	require.Equal(t, wire.Claimed("JOB4", "x", 1), old.Do(q.Claim(60_000)...))
	st.Must("DEL "+q.Row("JOB4")+":logs", "SET {emq}:version echomq:6.0.0")
}
