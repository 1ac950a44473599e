package test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/valkey"
)

var settings = []struct {
	name, start string
	min, max    int64
}{
	{"emq.pump-interval-ms", "1000", 0, 3_600_000},
	{"emq.pump-budget-us", "2000", 100, 1_000_000},
	{"emq.max-stalled", "3", 0, maxInt31},
}

// setTo asserts what a setting is.
func (st *fixture) setTo(name, want string) {
	st.t.Helper()
	st.reply(array(bulk(name), bulk(want)), "CONFIG GET "+name)
}

// Each setting has its default, takes what is in its bounds, and refuses, with the server's own words, what is not.
func TestSettings(t *testing.T) {
	st := start(t, withPump()).fresh(t)
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			st.t = t
			st.setTo(s.name, s.start)
			for _, n := range []int64{s.min, s.max, s.min + 1} {
				st.Must(fmt.Sprintf("CONFIG SET %s %d", s.name, n))
				st.setTo(s.name, fmt.Sprint(n))
			}
			want := fmt.Sprint(s.min + 1)
			for _, n := range []int64{s.min - 1, s.max + 1, -1 << 63, 1<<63 - 1} {
				st.refusal(fmt.Sprintf("ERR CONFIG SET failed (possibly related to argument '%s') - argument must be between %d and %d inclusive",
					s.name, s.min, s.max), "CONFIG", "SET", s.name, fmt.Sprint(n))
				st.setTo(s.name, want)
			}
			for _, word := range []string{"", "x", "1.5", "1e3", "9223372036854775808"} {
				st.refusal("ERR CONFIG SET failed", "CONFIG", "SET", s.name, word)
				st.setTo(s.name, want)
			}
			// Of two settings in one command, one is refused: neither is taken.
			st.refusal("ERR CONFIG SET failed", "CONFIG", "SET", s.name, s.start, "maxmemory-samples", "0")
			st.setTo(s.name, want)
			st.Must("CONFIG SET " + s.name + " " + s.start)
		})
	}
	require.Len(t, value(st.Do("CONFIG", "GET", "emq.*")), 2*len(settings), "there are no others")
	st.Must("CONFIG SET emq.pump-interval-ms 0") // the verbs are to move the job
	st.life("q", "JOB1", "x")
}

// configured starts a server with a configuration file, which is the first of its arguments.
func configured(t *testing.T, file string) *fixture {
	t.Helper()
	binary, err := filepath.Abs(os.Getenv("VALKEY_SERVER"))
	require.NoError(t, err)
	script := filepath.Join(t.TempDir(), "server")
	require.NoError(t, os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\nexec '%s' '%s' \"$@\"\n", binary, file), 0o755))
	return start(t, valkey.Options{Server: script}).attachPlain(t)
}

// Settings stand in the configuration file, before or after the line that loads the module, and CONFIG REWRITE writes
// what was set.
func TestSettingsInTheFile(t *testing.T) {
	load := "loadmodule " + os.Getenv("EMQ_MODULE")
	for name, lines := range map[string][]string{
		"before": {"emq.max-stalled 7", "emq.pump-interval-ms 50", load},
		"after":  {load, "emq.pump-interval-ms 50", "emq.max-stalled 7"},
		"around": {"emq.max-stalled 7", load, "emq.pump-interval-ms 50"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "valkey.conf")
			require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
			st := configured(t, file)
			st.setTo("emq.max-stalled", "7")
			st.setTo("emq.pump-interval-ms", "50")
			st.setTo("emq.pump-budget-us", "2000")
			st.Must("CONFIG SET emq.max-stalled 0 emq.pump-budget-us 500", "CONFIG REWRITE")
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, line := range []string{"emq.max-stalled 0", "emq.pump-budget-us 500", "emq.pump-interval-ms 50", load} {
				require.Equal(t, 1, strings.Count(string(text), line), "%s in\n%s", line, text)
			}
			require.NoError(t, st.s.Stop())
			st = configured(t, file)
			st.setTo("emq.max-stalled", "0")
			st.setTo("emq.pump-budget-us", "500")
			st.setTo("emq.pump-interval-ms", "50")
		})
	}
}

// A value out of its bounds ends the start, and the log names the setting and the bounds.
func TestBadSettingAtStart(t *testing.T) {
	for _, s := range settings {
		for _, n := range []int64{s.min - 1, s.max + 1} {
			message := refusedAtStart(t, withPump("--"+s.name, fmt.Sprint(n)))
			logged(t, message, fmt.Sprintf("%s.*between %d and %d", s.name, s.min, s.max))
			logged(t, message, "<emq> not loaded: .*setting")
		}
	}
}

// MODULE LOADEX takes settings. One that it can't take leaves a server without the module, as it was, and the next
// load is as good as a first.
func TestSettingsOfLoadex(t *testing.T) {
	path := os.Getenv("EMQ_MODULE")
	for _, args := range [][]string{
		{"CONFIG", "emq.nosuch", "1"},
		{"CONFIG", "emq.max-stalled", "5", "CONFIG", "emq.nosuch", "1"},
		{"CONFIG", "emq.nosuch", "1", "CONFIG", "emq.max-stalled", "5"},
		{"CONFIG", "emq.max-stalled", "-1"},
		{"CONFIG", "emq.max-stalled", "x"},
		{"CONFIG", "emq.pump-interval-ms", "1", "CONFIG", "emq.pump-budget-us", "99"},
		{"CONFIG", "emq.max-stalled", "5", "ARGS", "no-such-argument"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			st := start(t, withoutModule()).bare(t)
			st.stock(300) // the scan of a module that goes at once must not outlive it
			for range 3 {
				st.refusal("ERR ", append([]string{"MODULE", "LOADEX", path}, args...)...)
				require.Zero(t, st.loaded())
				st.reply(empty, "CONFIG GET emq.*")
				for range 100 { // turns of the event loop
					st.reply("+PONG\r\n", "PING")
				}
				st.Must("ZADD emq:{after}:active 9000000000000 JOB1", "SWAPDB 0 1", "SWAPDB 0 1")
			}
			st.Must("FLUSHALL", "MODULE LOADEX "+path+" CONFIG emq.max-stalled 9 CONFIG emq.pump-interval-ms 0 ARGS keep-crash-memcheck")
			st.setTo("emq.max-stalled", "9")
			st.setTo("emq.pump-interval-ms", "0")
			st.setTo("emq.pump-budget-us", "2000")
			st.life("q", "JOB1", "x")
		})
	}
}
