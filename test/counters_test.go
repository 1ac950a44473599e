package test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// A counter grows as with HINCRBY; where HINCRBY would fail, it is left alone, and the job is settled nevertheless.
func TestCounters(t *testing.T) {
	s := start(t, withModule())
	counts := append([]string{
		"0", "1", "41", "-1", "-41", "007", "-0", "-07", "-", "9223372036854775806", "9223372036854775807",
		"-9223372036854775808", "-9223372036854775809", "0000000000000000000001",
	}, notNumbers...)
	settle := []struct {
		counter string
		want    string
		args    []string
	}{
		{good.Completed(), integer(1), good.Complete("JOB1", "1")},
		{good.Failed(), bulk("dead"), good.Fail("JOB1", "1", 0, 1, "why")},
		{good.Failed(), reaped(nil, []string{"JOB1"}), good.Reap(1, 10)},
	}
	for _, c := range settle {
		for _, count := range counts {
			t.Run(c.args[0]+"/"+escape(count), func(t *testing.T) {
				st := s.fresh(t)
				st.put(good, "JOB1", "active", "attempts", "1")
				st.lapse(good, "JOB1")
				require.Equal(t, integer(1), st.Do("HSET", c.counter, "count", count))
				require.Equal(t, integer(1), st.Do("HSET", "oracle", "count", count))
				st.Do("HINCRBY", "oracle", "count", "1") // may fail
				require.Equal(t, c.want, st.Do(c.args...))
				require.Equal(t, st.Do("HGET", "oracle", "count"), st.Do("HGET", c.counter, "count"))
				st.Must("DEL " + c.counter + " oracle")
			})
		}
		t.Run(c.args[0]+"/other fields", func(t *testing.T) {
			st := s.fresh(t)
			st.put(good, "JOB1", "active", "attempts", "1")
			st.lapse(good, "JOB1")
			st.Must("HSET " + c.counter + " other 7")
			require.Equal(t, c.want, st.Do(c.args...))
			st.reply(array(bulk("7"), bulk("1")), "HMGET "+c.counter+" other count")
			st.Must("HDEL " + c.counter + " other")
		})
	}
}

// One REAP that buries several jobs counts each, until HINCRBY would fail.
func TestCountersOfSeveral(t *testing.T) {
	s := witnessed(t)
	for count, want := range map[string]string{
		"": "5", "0": "5", "41": "46", "-3": "2", "9223372036854775802": "9223372036854775807", "9223372036854775804": "9223372036854775807",
		"9223372036854775806": "9223372036854775807", "9223372036854775807": "9223372036854775807", "many": "many", "-9223372036854775808": "-9223372036854775803",
	} {
		t.Run(escape(count), func(t *testing.T) {
			st := s.fresh(t)
			for i := range 5 {
				id := "JOB" + strconv.Itoa(i)
				st.put(good, id, "active", "attempts", "1")
				st.lapse(good, id)
			}
			if count != "" {
				require.Equal(t, integer(1), st.Do("HSET", good.Failed(), "count", count))
			}
			o := st.effects(reaped(nil, []string{"JOB0", "JOB1", "JOB2", "JOB3", "JOB4"}), good.Reap(1, 10)...)
			st.reply(bulk(want), "HGET emq:{q}:metrics:failed count")
			counted := 0
			for _, line := range o.stream {
				if line == countDead {
					counted++
				}
			}
			before, _ := strconv.ParseInt(count, 10, 64)
			after, _ := strconv.ParseInt(want, 10, 64)
			require.Equal(t, after-before, int64(counted), "the replicas count the same")
			st.Must("DEL " + good.Failed())
		})
	}
}
