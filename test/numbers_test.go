package test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var nines = strings.Repeat("9", 30)

// notNumbers are invalid values of every numeric argument.
var notNumbers = []string{
	"-1", "-0", "+5", "05", "00", "1.5", "1.0", "1e3", "0x10", " 5", "5 ", "5\n", "5\x00", "", "five", "٥",
	"9007199254740992", "9223372036854775807", "9223372036854775808", "18446744073709551617", nines,
}

// numbers are the numeric arguments: their positions, names and ranges, and the state of JOB1, with its time in the past, in
// which the request has an effect.
var numbers = []struct {
	verb     string
	name     string
	args     []string
	at       int
	min, max int64
	state    string
}{
	{"claim", "lease", good.Claim(1), 5, 1, maxTime, "pending"},
	{"fail", "delay", good.Fail("JOB1", "1", 0, 1, "why"), 8, 0, maxTime, "active"},
	{"fail", "max", good.Fail("JOB1", "1", 0, 1, "why"), 9, 1, maxInt31, "active"},
	{"schedule in", "ms", good.ScheduleIn("JOB1", "x", 0), 7, 0, maxTime, ""},
	{"schedule at", "ms", good.ScheduleAt("JOB1", "x", 0), 7, 0, maxTime, ""},
	{"extend", "lease", good.Extend("JOB1", "1", 1), 6, 1, maxTime, "active"},
	{"promote", "limit", good.Promote(1), 5, 1, 10_000, "scheduled"},
	{"reap", "max_stalled", good.Reap(0, 1), 6, 0, maxInt31, "active"},
	{"reap", "limit", good.Reap(0, 1), 7, 1, 10_000, "active"},
	{"mschedule in", "ms", good.Mschedule("in", "JOB1", "0", "x"), 4, 0, maxTime, ""},
	{"mschedule at", "ms", good.Mschedule("at", "JOB2", "5", "x", "JOB1", "0", "x"), 7, 0, maxTime, ""},
	{"release", "delay_ms", good.Release("JOB1", "1", 0), 4, 0, maxTime, "active"},
	{"pause", "ms", good.Pause(0), 2, 0, maxTime, ""},
	{"limit", "concurrency", good.Limit(0, 5, 1000), 2, 0, maxInt31, ""},
	{"limit", "max", good.Limit(5, 5, 1000), 3, 0, maxInt31, ""},
	{"limit", "duration_ms", good.Limit(5, 5, 1000), 4, 0, maxTime, ""},
	{"mclaim", "lease_ms", good.Mclaim(1, 1), 2, 1, maxTime, "pending"},
	{"mclaim", "count", good.Mclaim(1, 1), 3, 1, 1000, "pending"},
	{"mextend", "lease_ms", good.Mextend(1, "JOB1", "1"), 2, 1, maxTime, "active"},
	{"mfail", "max", good.Mfail(1, "JOB1", "1", "0", "why"), 2, 1, maxInt31, "active"},
	{"mfail", "delay_ms", good.Mfail(1, "JOB2", "1", "0", "why", "JOB1", "1", "0", "why", "JOB3", "1", "0", "why"), 9, 0, maxTime, "active"},
}

func TestNumbers(t *testing.T) {
	s := witnessed(t)
	for _, n := range numbers {
		refused := append([]string{strconv.FormatInt(n.min-1, 10), strconv.FormatInt(n.max+1, 10)}, notNumbers...)
		for _, text := range refused {
			t.Run(n.verb+"/"+n.name+"/"+escape(text), func(t *testing.T) {
				st := s.fresh(t)
				st.put(good, "JOB1", "active", "attempts", "1")
				st.lapse(good, "JOB1")
				st.refused("ERR ", with(n.args, n.at, text)...)
				require.Contains(t, st.lastReply, n.name, "the refusal names the argument")
				require.Contains(t, st.lastReply, strconv.FormatInt(n.min, 10), "the refusal names the range")
				require.Contains(t, st.lastReply, strconv.FormatInt(n.max, 10), "the refusal names the range")
			})
		}
		for _, bound := range []int64{n.min, n.max} {
			t.Run(n.verb+"/"+n.name+"/"+strconv.FormatInt(bound, 10), func(t *testing.T) {
				st := s.fresh(t)
				if n.state != "" {
					st.put(good, "JOB1", n.state, "attempts", "1")
				}
				if n.state == "active" || n.state == "scheduled" {
					st.lapse(good, "JOB1")
				}
				if (n.name == "max" && n.verb == "limit" || n.name == "duration_ms") && bound == 0 {
					st.refused("ERR max and duration_ms must both be 0 or both be more\r\n", with(n.args, n.at, "0")...)
					return
				}
				reply := st.Do(with(n.args, n.at, strconv.FormatInt(bound, 10))...)
				require.Contains(t, []string{
					claimed("JOB1", "x", 2), bulk("dead"), bulk("scheduled"), bulk("pending"), "+OK\r\n", integer(1), reaped([]string{"JOB1"}, nil),
					status(1), status(1, 1), status(2), status(0, 2, 0), array(claimed("JOB1", "x", 2)),
				}, reply)
			})
		}
	}
}

// The longest times are exact to the millisecond, in the store and in the stream.
func TestTheLongestTimes(t *testing.T) {
	s := witnessed(t)
	st := s.fresh(t)
	st.put(good, "JOB1", "pending", "attempts", "0")
	o := st.effects(claimed("JOB1", "x", 1), good.Claim(maxTime)...)
	at := strconv.FormatInt(st.score(good.Active(), "JOB1"), 10)
	require.Contains(t, o.stream, "ZADD emq:{q}:active "+at+" JOB1")
	st.streamed(o, atomically(zremPending, "HSET emq:{q}:job:JOB1 state active attempts 1 lease_epoch RUN", "ZADD emq:{q}:active {now+4503599627370495} JOB1"))

	o = st.effects(bulk("scheduled"), good.Fail("JOB1", "1", maxTime, 2, "why")...)
	at = strconv.FormatInt(st.score(good.Schedule(), "JOB1"), 10)
	require.Contains(t, o.stream, "ZADD emq:{q}:schedule "+at+" JOB1")
	require.GreaterOrEqual(t, st.score(good.Schedule(), "JOB1"), o.clock[0]+maxTime)
	require.LessOrEqual(t, st.score(good.Schedule(), "JOB1"), o.clock[1]+maxTime)

	o = st.effects(integer(1), good.ScheduleIn("JOB2", "x", maxTime)...)
	at = strconv.FormatInt(st.score(good.Schedule(), "JOB2"), 10)
	st.streamed(o, atomically("HSET emq:{q}:job:JOB2 state scheduled attempts 0 payload x", "ZADD emq:{q}:schedule {now+4503599627370495} JOB2"))
	require.Contains(t, o.stream, "ZADD emq:{q}:schedule "+at+" JOB2")
	o = st.effects(integer(1), good.ScheduleAt("JOB3", "x", maxTime)...)
	st.streamed(o, atomically("HSET emq:{q}:job:JOB3 state scheduled attempts 0 payload x", "ZADD emq:{q}:schedule 4503599627370495 JOB3"))
	require.Equal(t, int64(maxTime), st.score(good.Schedule(), "JOB3"))
	st.quiet(integer(0), good.Promote(10)...)

	st.put(good, "JOB4", "active", "attempts", "1")
	o = st.effects(integer(1), good.Extend("JOB4", "1", maxTime)...)
	st.streamed(o, atomically("HSET emq:{q}:job:JOB4 lease_epoch RUN", "ZADD emq:{q}:active {now+4503599627370495} JOB4"))
	require.Contains(t, o.stream, "ZADD emq:{q}:active "+strconv.FormatInt(st.score(good.Active(), "JOB4"), 10)+" JOB4")
	st.quiet(reaped(nil, nil), good.Reap(1, 10)...)
}

// A token is compared as bytes: any token either matches or is stale.
func TestTokensAreNoNumbers(t *testing.T) {
	s := witnessed(t)
	for _, text := range append([]string{"0", "2", "01", "1 ", " 1", "1\x00", "1\r\n", strings.Repeat("1", 300_000)}, notNumbers...) {
		t.Run(escape(text)[:min(len(escape(text)), 40)], func(t *testing.T) {
			st := s.fresh(t)
			st.put(good, "JOB1", "active", "attempts", "1")
			st.refused("EMQSTALE complete token mismatch\r\n", good.Complete("JOB1", text)...)
			st.refused("EMQSTALE retry token mismatch\r\n", good.Fail("JOB1", text, 0, 1, "why")...)
			st.refused("EMQSTALE extend token mismatch\r\n", good.Extend("JOB1", text, 1000)...)
			st.quiet(status(-1, -1), good.Mcomplete("JOB1", text, "JOB1", text)...)
			st.quiet(status(-1), good.Mextend(1000, "JOB1", text)...)
			st.quiet(status(-1), good.Mfail(1, "JOB1", text, "0", "why")...)
		})
	}
}
