package test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/test/wire"
)

// figures is STATS' reply under RESP2; an empty text is null.
func figures(pending, active, scheduled, dead, completed, failed int64, age, due, expiry string) string {
	var words []string
	for i, n := range []int64{pending, active, scheduled, dead, completed, failed} {
		words = append(words, bulk([]string{"pending", "active", "scheduled", "dead", "completed", "failed"}[i]), integer(n))
	}
	for i, text := range []string{age, due, expiry} {
		words = append(words, bulk([]string{"oldest_pending_age_ms", "next_due_ms", "next_expiry_ms"}[i]))
		if text == "" {
			words = append(words, nothing)
		} else {
			words = append(words, ":"+text+"\r\n")
		}
	}
	return array(append(words, gates(0, 0, "", "", "", "")...)...)
}

// gates are STATS' last fields: the number of waiting clients, and the gates.
func gates(waiting, paused int64, until, concurrency, most, duration string) []string {
	words := []string{bulk("waiting"), integer(waiting), bulk("paused"), integer(paused)}
	for i, text := range []string{until, concurrency, most, duration} {
		words = append(words, bulk([]string{"paused_until_ms", "concurrency", "rate_max", "rate_duration_ms"}[i]))
		if text == "" {
			words = append(words, nothing)
		} else {
			words = append(words, ":"+text+"\r\n")
		}
	}
	return words
}

// mintedAt is a canonical id for a time in Unix ms.
func mintedAt(millis int64) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	id := []byte("JOB00000000000")
	for n, i := uint64(millis-time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli())<<22|7, len(id)-1; n > 0; n, i = n/62, i-1 {
		id[i] = digits[n%62]
	}
	return string(id)
}

// The figures follow the jobs.
func TestStats(t *testing.T) {
	s := witnessed(t)
	st := s.fresh(t)
	st.quiet(figures(0, 0, 0, 0, 0, 0, "", "", ""), good.Stats()...)
	now := st.Now()
	old, young := mintedAt(now-5000), mintedAt(now-1000)
	for _, id := range []string{young, old, mintedAt(now - 500), mintedAt(now + 60_000)} {
		require.Equal(t, integer(1), st.Do(good.Enqueue(id, "x")...))
	}
	age := func() int64 {
		fields := fields(value(st.Do(good.Stats()...)))
		return fields["oldest_pending_age_ms"].(int64)
	}
	from := st.Now()
	got := age()
	require.GreaterOrEqual(t, got, from-now+5000)
	require.LessOrEqual(t, got, st.Now()-now+5000)
	st.take(good, old)
	require.Less(t, age(), got, "the next one is younger")
	st.take(good, young)
	token := st.take(good, mintedAt(now-500))
	require.Zero(t, age(), "a clock that is ahead")

	require.Equal(t, integer(1), st.Do(good.Complete(old, "1")...))
	require.Equal(t, bulk("dead"), st.Do(good.Fail(mintedAt(now-500), token, 0, 1, "why")...))
	st.Must("EMQ.SCHEDULE 2 emq:{q}:job:JOB1 emq:{q}:schedule JOB1 x at 1", "EMQ.SCHEDULE 2 emq:{q}:job:JOB2 emq:{q}:schedule JOB2 x at 9000000000000")
	expiry := strconv.FormatInt(st.score(good.Active(), young), 10)
	st.quiet(figures(1, 1, 2, 1, 1, 1, "0", "1", expiry), good.Stats()...)
	require.Equal(t, figures(0, 0, 0, 0, 0, 0, "", "", ""), st.Do(queue("other").Stats()...))

	c := s.dial3(t)
	require.True(t, strings.HasPrefix(c.Do(good.Stats()...), "%15\r\n$7\r\npending\r\n:1\r\n"))
	require.True(t, strings.HasSuffix(c.Do(queue("other").Stats()...), "$16\r\nrate_duration_ms\r\n_\r\n"))
}

// An expired key counts as absent, and STATS does not remove it, not even on a primary. No key counts as accessed.
func TestStatsLeavesNoTrace(t *testing.T) {
	s := start(t, withModule("--maxmemory-policy", "allkeys-lfu", "--lfu-log-factor", "0", "--lfu-decay-time", "0"))
	s.observers = newObservers(t, s)
	st := s.fresh(t)
	st.put(good, "JOB1", "active", "attempts", "1")
	st.put(good, "JOB2", "dead", "attempts", "1")
	st.Must("DEBUG SET-ACTIVE-EXPIRE 0", "HSET emq:{q}:metrics:failed count 7")
	st.expired("emq:{q}:dead", "emq:{q}:metrics:failed")
	t.Cleanup(func() { st.Must("DEBUG SET-ACTIVE-EXPIRE 1", "DEL emq:{q}:job:JOB2 emq:{q}:dead") })
	look := func() []string {
		return []string{
			st.Do("DBSIZE"), st.Info("expired_keys"), st.Info("keyspace_hits"), st.Info("keyspace_misses"),
		}
	}
	used := func() (all []string) {
		for _, key := range []string{good.Active(), wire.Identity} {
			all = append(all, st.Do("OBJECT", "FREQ", key))
		}
		return all
	}
	usedBefore := used()
	before := look()
	require.Equal(t, figures(0, 1, 0, 0, 0, 0, "", "", "9000000000000"), st.Do(good.Stats()...))
	require.Equal(t, before, look())
	require.Equal(t, usedBefore, used())
}

// Replicas reply too.
func TestStatsOnAReplica(t *testing.T) {
	primary, s := start(t, withModule()), start(t, withModule())
	st := primary.fresh(t)
	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
	replica := s.attachPlain(t)
	replica.Must("REPLICAOF 127.0.0.1 " + strconv.Itoa(primary.Port()))
	waitFor(t, "the job on the replica", func() bool { return replica.Do("EXISTS", good.Row("JOB1")) == integer(1) })
	require.Equal(t, figures(1, 0, 0, 0, 0, 0, "", "", ""), replica.Do(good.Stats()...))
	replica.Must("CONFIG SET replica-read-only no")
	require.Equal(t, figures(1, 0, 0, 0, 0, 0, "", "", ""), replica.Do(good.Stats()...))
	require.Contains(t, replica.Do(good.Audit("0", 10)...), "-READONLY ")
	replica.Must("REPLICAOF NO ONE")
}
