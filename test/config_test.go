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
	{"emq.max-payload-bytes", "0", 0, maxInt31},
}

// setTo asserts the value of a setting.
func (st *fixture) setTo(name, want string) {
	st.t.Helper()
	st.reply(array(bulk(name), bulk(want)), "CONFIG GET "+name)
}

// Each setting has its default, accepts values within its bounds, and refuses others with the server's own error.
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
			// One of two settings in a command is refused, so neither is changed.
			st.refusal("ERR CONFIG SET failed", "CONFIG", "SET", s.name, s.start, "maxmemory-samples", "0")
			st.setTo(s.name, want)
			st.Must("CONFIG SET " + s.name + " " + s.start)
		})
	}
	require.Len(t, value(st.Do("CONFIG", "GET", "emq.*")), 2*len(settings), "there are no others")
	st.Must("CONFIG SET emq.pump-interval-ms 0") // the verbs move the job
	st.life("q", "JOB1", "x")
}

// configured starts a server with a configuration file, which is the first of its arguments, and with flags.
func configured(t *testing.T, file string, flags ...string) *fixture {
	t.Helper()
	binary, err := filepath.Abs(os.Getenv("VALKEY_SERVER"))
	require.NoError(t, err)
	script := filepath.Join(t.TempDir(), "server")
	require.NoError(t, os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\nexec '%s' '%s' \"$@\"\n", binary, file), 0o755))
	return start(t, valkey.Options{Server: script, Args: flags}).attachPlain(t)
}

// Settings may be in the configuration file before or after the line that loads the module, and CONFIG REWRITE writes
// changed ones.
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

// However the module is loaded, CONFIG REWRITE (by Sentinel at each failover) leaves a configuration with which the server
// starts, with the module loaded once and with its settings. If it adds a loadmodule line to one that it does not see, the
// log says so. It adds no further line the next time.
func TestRewrittenConfiguration(t *testing.T) {
	module := os.Getenv("EMQ_MODULE")
	link := filepath.Join(t.TempDir(), "link.so")
	require.NoError(t, os.Symlink(module, link))
	load := "loadmodule " + module
	example, err := os.ReadFile("../valkey.conf.example")
	require.NoError(t, err)
	for name, way := range map[string]struct {
		file, included string
		flags          []string
		lines          int    // that load it, after the rewrite
		memcheck       string // of crash-memcheck-enabled
	}{
		"by the file":                   {file: load, lines: 1, memcheck: "no"},
		"by the example":                {file: strings.Replace(string(example), "/usr/lib/valkey/emq.so", module, 1), lines: 1, memcheck: "no"},
		"by an included file":           {file: "include DIR/emq.conf", included: load, lines: 2, memcheck: "no"},
		"by the files of a folder":      {file: "include DIR/*.conf", included: load, lines: 2, memcheck: "no"},
		"by an argument in one of them": {file: "include DIR/*.conf", included: load + " keep-crash-memcheck", lines: 2, memcheck: "yes"},
		"by two lines":                  {file: load + "\n" + load, lines: 1, memcheck: "no"},
		"under two names":               {file: load + "\ninclude DIR/*.conf", included: "loadmodule " + link, lines: 2, memcheck: "no"},
		"by a flag":                     {flags: []string{"--loadmodule", module}, lines: 2, memcheck: "no"},
		"by all of them":                {file: "include DIR/*.conf\n" + load, included: load, flags: []string{"--loadmodule", link}, lines: 3, memcheck: "no"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, "included"), 0o755))
			file, included := filepath.Join(dir, "valkey.conf"), filepath.Join(dir, "included")
			write := func(path string, lines ...string) {
				require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
			}
			write(filepath.Join(included, "emq.conf"), "emq.max-stalled 7", way.included)
			way.file = strings.Replace(way.file, "DIR", included, 1)
			if way.included == "" {
				way.file += "\nemq.max-stalled 7"
			}
			write(file, "emq.pump-interval-ms 0", way.file, "user worker on >secret +emq.claim ~*")
			lines := strings.Count("\n"+way.file+"\n"+way.included, "\nloadmodule ") + len(way.flags)/2
			for range 3 {
				st := configured(t, file, append([]string{"--enable-module-command", "no"}, way.flags...)...)
				require.Equal(t, 1, st.loaded())
				st.setTo("emq.max-stalled", "7")
				st.setTo("emq.pump-interval-ms", "0")
				st.setTo("emq.pump-budget-us", "2000")
				st.setTo("crash-memcheck-enabled", way.memcheck)
				st.life("q", "JOB1", "x")
				if lines > 1 {
					logged(t, st.s.Log(), " # <emq> more than one loadmodule line")
				} else {
					require.NotContains(t, st.s.Log(), "more than one loadmodule line")
				}
				for range 2 {
					st.Must("CONFIG REWRITE")
					text, err := os.ReadFile(file)
					require.NoError(t, err)
					require.Equal(t, 1, strings.Count(string(text), "\nloadmodule "), "%s", text)
				}
				lines = way.lines

				// There is also one pump, and it learns of its work.
				st.Must("CONFIG SET emq.pump-interval-ms 10")
				require.Equal(t, integer(1), st.Do(good.ScheduleAt("JOB2", "x", 1)...))
				waitFor(t, "the job that is due", func() bool { return len(st.Members(good.Pending())) == 1 })
				require.Equal(t, "1", st.Info("emq_pump_jobs_promoted"))
				st.Must("FLUSHALL")
				require.NoError(t, st.s.Stop())
			}
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

// MODULE LOADEX takes settings. If one is refused, the server stays without the module, unchanged, and the next load works
// like a first one.
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
			st.stock(300) // the scan must not outlive a module that is unloaded at once
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
