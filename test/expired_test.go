package test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// An expired set or counter that the server has not removed yet counts as absent: a verb that adds to it creates it again,
// whichever of its keys the verb opens first, and a replica follows.
func TestExpiredSets(t *testing.T) {
	counted := func(reply string) string {
		n, _ := value(reply).(string)
		return n
	}
	s := start(t, withModule())
	replica := follow(t, s)
	held := func(st *fixture) { st.put(good, "JOB1", "active", "attempts", "1") }
	lapsed := func(fields ...string) func(*fixture) {
		return func(st *fixture) {
			for _, id := range []string{"JOB1", "JOB2"} {
				st.put(good, id, "active", append([]string{"attempts", "1"}, fields...)...)
				st.lapse(good, id)
			}
		}
	}
	for name, c := range map[string]struct {
		given   func(*fixture)
		expires []string // sets, and counters
		do      []string
		want    string
		holds   map[string][]string // afterwards
		counts  map[string]string
	}{
		"enqueue": {nil, []string{good.Pending()}, good.Enqueue("JOB1", "x"), integer(1),
			map[string][]string{good.Pending(): {"JOB1"}}, nil},
		"schedule": {nil, []string{good.Schedule()}, good.ScheduleIn("JOB1", "x", 60_000), integer(1),
			map[string][]string{good.Schedule(): {"JOB1"}}, nil},
		"claim": {func(st *fixture) { st.put(good, "JOB1", "pending", "attempts", "0") }, []string{good.Active()}, good.Claim(60_000),
			claimed("JOB1", "x", 1), map[string][]string{good.Active(): {"JOB1"}}, nil},
		"claim of a bad row": {func(st *fixture) { st.put(good, "JOB1", "pending", "attempts", "x") }, []string{good.Dead(), good.Active()},
			good.Claim(60_000), empty, map[string][]string{good.Dead(): {"JOB1"}}, nil},
		"complete": {held, []string{good.Completed()}, good.Complete("JOB1", "1"), integer(1), nil, map[string]string{good.Completed(): "1"}},
		"fail, to schedule": {held, []string{good.Schedule(), good.Dead()}, good.Fail("JOB1", "1", 60_000, 3, "why"), bulk("scheduled"),
			map[string][]string{good.Schedule(): {"JOB1"}}, nil},
		"fail, to dead": {held, []string{good.Schedule(), good.Dead(), good.Failed()}, good.Fail("JOB1", "1", 0, 1, "why"), bulk("dead"),
			map[string][]string{good.Dead(): {"JOB1"}}, map[string]string{good.Failed(): "1"}},
		"promote": {func(st *fixture) {
			for _, id := range []string{"JOB1", "JOB2"} {
				st.put(good, id, "scheduled", "attempts", "1")
				st.lapse(good, id)
			}
		}, []string{good.Pending()}, good.Promote(10), integer(2), map[string][]string{good.Pending(): {"JOB1", "JOB2"}}, nil},
		"reap": {lapsed(), []string{good.Pending(), good.Dead(), good.Failed()}, good.Reap(3, 10), reaped([]string{"JOB1", "JOB2"}, nil),
			map[string][]string{good.Pending(): {"JOB1", "JOB2"}}, nil},
		"reap, to dead": {lapsed("stalled", "2"), []string{good.Pending(), good.Dead(), good.Failed()}, good.Reap(3, 10),
			reaped(nil, []string{"JOB1", "JOB2"}), map[string][]string{good.Dead(): {"JOB1", "JOB2"}}, map[string]string{good.Failed(): "2"}},
		"audit": {func(st *fixture) {
			st.put(good, "JOB1", "pending", "attempts", "0")
			st.Must("HSET emq:{q}:job:JOB2 state scheduled attempts 1 payload x", "HSET emq:{q}:job:JOB3 state dead attempts 1 payload x")
		}, []string{good.Active(), good.Schedule(), good.Dead()}, good.Fix("rows:0", 1000), "",
			map[string][]string{good.Pending(): {"JOB1"}, good.Schedule(): {"JOB2"}, good.Dead(): {"JOB3"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			st := s.fresh(t)
			st.Must("DEBUG SET-ACTIVE-EXPIRE 0")
			t.Cleanup(func() { st.Must("DEBUG SET-ACTIVE-EXPIRE 1") })
			if c.given != nil {
				c.given(st)
			}
			for i, key := range c.expires {
				if key == good.Completed() || key == good.Failed() {
					st.Must("HSET " + key + " count 7")
				} else {
					st.Must("ZADD " + key + " 1 JOBold" + strconv.Itoa(i))
				}
			}
			there := st.Do("DBSIZE")
			st.expired(c.expires...)
			require.Equal(t, there, st.Do("DBSIZE"), "they have expired, and are not gone")
			if reply := st.Do(c.do...); c.want != "" {
				require.Equal(t, c.want, reply)
			}
			for _, key := range []string{good.Pending(), good.Active(), good.Schedule(), good.Dead()} {
				require.ElementsMatch(t, c.holds[key], st.Members(key), key)
			}
			for _, key := range []string{good.Completed(), good.Failed()} {
				require.Equal(t, c.counts[key], counted(st.Do("HGET", key, "count")), key)
			}
			st.inStep("1")
			require.Equal(t, st.digest(), replica.attachPlain(t).digest())
		})
	}
}
