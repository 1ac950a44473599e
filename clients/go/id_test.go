package emq

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseID(t *testing.T) {
	for _, s := range []string{"JOB00000000000", "JOBAzL8n0Y58m7", "JOB0Zz0Zz0Zz0Z"} {
		id, err := ParseID(s)
		require.NoError(t, err)
		require.Equal(t, ID(s), id)
	}
	for s, why := range map[string]string{
		"":                  "JOB and 11 base-62 digits",
		"JOB":               "JOB and 11 base-62 digits",
		"JOB0000000000":     "JOB and 11 base-62 digits",
		"JOB000000000000":   "JOB and 11 base-62 digits",
		"job00000000000":    "JOB and 11 base-62 digits",
		"GRP00000000000":    "JOB and 11 base-62 digits",
		"JOB0000000000-":    "no base-62 digit",
		"JOB0000000000\x00": "no base-62 digit",
		"JOBAzL8n0Y58m8":    "more than 63 bits",
		"JOBzzzzzzzzzzz":    "more than 63 bits",
	} {
		_, err := ParseID(s)
		require.ErrorContains(t, err, why, "%q", s)
	}
	require.Equal(t, ID("JOBAzL8n0Y58m7"), formatID(maxID))
}

// Ids grow, whatever the clock does, and say when they were made.
func TestMint(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000 + idEpoch)
	m := newMint()
	m.now = func() time.Time { return at }
	before := ID("")
	next := func() ID {
		id := m.next()
		require.Greater(t, id, before)
		_, err := ParseID(string(id))
		require.NoError(t, err)
		before = id
		return id
	}
	require.Equal(t, at, next().Time())
	for range 1<<seqBits - 1 {
		require.Equal(t, at, next().Time())
	}
	require.Equal(t, at.Add(time.Millisecond), next().Time(), "the sequence is used up")
	at = at.Add(-time.Hour)
	for range 5000 {
		next()
	}
	at = at.Add(2 * time.Hour)
	require.Equal(t, at, next().Time())
	at = time.UnixMilli(0)
	next()
	require.True(t, ID("JOBsomebody's").Time().IsZero())
}

func TestMintInParallel(t *testing.T) {
	m := newMint()
	var mu sync.Mutex
	all := map[ID]bool{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			ids := make([]ID, 0, 5000)
			for range cap(ids) {
				ids = append(ids, m.next())
			}
			mu.Lock()
			defer mu.Unlock()
			for i, id := range ids {
				all[id] = true
				if i > 0 && id <= ids[i-1] {
					t.Errorf("%s after %s", id, ids[i-1])
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, all, 8*5000)
}

func TestExponential(t *testing.T) {
	b := Exponential(time.Second, time.Hour)
	for n, want := range map[int64]time.Duration{-1: time.Second, 0: time.Second, 1: time.Second, 2: 2 * time.Second, 5: 16 * time.Second,
		12: 2048 * time.Second, 13: time.Hour, 62: time.Hour, 63: time.Hour, 1 << 40: time.Hour} {
		least, most := b(n), b(n)
		for range 1000 {
			d := b(n)
			least, most = min(least, d), max(most, d)
		}
		require.LessOrEqual(t, most, want)
		require.GreaterOrEqual(t, least, want/2)
		require.Less(t, least, most)
	}
}

func TestMillis(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0", 1: "1", time.Millisecond: "1", time.Millisecond + 1: "2", -time.Hour: "0",
		time.Second: "1000"} {
		require.Equal(t, want, millis(d))
	}
}

// The place of a queue is the same for clients in all languages, so it must never change.
func TestHome(t *testing.T) {
	conns := map[string]Conn{"a": nil, "b": nil, "c": nil}
	three := UseAll(conns)
	conns["d"] = nil
	four := UseAll(conns)
	count, moved := map[string]int{}, 0
	for i := range 3000 {
		q := strings.Repeat("q", i%50) + time.Duration(i).String()
		from, to := three.Server(q), four.Server(q)
		if count[to]++; from != to {
			moved++
			require.Equal(t, "d", to, "only the new server's share moves")
		}
	}
	require.Len(t, count, 4)
	for name, n := range count {
		require.InDelta(t, 750, n, 150, name)
	}
	require.Equal(t, []string{"b", "c", "b"}, []string{three.Server("mail"), three.Server("orders"), three.Server("video")})
}

// The least id of a time is of that time, and the one before it is not.
func TestLeastID(t *testing.T) {
	for _, at := range []time.Time{time.UnixMilli(idEpoch), time.UnixMilli(1_800_000_000_001), time.UnixMilli(idEpoch + 1<<41 - 1)} {
		id := LeastID(at)
		require.Equal(t, at, id.Time())
		if n, _ := id.number(); n > 0 {
			require.Equal(t, at.Add(-time.Millisecond), formatID(n-1).Time())
		}
	}
	require.Equal(t, ID("JOB00000000000"), LeastID(time.UnixMilli(0)), "of before there were ids")
	require.Equal(t, time.UnixMilli(idEpoch+1<<41-1), LeastID(time.UnixMilli(1<<52)).Time(), "of after the last")
}
