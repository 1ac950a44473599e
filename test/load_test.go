package test

import (
	"bufio"
	"debug/elf"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"emq/test/valkey"
	"emq/test/wire"
)

// logged asserts that a line of the log matches, and returns that line.
func logged(t *testing.T, log, pattern string) string {
	t.Helper()
	line := regexp.MustCompile(`(?im)^.*` + pattern + `.*$`).FindString(log)
	require.NotEmpty(t, line, "no line matches %q in\n%s", pattern, log)
	return line
}

// refusedAtStart asserts that a server does not start with these options, and returns what it says.
func refusedAtStart(t *testing.T, o valkey.Options) string {
	t.Helper()
	s, err := valkey.Start(o)
	if err == nil {
		_ = s.Close()
	}
	require.Error(t, err, "the server started")
	return err.Error()
}

func copyFile(t *testing.T, from, to string, mode os.FileMode) {
	t.Helper()
	data, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, data, mode))
	require.NoError(t, os.Chmod(to, mode))
}

// The file that the build leaves is executable and shows the server its entry points only.
func TestTheFile(t *testing.T) {
	path := os.Getenv("EMQ_MODULE")
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o755), info.Mode().Perm())
	f, err := elf.Open(path)
	require.NoError(t, err)
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	require.NoError(t, err)
	var exported []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && elf.ST_BIND(s.Info) != elf.STB_LOCAL {
			exported = append(exported, s.Name)
		}
	}
	assert.Subset(t, []string{"ValkeyModule_OnLoad", "ValkeyModule_OnUnload"}, exported)
	assert.Contains(t, exported, "ValkeyModule_OnLoad")
	for _, p := range f.Progs {
		if p.Type == elf.PT_TLS {
			assert.LessOrEqual(t, p.Memsz, uint64(16), "thread-local data")
		}
	}
}

// A file without the execute bit, as `go build` leaves it, is refused by the server.
func TestFileMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "emq.so")
	copyFile(t, os.Getenv("EMQ_MODULE"), path, 0o644)
	logged(t, refusedAtStart(t, valkey.Options{Module: path}), "does not have execute permissions")
	require.NoError(t, os.Chmod(path, 0o755))
	start(t, valkey.Options{Module: path})
}

func TestLoadAtRunTime(t *testing.T) {
	s := start(t, withoutModule())
	st := s.bare(t)
	st.reply("+OK\r\n", "MODULE LOADEX "+os.Getenv("EMQ_MODULE")+" CONFIG emq.pump-interval-ms 0")
	st.life("q", "JOB1", "x")
	st.reply(array(bulk("crash-memcheck-enabled"), bulk("no")), "CONFIG GET crash-memcheck-enabled")
}

// The load line has the versions of the module, of Go and of the server.
func TestLoadLine(t *testing.T) {
	s := start(t, withModule())
	st := s.attach(t)
	version := st.Info("valkey_version")
	require.NotEmpty(t, version)
	line := logged(t, s.Log(), `<emq>.*`+regexp.QuoteMeta(version))
	assert.Regexp(t, `go1\.\d+`, line)
	assert.Contains(t, line, "echomq:6.0.0")
	require.Equal(t, 1, st.loaded())
	require.NotContains(t, s.Log(), "maxmemory-policy", "there is nothing to warn of")
}

// loaded counts the modules named emq; newer servers list modules of their own besides.
func (st *fixture) loaded() int {
	n := 0
	for _, module := range value(st.Do("MODULE", "LIST")).([]any) {
		if fields(module)["name"] == "emq" {
			n++
		}
	}
	return n
}

// A second load is refused and the first module goes on; a copy of the file at another path is refused too.
func TestSecondLoad(t *testing.T) {
	s := start(t, withModule())
	st := s.fresh(t)
	second := filepath.Join(t.TempDir(), "copy.so")
	copyFile(t, os.Getenv("EMQ_MODULE"), second, 0o755)
	for _, path := range []string{os.Getenv("EMQ_MODULE"), second} {
		st.refusal("ERR ", "MODULE", "LOAD", path)
		st.life("q", "JOB1", "x")
		require.Equal(t, 1, st.loaded())
	}
	// At the start a copy would be a second Go runtime in the process; and the first module must be unloadable.
	logged(t, refusedAtStart(t, withModule("--loadmodule", second)), "not loaded: a module named emq is loaded already")
	logged(t, refusedAtStart(t, withModule("--loadmodule", os.Getenv("EMQ_MODULE"), "--rename-command", "MODULE", "M")), "<emq> not loaded: .*MODULE UNLOAD")
}

func TestUnknownArgument(t *testing.T) {
	o := withModule()
	o.ModuleArgs = []string{"no-such-argument"}
	logged(t, refusedAtStart(t, o), "<emq>.*no-such-argument")

	s := start(t, withoutModule())
	st := s.bare(t)
	st.refusal("ERR ", "MODULE", "LOAD", os.Getenv("EMQ_MODULE"), "no-such-argument")
	logged(t, s.Log(), "<emq>.*no-such-argument")
	require.Zero(t, st.loaded())
	st.reply("+OK\r\n", "MODULE LOADEX "+os.Getenv("EMQ_MODULE")+" CONFIG emq.pump-interval-ms 0")
	st.life("q", "JOB1", "x")
}

// The server's memory test at a crash would destroy Go's memory: it is switched off, the log says so, and an argument
// keeps it.
func TestCrashMemcheck(t *testing.T) {
	s := start(t, withModule())
	st := s.attach(t)
	st.reply(array(bulk("crash-memcheck-enabled"), bulk("no")), "CONFIG GET crash-memcheck-enabled")
	logged(t, s.Log(), "<emq>.*crash-memcheck-enabled")

	o := withModule()
	o.ModuleArgs = []string{"keep-crash-memcheck"}
	s = start(t, o)
	s.attach(t).reply(array(bulk("crash-memcheck-enabled"), bulk("yes")), "CONFIG GET crash-memcheck-enabled")
}

func TestUnload(t *testing.T) {
	s := start(t, withModule())
	st := s.fresh(t)
	st.life("q", "JOB1", "x")
	st.refusal("ERR ", "MODULE", "UNLOAD", "emq")
	logged(t, s.Log(), "<emq>.*(unload|restart)")
	st.life("q", "JOB1", "x")
}

// A setting that does not exist makes the server unload what it has just loaded; it must live through that.
func TestUnknownSetting(t *testing.T) {
	s := start(t, withoutModule())
	st := s.bare(t)
	st.refusal("ERR ", "MODULE", "LOADEX", os.Getenv("EMQ_MODULE"), "CONFIG", "emq.nosuch", "1")
	require.Zero(t, st.loaded())
	for range 100 { // turns of the event loop
		st.reply("+PONG\r\n", "PING")
	}
	st.refusal("ERR unknown command", good.Claim(1)...)
	st.reply("+OK\r\n", "MODULE LOADEX "+os.Getenv("EMQ_MODULE")+" CONFIG emq.pump-interval-ms 0")
	st.life("q", "JOB1", "x")
}

func TestClusterIsRefused(t *testing.T) {
	message := refusedAtStart(t, withModule("--cluster-enabled", "yes"))
	line := logged(t, message, "<emq>.*cluster")
	assert.Regexp(t, `(?i)slot|identity|\{emq\}:version|standalone`, line, "the line says why")

	s := start(t, withoutModule("--cluster-enabled", "yes"))
	c := s.dial(t)
	require.True(t, strings.HasPrefix(c.Do("MODULE", "LOAD", os.Getenv("EMQ_MODULE")), "-ERR "))
	logged(t, s.Log(), "<emq>.*cluster")
	require.Equal(t, "+PONG\r\n", c.Do("PING"))
}

// The log warns of every policy that may evict jobs.
func TestEvictionIsWarnedOf(t *testing.T) {
	for _, policy := range []string{"allkeys-lru", "allkeys-lfu", "allkeys-random"} {
		s := start(t, withModule("--maxmemory-policy", policy))
		line := logged(t, s.Log(), "<emq>.*"+policy)
		assert.Contains(t, line, " # ", "a warning")
	}
	s := start(t, withModule("--maxmemory-policy", "noeviction"))
	require.NotContains(t, s.Log(), "maxmemory-policy")
}

// The whole crash report is written, after Go has run, and the process ends.
func TestCrashReport(t *testing.T) {
	for _, fault := range []string{"SEGFAULT", "PANIC"} {
		t.Run(fault, func(t *testing.T) {
			s := start(t, withModule())
			s.Dies = true
			c := s.dial(t)
			require.Equal(t, integer(1), c.Do(good.Enqueue("JOB1", "x")...))
			require.Equal(t, claimed("JOB1", "x", 1), c.Do(good.Claim(1000)...))
			c.Send([]string{"DEBUG", fault})
			state, err := s.Wait(wire.Patience)
			require.NoError(t, err)
			require.False(t, state.Success())
			require.Contains(t, s.Log(), "BUG REPORT START")
			require.Contains(t, s.Log(), "emq_enqueue_enqueued:1\r\n", "INFO emq")
			require.Contains(t, s.Log(), "BUG REPORT END")
		})
	}
}

// A SHUTDOWN while clients go on sending exits with 0, and nothing that was acknowledged is lost.
func TestStopUnderLoad(t *testing.T) {
	s := start(t, withModule("--appendonly", "yes", "--appendfsync", "always"))

	const clients = 4
	answered := make(chan int, clients)
	for i := range clients {
		go func() {
			n := 0
			defer func() { answered <- n }()
			c, err := net.Dial("unix", s.Socket)
			if err != nil {
				return
			}
			defer c.Close()
			reply := make([]byte, 4)
			for {
				id := fmt.Sprintf("JOB%d-%08d", i, n)
				if _, err := io.WriteString(c, wire.Encode(good.Enqueue(id, "x"))); err != nil {
					return
				}
				if _, err := io.ReadFull(c, reply); err != nil || string(reply) != integer(1) {
					return
				}
				n++
			}
		}()
	}
	st := s.attachPlain(t)
	waitFor(t, "a load", func() bool { return value(st.Do("ZCARD", good.Pending())).(int64) > 500 })
	require.NoError(t, s.Stop(), "exit code 0")
	total := 0
	for range clients {
		total += <-answered
	}

	s.Start()
	again := s.attach(t)
	stored := int(value(again.Do("ZCARD", good.Pending())).(int64))
	require.GreaterOrEqual(t, stored, total)
	require.LessOrEqual(t, stored, total+clients, "at most one unanswered job for each client")
}

// The child that saves a snapshot has one thread and does not run Go, so it finishes.
func TestSavingChild(t *testing.T) {
	s := start(t, withModule("--rdb-key-save-delay", "200"))
	st := s.fresh(t)
	var load [][]string
	for i := range 2000 {
		load = append(load, good.Enqueue(fmt.Sprintf("JOB%05d", i), "x"))
	}
	st.Pipeline(load)
	st.Must("BGSAVE")
	pid := s.Pid()
	children := func() []string {
		list, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
		return strings.Fields(string(list))
	}
	waitFor(t, "the child", func() bool { return len(children()) == 1 })
	tasks, err := os.ReadDir("/proc/" + children()[0] + "/task")
	require.NoError(t, err)
	require.Len(t, tasks, 1)
	require.Equal(t, claimed("JOB00000", "x", 1), st.Do(good.Claim(1000)...), "the parent works on")
	st.Must("CONFIG SET rdb-key-save-delay 0")
	waitFor(t, "the save", func() bool { return st.Info("rdb_bgsave_in_progress") == "0" })
	require.Equal(t, "ok", st.Info("rdb_last_bgsave_status"))
}

// As a daemon the server forks before it loads its modules, so Go runs in the process that stays.
func TestDaemon(t *testing.T) {
	dir, err := os.MkdirTemp("", "emq")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket, pidFile := filepath.Join(dir, "s"), filepath.Join(dir, "pid")
	out, err := exec.Command(os.Getenv("VALKEY_SERVER"), "--port", "0", "--unixsocket", socket, "--dir", dir, "--pidfile", pidFile,
		"--logfile", filepath.Join(dir, "log"), "--daemonize", "yes", "--save", "", "--loadmodule", os.Getenv("EMQ_MODULE")).CombinedOutput()
	require.NoError(t, err, "%s", out)

	var pid int
	waitFor(t, "the daemon", func() bool {
		text, err := os.ReadFile(pidFile)
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil
	})
	ended := false
	t.Cleanup(func() {
		if !ended {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	waitFor(t, "the socket", func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	c := wire.Dial(t, socket)
	st := &fixture{Conn: c, t: t, tokens: tokens{}}
	st.life("q", "JOB1", "x")
	st.Must("SET kept x")
	require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
	log := func() string {
		text, err := os.ReadFile(filepath.Join(dir, "log"))
		require.NoError(t, err)
		return string(text)
	}
	waitFor(t, "the daemon's end", func() bool { return strings.Contains(log(), "bye bye") })
	ended = true
	require.NotContains(t, log(), "BUG REPORT")
}

// A server on which one of these commands is renamed is refused, because it could not read its append-only file, or its
// replicas would not understand it. The README's limits list exactly these names.
func TestRenamedCommands(t *testing.T) {
	page, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	limit := regexp.MustCompile("(?s)`rename-command`\\*\\* of (.*?):").FindSubmatch(page)
	require.NotNil(t, limit, "the README names the commands")
	names := regexp.MustCompile(`[A-Z]{3,}`).FindAllString(string(limit[1]), -1)
	for _, name := range names {
		for _, to := range []string{"MY" + name, ""} {
			logged(t, refusedAtStart(t, withModule("--rename-command", name, to)), "<emq>.*not loaded.* "+name+" ")
		}
	}
	open(t, "--rename-command", "FLUSHDB", "XFLUSHDB", "--rename-command", "GETSET", "XGETSET").life("q", "JOB1", "x")

	s := start(t, withModule("--appendonly", "yes", "--aof-use-rdb-preamble", "no", "--lazyfree-lazy-expire", "no"))
	st := s.bare(t)
	st.Must("DEBUG SET-ACTIVE-EXPIRE 0")
	st.life("q", "JOB1", "x")
	for _, lazy := range []string{"no", "yes"} { // a row that the verb finds expired
		st.Must("CONFIG SET lazyfree-lazy-expire " + lazy)
		require.Equal(t, integer(1), st.Do(good.Enqueue("JOB2", "x")...))
		st.Must("PEXPIRE "+good.Row("JOB2")+" 1", "ZREM "+good.Pending()+" JOB2", "DEBUG SLEEP 0.01")
		require.Equal(t, integer(1), st.Do(good.Enqueue("JOB2", "x")...))
		st.Must("DEL "+good.Row("JOB2"), "DEL "+good.Pending())
	}
	st.life("q", "JOB1", "x")
	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB3", "x")...))
	written := map[string]bool{}
	note := func() {
		for _, args := range append(s.Appended("base"), s.Appended("incr")...) {
			if name := strings.ToUpper(args[0]); name != "PEXPIREAT" && name != "FLUSHALL" { // the test's own
				written[name] = true
			}
		}
	}
	note()
	st.Must("BGREWRITEAOF")
	waitFor(t, "the rewrite", func() bool {
		return st.Info("aof_rewrite_in_progress") == "0" && st.Info("aof_rewrite_scheduled") == "0"
	})
	note()
	require.ElementsMatch(t, names, slices.Collect(maps.Keys(written)))
}

// A SHUTDOWN logs no warning, with the pump on or off; an aborted one changes nothing.
func TestOrderlyStop(t *testing.T) {
	for name, o := range map[string]valkey.Options{"the pump on": withPump("--emq.pump-interval-ms", "10"), "the pump off": withModule()} {
		t.Run(name, func(t *testing.T) {
			o.Args = append(o.Args, "--save", "3600 1")
			s := start(t, o)
			st := s.attachPlain(t)
			obstacle := filepath.Join(s.Dir, "dump.rdb")
			require.NoError(t, os.RemoveAll(obstacle))
			require.NoError(t, os.MkdirAll(filepath.Join(obstacle, "full"), 0o755))
			st.refusal("ERR ", "SHUTDOWN")
			st.refusal("ERR ", "MODULE", "UNLOAD", "emq")
			require.Equal(t, integer(1), st.Do(good.ScheduleAt("JOB1", "x", 1)...))
			if !o.Still {
				waitFor(t, "the job that is due", func() bool { return len(st.Members(good.Pending())) == 1 })
			}
			require.NoError(t, os.RemoveAll(obstacle))
			from := len(s.Log())
			require.NoError(t, s.Stop())
			end := s.Log()[from:]
			logged(t, end, "bye bye")
			require.NotRegexp(t, `(?i)unload (blocked|refused|canceled)|failed|<emq>`, end)
		})
	}
}

// In a forked child that runs commands, as the Lua debugger's does, the verbs are refused: Go would hang there.
func TestForkedChild(t *testing.T) {
	st := start(t, withModule()).fresh(t)
	require.Equal(t, integer(1), st.Do(good.Enqueue("JOB1", "x")...))
	c, err := net.Dial("unix", st.s.Socket)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(wire.Patience)))
	r := bufio.NewReader(c)
	send := func(args ...string) {
		_, err := io.WriteString(c, wire.Encode(args))
		require.NoError(t, err)
	}
	send("SCRIPT", "DEBUG", "YES")
	reply, err := wire.Read(r)
	require.NoError(t, err)
	require.Equal(t, "+OK\r\n", reply)
	script := "local r = redis.pcall('" + strings.Join(good.Claim(1000), "', '") + "') return r.err or 'it ran'"
	send("EVAL", script, "0")
	_, err = wire.Read(r) // the script is at its first line
	require.NoError(t, err)
	send("continue")
	said, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Contains(t, string(said), "its verbs do not run in a forked child")
	require.Equal(t, claimed("JOB1", "x", 1), st.Do(good.Claim(1000)...), "the parent")
	require.Equal(t, integer(1), st.Do(good.Complete("JOB1", "1")...))
}
