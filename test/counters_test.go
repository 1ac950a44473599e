package test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A counter grows as HINCRBY would make it grow; where HINCRBY would refuse, it is left alone, and the job is settled all
// the same.
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
	}
	for _, c := range settle {
		for _, count := range counts {
			t.Run(c.counter+"/"+escape(count), func(t *testing.T) {
				st := s.fresh(t)
				st.put(good, "JOB1", "active", "attempts", "1")
				require.Equal(t, integer(1), st.Do("HSET", c.counter, "count", count))
				require.Equal(t, integer(1), st.Do("HSET", "oracle", "count", count))
				st.Do("HINCRBY", "oracle", "count", "1") // may fail
				require.Equal(t, c.want, st.Do(c.args...))
				require.Equal(t, st.Do("HGET", "oracle", "count"), st.Do("HGET", c.counter, "count"))
				st.Must("DEL " + c.counter + " oracle")
			})
		}
		t.Run(c.counter+"/other fields", func(t *testing.T) {
			st := s.fresh(t)
			st.put(good, "JOB1", "active", "attempts", "1")
			st.Must("HSET " + c.counter + " other 7")
			require.Equal(t, c.want, st.Do(c.args...))
			st.reply(array(bulk("7"), bulk("1")), "HMGET "+c.counter+" other count")
			st.Must("HDEL " + c.counter + " other")
		})
	}
}
