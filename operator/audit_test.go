package operator

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/wire"
)

// For many queues the rows are scanned once, and the result equals what EMQ.AUDIT finds in each of them, including
// queues of which only rows are left. Keys of scripts are left alone.
func TestAudit(t *testing.T) {
	_, c, s := serve(t)
	var queues []string
	for i := range 30 {
		q := wire.Queue(fmt.Sprintf("q%02d", i))
		queues = append(queues, string(q))
		fill(t, c, q, "", ids(300))
	}
	calls := func() int {
		found := regexp.MustCompile(`(?i)cmdstat_emq\.audit:calls=(\d+)`).FindStringSubmatch(c.Do("INFO", "commandstats"))
		require.NotNil(t, found)
		n, _ := strconv.Atoi(found[1])
		return n
	}
	found, broken, err := s.Audit(t.Context(), queues, true, false, nil)
	require.NoError(t, err)
	require.Empty(t, broken)
	require.Empty(t, found)
	require.Equal(t, 30*4, calls(), "one call for each set, and none that scans the keys")

	id := ids(300)
	c.Must("ZREM emq:{q00}:pending "+id[3], "ZADD emq:{q00}:dead 0 "+id[3], // in another set
		"ZREM emq:{q01}:pending "+id[3],                                                 // in no set
		"ZREM emq:{q02}:pending "+id[3], "HSET emq:{q02}:job:"+id[3]+" state elsewhere", // an unknown state
		"ZREM emq:{q03}:pending "+id[3], "HSET emq:{q03}:job:"+id[3]+" group g", // a row of a lane
		"RPUSH emq:{q04}:job:"+id[3]+":logs x", "HSET emq:{q04}:job:"+id[3]+":lock x y", // keys of scripts
		"HSET emq:{q05}:job:"+id[3]+":x state pending", "SET emq:{q06}:job:JOBx y", "SET emq:{q07}:job:x y", // not rows
		"HSET emq:{q08}:job:x state pending payload y", "HDEL emq:{q09}:job:"+id[3]+" attempts", // a row whose id is no job's, a bad row
		"ZREM emq:{q10}:pending "+id[3], "HDEL emq:{q10}:job:"+id[3]+" state", // a row without a state
		"ZADD emq:{q11}:pending 0 JOBghost", "HSET emq:{q12}:meta max x", // found without the rows
		"HSET emq:{rows}:job:JOB1 state pending attempts 0 payload x", "SET emq:{bad}:dead x", "ZADD emq:{bad}:pending 0 JOB1", // a queue that is not listed, and one that is too broken
		"HSET emq:{bad}:job:JOB2 state pending attempts 0 payload x", "DEL emq:{q13}:pending", "HSET emq:{}:job:JOB1 state pending")
	names, err := s.Names(t.Context())
	require.NoError(t, err)
	require.NotContains(t, names, "rows")
	var steps []string
	found, broken, err = s.Audit(t.Context(), names, true, false, func(of string, p Progress) {
		require.LessOrEqual(t, p.Seen-1000, p.Total)
		if !slices.Contains(steps, of) {
			steps = append(steps, of)
		}
	})
	require.NoError(t, err)
	require.Len(t, broken, 1)
	require.ErrorContains(t, broken[0], "bad: emq: the server refused: WRONGTYPE")
	require.Equal(t, []string{"queues", "keys", "queues with rows in no set"}, steps)
	var want []Finding
	for _, q := range append(names, "rows", "q13") {
		each, err := s.audit(t.Context(), s.patient(), q, true, false)
		if q != "bad" {
			require.NoError(t, err)
		}
		want = append(want, each...)
	}
	require.Greater(t, len(want), 300+8)
	sorted := func(list []Finding) []Finding {
		slices.SortFunc(list, func(x, y Finding) int {
			return cmp.Or(cmp.Compare(x.Queue, y.Queue), cmp.Compare(x.ID, y.ID), cmp.Compare(x.Part, y.Part))
		})
		return slices.Compact(list)
	}
	require.Equal(t, sorted(want), sorted(found))

	// Without all, only the named queues are audited, here with fix.
	named := append(slices.Clone(names[:len(names)-3]), "rows")
	_, _, err = s.Audit(t.Context(), slices.DeleteFunc(named, func(q string) bool { return q == "bad" }), false, true, nil)
	require.NoError(t, err)
	found, _, err = s.Audit(t.Context(), names, true, false, nil)
	require.NoError(t, err)
	require.NotEmpty(t, found)
	for _, f := range found {
		require.True(t, f.To == "leave" || f.Queue == "q13", "%+v", f)
	}

	ctx, cancel := context.WithCancel(t.Context())
	_, _, err = s.Audit(ctx, names, true, false, func(string, Progress) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
}
