package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
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

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// pumped is a desk with a server whose pump is on.
func pumped(t *testing.T, args ...string) *desk {
	t.Helper()
	d := sit(t, args...)
	d.c.Must("CONFIG SET emq.pump-interval-ms 10")
	return d
}

// running is a run of the command that is watched while it runs.
type running struct {
	t        *testing.T
	cmd      *exec.Cmd
	in       io.WriteCloser
	out, err buffer
	ended    chan error
}

func (d *desk) begin(t *testing.T, args ...string) *running {
	t.Helper()
	r := &running{t: t, cmd: d.command(args...), ended: make(chan error, 1)}
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.err
	var err error
	r.in, err = r.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, r.cmd.Start())
	go func() { r.ended <- r.cmd.Wait() }()
	t.Cleanup(func() { _ = r.cmd.Process.Kill() })
	return r
}

func (r *running) signal(s syscall.Signal) {
	r.t.Helper()
	require.NoError(r.t, r.cmd.Process.Signal(s))
}

func (r *running) code() int {
	r.t.Helper()
	select {
	case err := <-r.ended:
		if r.cmd.ProcessState.ExitCode() < 0 {
			return -1
		}
		return code(r.t, err)
	case <-time.After(2 * time.Minute):
		require.Fail(r.t, "the command does not end", "%s", r.err.String())
		return 0
	}
}

// sizes are the numbers of a queue's jobs in each state.
func (d *desk) sizes(q wire.Queue) map[string]int64 {
	d.t.Helper()
	sizes := map[string]int64{}
	for state := range wire.SetOf {
		if n := wire.Value(d.c.Do("ZCARD", q.Set(state))).(int64); n > 0 {
			sizes[state] = n
		}
	}
	return sizes
}

func (d *desk) sound() {
	d.t.Helper()
	require.Empty(d.t, d.p.Keyspace().Check(wire.Wire6))
}

// payloads are the payloads of the pending jobs, in the order in which they would be claimed.
func (d *desk) payloads(q wire.Queue) (list []string) {
	d.t.Helper()
	k := d.p.Keyspace()
	set, _ := k[q.Pending()].(store.ZSet)
	var ids []string
	for id := range set {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		list = append(list, k[q.Row(id)].(store.Hash)["payload"])
	}
	return list
}

func TestEnqueueOne(t *testing.T) {
	d := sit(t)
	id := strings.TrimSpace(d.ok("enqueue", "mails", "to: ann"))
	require.Equal(t, []string{"to: ann"}, d.payloads(mails))
	require.Equal(t, told{0, id + "\n", id + " is there already\n"}, d.emq("enqueue", "mails", "again", "--id", id))
	require.Equal(t, false, d.records("enqueue", "mails", "again", "--id", id)[0]["enqueued"])
	d.ok("enqueue", "later", "x", "--in", "3d")
	d.ok("enqueue", "later", "x", "--at", "4102444800000", "--id", "JOB00000000001")
	d.ok("enqueue", "later", "x", "--at", "2100-01-01T00:00:00Z", "--id", "JOB00000000002")
	require.Equal(t, map[string]int64{"scheduled": 3}, d.sizes("later"))
	for _, id := range []string{"JOB00000000001", "JOB00000000002"} {
		require.Equal(t, wire.Bulk("4102444800000"), d.c.Do("ZSCORE", wire.Queue("later").Schedule(), id))
	}
	digest := d.c.Do("DEBUG", "DIGEST")
	for _, args := range [][]string{{"q", "x", "--in", "-1s"}, {"q", "x", "--at", "soon"}, {"q", "x", "--at", "2h"}, {"q", "x", "--id", "JOBx"}, {"q", "x", "--raw"},
		{"q", "--id", "JOB00000000003"}, {"q", "x", "--in", "1s", "--at", "2100-01-01"}} {
		r := d.emq(append([]string{"enqueue"}, args...)...)
		require.Equal(t, exitUsage, r.code, "%q: %s", args, r.err)
	}
	require.Equal(t, exitUsage, d.emq("enqueue", "{q}", "x").code)
	require.Equal(t, digest, d.c.Do("DEBUG", "DIGEST"))
	d.sound()
}

// Lines of all kinds are enqueued in their order, with the payloads that the help says.
func TestEnqueueLines(t *testing.T) {
	d := sit(t)
	r := d.fed(`{"payload": {"to": "ann",  "n": 12345678901234567890}}
{"payload":"text \u00e9"}
{"payload":[1, 2]}
{"payload":null}
{"payload_base64":"/wA="}
{"payload":"with an id","id":"JOB00000000001"}
{"payload":"again","id":"JOB00000000001"}
{"payload":"later","delay_ms":3600000}
{"payload":"dated","due":"2100-01-01T00:00:00Z"}
{"payload":"dated too","due":4102444800000}`, "enqueue", "mails", "--json")
	require.Equal(t, told{0, `{"queue":"mails","enqueued":9,"there":1}` + "\n", ""}, r)
	records(t, r.out)
	require.Equal(t, []string{"with an id", `{"to":"ann","n":12345678901234567890}`, "text é", "[1,2]", "null", "\xff\x00"}, d.payloads(mails))
	require.Equal(t, int64(3), d.sizes(mails)["scheduled"])
	require.Equal(t, wire.Integer(2), d.c.Do("ZCOUNT", mails.Schedule(), "4102444800000", "4102444800000"))

	require.Equal(t, told{0, "", "3 jobs enqueued\n"}, d.fed("{\"a\":1}\n\nlast", "enqueue", "raw", "--raw"))
	require.Equal(t, []string{`{"a":1}`, "", "last"}, d.payloads("raw"))
	require.Equal(t, told{0, "", "2 jobs enqueued\n"}, d.fed("a\nb\x00c\x00", "enqueue", "null", "--null"))
	require.Equal(t, []string{"a\nb", "c"}, d.payloads("null"))
	require.Equal(t, told{0, "", "0 jobs enqueued\n"}, d.fed("", "enqueue", "none"))
	require.Equal(t, told{0, "", "1 job enqueued\n"}, d.fed("x", "enqueue", "in", "--raw", "--in", "1h"))
	require.Equal(t, map[string]int64{"scheduled": 1}, d.sizes("in"))
	d.sound()
}

// A wrong line is named; those before it are enqueued, and those after it are not.
func TestEnqueueWrongLine(t *testing.T) {
	d := sit(t)
	for i, tt := range []struct{ line, want string }{
		{`{"payload":1,"dely_ms":5}`, `unknown field "dely_ms"`},
		{`{"payload":1,"delay_ms":5,"due":"2100-01-01"}`, "both delay_ms and due"},
		{`{"payload":1,"delay_ms":-5}`, "delay_ms can't be -5"},
		{`{"payload":1,"due":"soon"}`, "is no time"},
		{`{"id":"JOB00000000001"}`, "there is no payload"},
		{`{"payload":1,"payload_base64":"AA=="}`, "both payload and payload_base64"},
		{`{"payload_base64":"!"}`, "payload_base64: illegal base64"},
		{`{"payload":1,"id":"x"}`, "is no job id"},
		{`{"payload":1} {}`, "something behind"},
		{`{"payload":`, "not complete"},
		{`{"payload":1`, "not complete"},
		{`{"payload":1,`, "not complete"},
		{`{"payload":1,"payload":2}`, `"payload" is there twice, or written otherwise`},
		{`{"payload":1,"Id":"JOB00000000001"}`, `"Id" is there twice, or written otherwise`},
		{`{"payload":"\ud83d"}`, "half a letter"},
		{`{"payload":"\\\\\ude00\ud83d"}`, "half a letter"},
		{`{"payload":1,"delay_ms":1.5}`, "delay_ms is a JSON number 1.5, which it can't be"},
		{`{"payload":1,"due":4503599627370496}`, "beyond the last time"},
		{`[1]`, "no JSON object"},
		{`null`, "no JSON object"},
		{"{\"payload\":\"\xff\"}", "no UTF-8"},
		{`"text"`, "no JSON object"},
	} {
		q := wire.Queue(fmt.Sprint("q", i))
		r := d.fed("{\"payload\":1}\n{\"payload\":2}\n"+tt.line+"\n{\"payload\":4}\n", "enqueue", string(q))
		require.Equal(t, exitRefused, r.code, tt.line)
		require.Contains(t, r.err, "emq: line 3: ")
		require.Contains(t, r.err, tt.want)
		require.Contains(t, r.err, "2 lines until then, of which 2 enqueued and 0 there already")
		require.Equal(t, []string{"1", "2"}, d.payloads(q), tt.line)
	}
	// A byte order mark is ignored; blank lines are ignored but counted.
	r := d.fed("\uFEFF{\"payload\":\"\\ud83d\\ude00\\\\ud83d\"}\r\n\n \r\n{\"payload\":{\"kept\":\"\\ud83d\"}}\nwrong\n", "enqueue", "blank")
	require.Contains(t, r.err, "emq: line 5: invalid character 'w' looking for beginning of value: 2 lines until then")
	require.Equal(t, []string{"\U0001F600\\ud83d", `{"kept":"\ud83d"}`}, d.payloads("blank"))

	d.c.Must("CONFIG SET emq.max-payload-bytes 3")
	r = d.fed("12\n1234\n1\n", "enqueue", "long", "--raw")
	require.Equal(t, exitRefused, r.code)
	require.Contains(t, r.err, "payload has 4 bytes")
	require.Empty(t, d.sizes("long"), "the call was refused as a whole")
}

// Many lines take many calls, in their order, and no job is missing. After an interrupt the command reports its progress.
func TestEnqueueMany(t *testing.T) {
	const n = 200_000
	d := sit(t)
	r := d.begin(t, "enqueue", "mails")
	go func() {
		var b bytes.Buffer
		for i := range n {
			fmt.Fprintf(&b, "{\"payload\":{\"n\":%d}}\n", i)
		}
		_, _ = io.Copy(r.in, &b)
		_ = r.in.Close()
	}()
	require.Equal(t, 0, r.code(), r.err.String())
	require.Equal(t, "200,000 jobs enqueued\n", r.err.String())
	require.Equal(t, map[string]int64{"pending": n}, d.sizes(mails))
	claimed := wire.Value(d.c.Do(mails.Mclaim(1000, 1000)...)).([]any)
	for i, job := range claimed {
		require.Equal(t, fmt.Sprintf(`{"n":%d}`, i), job.([]any)[1])
	}

	r = d.begin(t, "enqueue", "slow", "--raw")
	_, err := io.WriteString(r.in, "a\nb\nc\n")
	require.NoError(t, err)
	store.WaitFor(t, "what is not held back", func() bool { return d.sizes("slow")["pending"] == 3 })
	r.signal(syscall.SIGINT)
	require.Equal(t, exitInterrupted, r.code())
	require.Equal(t, "emq: interrupted: 3 lines until then, of which 3 enqueued and 0 there already\n", r.err.String())
}

// script is a shell script as the command of `work`.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "job")
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755))
	return path
}

// alive reports whether a process exists and is not a zombie.
func alive(pid string) bool {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(text), ") ")
	return state != "" && state[0] != 'Z'
}

// pids waits until a file has n lines, each a process id.
func pids(t *testing.T, path string, n int) (list []string) {
	t.Helper()
	store.WaitFor(t, "the commands to run", func() bool {
		text, _ := os.ReadFile(path)
		list = strings.Fields(string(text))
		return len(list) >= n && strings.HasSuffix(string(text), "\n")
	})
	return list
}

// The exit code of a job's command decides what becomes of the job; the environment tells the command about the job.
func TestWorkVerdicts(t *testing.T) {
	d := pumped(t)
	long := strings.Repeat("é", 1000)
	job := script(t, `read -r what
echo "$EMQ_QUEUE $EMQ_TOKEN $EMQ_FAILURES ${EMQ_ID%"${EMQ_ID#JOB}"} $what"
case $what in
done) exit 0 ;;
later) echo 'not now' >&2; exit 75 ;;
dead) echo 'no such address' >&2; exit 65 ;;
failed) printf 'beginning %s end.' `+long+` >&2; exit 1 ;;
mute) exit 3 ;;
bytes) printf 'a\377b' >&2; exit 1 ;;
killed) kill -KILL $$ ;;
esac`)
	r := d.fed("done\nlater\ndead\nfailed\nmute\nbytes\nkilled\n", "enqueue", "mails", "--raw")
	require.Equal(t, 0, r.code)
	w := d.begin(t, "work", "mails", "-c", "3", "--", job)
	store.WaitFor(t, "all to be settled", func() bool {
		n := d.sizes(mails)
		return n["scheduled"] == 5 && n["dead"] == 1 && n["pending"]+n["active"] == 0
	})
	w.signal(syscall.SIGTERM)
	require.Equal(t, 0, w.code(), w.err.String())
	lines := strings.Split(strings.TrimSpace(w.out.String()), "\n")
	slices.Sort(lines)
	require.Equal(t, []string{"mails 1 0 JOB bytes", "mails 1 0 JOB dead", "mails 1 0 JOB done", "mails 1 0 JOB failed", "mails 1 0 JOB killed", "mails 1 0 JOB later", "mails 1 0 JOB mute"}, lines)
	k := d.p.Keyspace()
	found := map[string]store.Hash{}
	for key, row := range k {
		if strings.HasPrefix(key, mails.RowPrefix()) {
			found[strings.TrimSpace(row.(store.Hash)["payload"])] = row.(store.Hash)
		}
	}
	require.Len(t, found, 6)
	require.Equal(t, "dead", found["dead"]["state"])
	require.Equal(t, "no such address", found["dead"]["last_error"])
	require.NotContains(t, found["later"], "failures")
	require.Equal(t, "the command ended with exit status 3", found["mute"]["last_error"])
	require.Equal(t, "the command ended with signal: killed", found["killed"]["last_error"])
	require.Equal(t, "a\uFFFDb", found["bytes"]["last_error"])
	require.Equal(t, strings.Repeat("é", 509)+" end.", found["failed"]["last_error"])
	for _, name := range []string{"failed", "mute", "killed", "bytes"} {
		require.Equal(t, "1", found[name]["failures"], name)
	}
	require.Contains(t, w.err.String(), "no such address", "what they say is passed on")

	for _, args := range [][]string{{"work", "mails"}, {"work", "--", "true"}, {"work", "mails", "--"}, {"work", "mails", "--", "no-such-command"},
		{"work", "mails", "-c", "0", "--", "true"}, {"work", "mails", "--grace", "-1s", "--", "true"}} {
		require.Equal(t, exitUsage, d.emq(args...).code, args)
	}
	d.sound()
}

// With --until-empty, for cron, the command ends by itself when it has nothing left to do, regardless of jobs that are
// due later or in others' hands.
func TestWorkUntilEmpty(t *testing.T) {
	d := pumped(t)
	job := script(t, `read -r what; echo "$what"; case $what in later) exit 75 ;; long) sleep 1 ;; more) `+d.command().Path+` enqueue mails last >&2 ;; esac`)
	d.must(mails.Enqueue("JOB1", "another's"), mails.Claim(1<<40), mails.Enqueue("JOB2", "b"))
	require.Equal(t, 0, d.fed("a\nlater\nmore\nlong\n", "enqueue", "mails", "--raw").code)
	r := d.emq("work", "mails", "empty", "--until-empty", "--quiet", "--later", "1h", "--grace", "0s", "-c", "9", "--", job) // without a grace period for running commands
	require.Equal(t, 0, r.code, r.err)
	require.NotContains(t, r.err, "level=INFO")
	require.ElementsMatch(t, strings.Fields("a later more long last b"), strings.Fields(r.out))
	require.Equal(t, map[string]int64{"scheduled": 1, "active": 1}, d.sizes(mails))

	d.must(mails.Enqueue("JOB3", "c"), mails.Pause(0))
	require.Equal(t, told{0, "", ""}, d.emq("work", "mails", "--until-empty", "--quiet", "--", job))
	require.Equal(t, int64(1), d.sizes(mails)["pending"])
	d.c.Must("ACL SETUSER few on >secret +@emq -emq.stats +ping +hello +client ~emq:*")
	r = d.with("EMQ_URL=valkey://few@"+d.p.Addr(), "EMQ_PASSWORD=secret").emq("work", "mails", "--until-empty", "--", job)
	require.Equal(t, exitRefused, r.code)
	require.Contains(t, r.err, "emq: --until-empty: the server refused: NOPERM")
	d.sound()
}

// SIGTERM: running commands may end, nothing more is claimed; after the grace period they are killed, and their jobs
// given back.
func TestWorkStops(t *testing.T) {
	d := pumped(t)
	dir := t.TempDir()
	job := script(t, `echo $$ >>`+dir+`/pids; while [ ! -e `+dir+`/go ]; do sleep 0.02; done`)
	waiting := func(n string) {
		t.Helper()
		store.WaitFor(t, n+" claims that wait", func() bool { return strings.Contains(d.c.Do("INFO", "emq"), "emq_waiting_clients:"+n+"\r") })
	}
	d.ok("enqueue", "mails", "a")
	w := d.begin(t, "work", "mails", "-c", "2", "--", job)
	pids(t, dir+"/pids", 1)
	waiting("1")
	w.signal(syscall.SIGTERM)
	waiting("0")
	d.ok("enqueue", "mails", "b")
	require.NoError(t, os.WriteFile(dir+"/go", nil, 0o644))
	require.Equal(t, 0, w.code(), w.err.String())
	require.Equal(t, []string{"b"}, d.payloads(mails), "one is done, and one was never claimed")

	require.NoError(t, os.Remove(dir+"/go"))
	w = d.begin(t, "work", "mails", "--grace", "10ms", "--", job)
	child := pids(t, dir+"/pids", 2)[1]
	w.signal(syscall.SIGTERM)
	require.Equal(t, 0, w.code(), w.err.String())
	require.False(t, alive(child))
	require.Equal(t, map[string]int64{"pending": 1}, d.sizes(mails))

	w = d.begin(t, "work", "mails", "-c", "2", "--grace", "1h", "--", job)
	child = pids(t, dir+"/pids", 3)[2]
	waiting("1")
	w.signal(syscall.SIGTERM)
	waiting("0")
	store.WaitFor(t, "a second signal to count, which may be the first once more", func() bool { _ = w.cmd.Process.Signal(syscall.SIGTERM); return !alive(child) })
	require.Equal(t, exitInterrupted, w.code(), w.err.String())
	require.Equal(t, map[string]int64{"pending": 1}, d.sizes(mails))
	for key, row := range d.p.Keyspace() {
		if strings.HasPrefix(key, mails.RowPrefix()) {
			require.NotContains(t, row, "failures")
			require.NotContains(t, row, "stalled")
			require.Equal(t, "2", row.(store.Hash)["attempts"])
		}
	}
	// timeout(1) sends each signal to the program and to its group: that does not count as a second signal, and kills
	// no command.
	require.NoError(t, os.WriteFile(dir+"/go", nil, 0o644))
	w = d.begin(t, "work", "mails", "--", job)
	store.WaitFor(t, "the job to be done", func() bool { return len(d.sizes(mails)) == 0 })
	w.signal(syscall.SIGINT)
	w.signal(syscall.SIGTERM)
	require.Equal(t, 0, w.code(), w.err.String())
	d.sound()
}

// A command that can't be started leaves the queue unchanged, and output that can't be written does not affect the job.
func TestWorkTroubles(t *testing.T) {
	d := pumped(t)
	require.Equal(t, 0, d.fed("a\nb\nc\n", "enqueue", "mails", "--raw").code)
	nobody := script(t, "")
	require.NoError(t, os.WriteFile(nobody, []byte("#!/nobody\n"), 0o755))
	w := d.begin(t, "work", "mails", "-c", "2", "--", nobody)
	store.WaitFor(t, "the trouble to be told", func() bool { return strings.Contains(w.err.String(), "the command can't be started") })
	require.Equal(t, map[string]int64{"pending": 3}, d.sizes(mails))
	require.Equal(t, exitRefused, w.code(), w.err.String())

	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	cmd := d.command("work", "mails", "--", script(t, "set -e; echo one >&2; sleep 0.1; echo two >&2"))
	cmd.Stderr = full
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	store.WaitFor(t, "the jobs to leave the queue", func() bool { return d.sizes(mails)["pending"]+d.sizes(mails)["active"] == 0 })
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.NoError(t, cmd.Wait())
	require.Empty(t, d.sizes(mails))

	d.must(wire.Queue("odd").Menqueue("JOB\x00", "x", "JOB"+strings.Repeat("x", 200<<10), "y", "JOBz", "z"))
	w = d.begin(t, "work", "odd", "--", "true")
	store.WaitFor(t, "the jobs to be settled", func() bool { return d.sizes("odd")["dead"] == 2 && len(d.sizes("odd")) == 1 })
	w.signal(syscall.SIGTERM)
	require.Equal(t, 0, w.code(), w.err.String())
	d.sound()
}

// When the program is killed, so are its commands, and another worker gets the job.
func TestWorkKilled(t *testing.T) {
	d := pumped(t)
	dir := t.TempDir()
	job := script(t, `echo $$ >>`+dir+`/pids; [ "$EMQ_TOKEN" = 2 ] || exec sleep 1000`)
	d.ok("enqueue", "mails", "x")
	first := d.begin(t, "work", "mails", "--lease", "1s", "--", job)
	child := pids(t, dir+"/pids", 1)[0]
	second := d.begin(t, "work", "mails", "--lease", "1s", "--", job)
	require.True(t, alive(child))
	first.signal(syscall.SIGKILL)
	require.Equal(t, -1, first.code())
	store.WaitFor(t, "the command to be killed", func() bool { return !alive(child) })
	store.WaitFor(t, "the job to be done", func() bool { return len(d.sizes(mails)) == 0 })
	require.Len(t, pids(t, dir+"/pids", 2), 2)
	second.signal(syscall.SIGINT)
	require.Equal(t, 0, second.code(), second.err.String())
	require.Equal(t, wire.Bulk("1"), d.c.Do("HGET", mails.Completed(), "count"))
}

// A command whose lease is lost, or whose time is up, gets SIGTERM with all that it has started, and later SIGKILL.
func TestWorkEndsCommands(t *testing.T) {
	d := pumped(t)
	dir := t.TempDir()
	polite := script(t, `trap 'echo asked >`+dir+`/asked; exit 1' TERM; echo $$ >>`+dir+`/pids; while :; do sleep 0.02; done`)
	id := strings.TrimSpace(d.ok("enqueue", "mails", "x"))
	w := d.begin(t, "work", "mails", "--lease", "300ms", "--", polite)
	pids(t, dir+"/pids", 1)
	require.Equal(t, wire.Array(wire.Integer(1)), d.c.Do(mails.Remove("any", id)...))
	store.WaitFor(t, "the command to be asked", func() bool { _, err := os.Stat(dir + "/asked"); return err == nil })
	w.signal(syscall.SIGTERM)
	require.Equal(t, 0, w.code(), w.err.String())
	require.Empty(t, d.sizes(mails))

	deaf := script(t, `trap '' TERM; sleep 1000 & echo $! >>`+dir+`/pids; wait; while :; do sleep 1; done`)
	d.ok("enqueue", "mails", "y")
	w = d.begin(t, "work", "mails", "--job-timeout", "50ms", "--max-failures", "1", "--", deaf)
	grandchild := pids(t, dir+"/pids", 2)[1]
	store.WaitFor(t, "the job to be dead", func() bool { return d.sizes(mails)["dead"] == 1 })
	require.False(t, alive(grandchild), "what it started is in its group")
	row := d.p.Keyspace()
	for key, h := range row {
		if strings.HasPrefix(key, mails.RowPrefix()) {
			require.Contains(t, h.(store.Hash)["last_error"], "took too long")
		}
	}
	w.signal(syscall.SIGTERM)
	require.Equal(t, 0, w.code(), w.err.String())

	// A command that was asked to end does not outlive the program, even if that does not wait for it.
	hard := script(t, `trap 'echo asked >`+dir+`/again' TERM; sleep 1000 & echo $! >>`+dir+`/pids; while :; do wait; done`)
	d.ok("enqueue", "others", "z")
	w = d.begin(t, "work", "others", "--job-timeout", "50ms", "--grace", "10ms", "--", hard)
	grandchild = pids(t, dir+"/pids", 3)[2]
	store.WaitFor(t, "the command to be asked", func() bool { _, err := os.Stat(dir + "/again"); return err == nil })
	w.signal(syscall.SIGTERM)
	require.Equal(t, 0, w.code(), w.err.String())
	store.WaitFor(t, "what it started to be killed", func() bool { return !alive(grandchild) })
	require.Equal(t, map[string]int64{"pending": 1}, d.sizes("others"))
}

// stock fills a queue with jobs of every state and kind.
func (d *desk) stock(q wire.Queue, n int) {
	d.t.Helper()
	for from := 0; from < n; from += 500 {
		var now, later []string
		for i := from; i < min(from+500, n); i++ {
			now = append(now, made(time.Hour, n-i), fmt.Sprintf("payload %d \xff", i))
			later = append(later, made(2*time.Hour, n-i), strconv.FormatInt(4102444800000+rand.Int64N(1000), 10), fmt.Sprintf(`{"n":%d}`, i))
		}
		d.must(q.Menqueue(now...), q.Mschedule("at", later...))
	}
	var dead, held []string
	for i := range n {
		dead = append(dead, made(3*time.Hour, n-i))
	}
	d.bury(q, dead, func(i int) string { return fmt.Sprintf("no route to host %d", i) })
	for i := range 10 {
		held = append(held, made(4*time.Hour, 10-i), "held")
	}
	d.must(q.Menqueue(held...), q.Mclaim(1<<40, 10))
	d.must([]string{"HSET", q.Row(dead[0]), "progress", "42", "odd\xff", "\x00"})
}

// content is the content of a queue's jobs, by id, with their scores, without holders.
func (d *desk) content(q wire.Queue) map[string]string {
	d.t.Helper()
	k := d.p.Keyspace()
	all := map[string]string{}
	for key, row := range k {
		id, ok := strings.CutPrefix(key, q.RowPrefix())
		if !ok {
			continue
		}
		h := row.(store.Hash)
		delete(h, "lease_epoch")
		if h["state"] == "active" {
			h["state"] = "pending"
		}
		set, _ := k[q.Set(h["state"])].(store.ZSet)
		all[id] = fmt.Sprintf("%v %q", set[id], h)
	}
	return all
}

// Jobs that are exported and imported elsewhere are the same there, and a second import changes nothing.
func TestExportImport(t *testing.T) {
	d, e := sit(t), sit(t)
	d.stock("odd \xff", 120)
	d.must(wire.Queue("z").Enqueue("JOBodd\xff", "z"))
	r := d.emq("export", "--all")
	require.Equal(t, 0, r.code, r.err)
	require.Contains(t, r.err, "371 jobs exported\n")
	records(t, r.out)
	imported := e.fed(r.out, "import")
	require.Equal(t, told{0, "", "371 jobs imported\n"}, imported)
	require.Equal(t, d.content("odd \xff"), e.content("odd \xff"))
	require.Equal(t, d.content("z"), e.content("z"))
	e.sound()
	digest := e.c.Do("DEBUG", "DIGEST")
	again := e.fed(r.out, "import", "--json")
	require.Equal(t, told{0, `{"imported":0,"there":371,"bad":0}` + "\n", ""}, again)
	records(t, again.out)
	require.Equal(t, digest, e.c.Do("DEBUG", "DIGEST"))
	require.Equal(t, told{0, "", "371 jobs imported\n"}, e.fed(r.out, "import", "--queue", "one"))

	// Entries that are not jobs do not stop the export; a queue that can't be read is named.
	d.must(wire.Queue("broken").Menqueue("JOB1", "x", "JOB2", "y", "JOB3", "z"))
	d.c.Must("SET emq:{broken}:job:JOB1 x", "DEL emq:{broken}:job:JOB2")
	r = d.emq("export", "broken")
	require.Equal(t, 0, r.code)
	require.Equal(t, "JOB3", records(t, r.out)[0]["id"])
	require.Contains(t, r.err, "1 job exported\n")
	require.Contains(t, r.err, "2 ids left out")
	d.c.Must("SET emq:{broken}:dead x")
	r = d.emq("export", "--all")
	require.Equal(t, exitRefused, r.code)
	require.Regexp(t, `(?m)^emq: broken: the server refused: WRONGTYPE .*: 1 job exported until then\nemq export … --after \S+\n\z`, r.err)

	require.Equal(t, exitAbsent, d.emq("export", "nobody").code)
	require.Equal(t, exitUsage, d.emq("export").code)
	require.Equal(t, exitUsage, d.emq("export", "z", "--after", "x").code)
	for _, tt := range []struct{ line, want string }{
		{`{"queue":"q","id":"X","state":"pending","attempts":0,"payload":"x"}`, "does not begin with JOB"},
		{`{"queue":"q","id":"JOB1","state":"lost","attempts":0,"payload":"x"}`, `the state "lost"`},
		{`{"queue":"q","id":"JOB1","state":"pending","attempts":0}`, "no payload"},
		{`{"queue":"q","id":"JOB1","state":"pending","attempts":1.5,"payload":"x"}`, `"1.5" for its attempts`},
		{`{"queue":"q","id":"JOB1","state":"scheduled","attempts":0,"payload":"x"}`, "no due_at_ms"},
		{`{"queue":"q","id":"JOB1","state":"pending","attempts":0,"payload":"x","whatever":1}`, "unknown field"},
		{`{"id":"JOB1","state":"pending","attempts":0,"payload":"x"}`, "can't be a queue's name"},
	} {
		r := e.fed(tt.line+"\n", "import")
		require.Equal(t, exitRefused, r.code, tt.line)
		require.Contains(t, r.err, tt.want)
		require.Contains(t, r.err, "line 1: ")
		require.Contains(t, r.err, "--skip-bad leaves such lines out\n")
		require.Empty(t, e.sizes("q"))
	}
	// With --skip-bad, bad lines are named and skipped, and the other lines are imported.
	good := `{"queue":"q","id":"JOB%d","state":"pending","attempts":0,"payload":"x"}` + "\n"
	lines := fmt.Sprintf(good, 1) + "\n" + `{"queue":"q","id":"JOB2","state":"pending","attempts":"x","payload":"x"}` + "\nnix\n" +
		`{"queue":"q","id":"JOB2","state":"pending","payload":"x","fields":{"attempts":"x"}}` + "\n" + fmt.Sprintf(good, 3)
	r = e.fed(lines, "import", "--skip-bad")
	require.Equal(t, exitRefused, r.code)
	require.Equal(t, "line 3: a number is a JSON string, which it can't be: left out\nline 4: invalid character 'i' in literal null (expecting 'u'): left out\n"+
		"line 5: JOB2 has \"x\" for its attempts, which is no number of claims: left out\n2 jobs imported\nemq: 3 lines left out: no jobs\n", r.err)
	require.Equal(t, map[string]int64{"pending": 2}, e.sizes("q"))
	r = e.fed(strings.Repeat("nix\n", 1000)+fmt.Sprintf(good, 4)+`{"queue":"q","id":"JOB5","state":"pending","attempts":1.5,"payload":"x"}`, "import", "--skip-bad", "--json")
	require.Equal(t, exitRefused, r.code)
	require.Equal(t, `{"imported":1,"there":0,"bad":1001}`+"\n", r.out)
	require.Equal(t, 22, strings.Count(r.err, "\n"))
	require.Contains(t, r.err, "… and 981 lines more left out\nemq: 1,001 lines left out: no jobs\n")
	require.Equal(t, map[string]int64{"pending": 3}, e.sizes("q"))
}

// An interrupted export says where to continue, and the two parts together have every job.
func TestExportGoesOn(t *testing.T) {
	d := sit(t)
	d.stock(mails, 3000)
	cmd := d.command("export", "mails")
	var errs buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	begin := make([]byte, 100_000)
	_, err = io.ReadFull(out, begin) // now it is in the middle, and waits for a reader
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Equal(t, exitInterrupted, code(t, cmd.Wait()))
	require.Contains(t, errs.String(), "interrupted: ")
	_, place, ok := strings.Cut(errs.String(), "--after ")
	require.True(t, ok, errs.String())
	first := string(begin) + string(rest)
	require.True(t, strings.HasSuffix(first, "\n"))

	r := d.emq("export", "mails", "--after", strings.TrimSpace(place)) // the place from the last line
	require.Equal(t, 0, r.code, r.err)
	ids := map[any]int{}
	for _, job := range records(t, first+r.out) {
		ids[job["id"]]++
	}
	require.Len(t, ids, 9010)
	require.Less(t, strings.Count(r.out, "\n"), 9010)
}

// An import that is killed in the middle leaves only complete jobs, and imports the rest when it is repeated.
func TestImportKilled(t *testing.T) {
	d, e := sit(t), sit(t)
	d.stock(mails, 5000)
	file := filepath.Join(t.TempDir(), "jobs")
	r := d.emq("export", "mails")
	require.NoError(t, os.WriteFile(file, []byte(r.out), 0o644))
	cmd := e.command("import")
	cmd.Stdin, _ = os.Open(file)
	require.NoError(t, cmd.Start())
	store.WaitFor(t, "some jobs", func() bool { return e.sizes(mails)["pending"] > 200 })
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	n := len(e.content(mails))
	require.Less(t, n, 15_010)
	e.sound()
	again := e.fed(r.out, "import")
	require.Equal(t, 0, again.code, again.err)
	require.Contains(t, again.err, "there already")
	require.Equal(t, d.content(mails), e.content(mails))
	e.sound()
}

// Jobs move to another server, and those in a state, or that match, to another queue; a killed move can be continued,
// and then each job is in exactly one place.
func TestMove(t *testing.T) {
	d, e := sit(t), sit(t)
	d.stock(mails, 2000)
	before := d.content(mails)
	require.Equal(t, told{exitUsage, "", "emq: Move 2,000 pending jobs, 2,000 scheduled jobs, 2,000 dead letters from mails to new? There is no terminal to ask on: give --yes. Nothing was changed\n"},
		d.emq("move", "mails", "new"))
	require.Equal(t, "Would be moved: 1 job of mails to new. Nothing was changed.\n", d.ok("move", "mails", "new", "--state", "dead", "--match", "HOST 1234", "--dry-run"))
	require.Equal(t, "1 job moved from mails to new.\n", d.ok("move", "mails", "new", "--state", "dead", "--match", "HOST 1234", "--yes"))
	require.Equal(t, map[string]int64{"dead": 1}, d.sizes("new"))
	require.Equal(t, "1 job moved from new to mails.\n", d.ok("move", "new", "mails", "--yes"))
	require.Equal(t, before, d.content(mails))

	args := []string{"move", "mails", "mails", "--to-url", "unix://" + e.p.Socket, "--yes", "--json"}
	cmd := d.command(args...)
	require.NoError(t, cmd.Start())
	store.WaitFor(t, "some jobs", func() bool { return e.sizes(mails)["pending"] > 200 })
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	here, there := d.content(mails), e.content(mails)
	for id := range here {
		require.NotContains(t, there, id)
	}
	require.Greater(t, len(here), 10)
	moved := d.records(args...)
	require.EqualValues(t, 0, moved[0]["there"])
	require.Equal(t, map[string]int64{"active": 10}, d.sizes(mails))
	there = e.content(mails)
	require.Len(t, there, 6000)
	for id, row := range there {
		require.Equal(t, before[id], row)
	}
	d.sound()
	e.sound()
	// The key that notes arrived jobs may be left by a kill, and expires.
	require.NotEqual(t, wire.Integer(-1), e.c.Do("TTL", "emq:{mails}:arrived"))

	d.must(mails.Enqueue("JOB1", "here"))
	e.must(mails.Enqueue("JOB1", "there"))
	r := d.emq(args...)
	require.Equal(t, exitRefused, r.code)
	require.Contains(t, r.err, "1 job stayed")
	require.Equal(t, exitUsage, d.emq("move", "mails", "x", "--state", "active", "--yes").code)
	require.Equal(t, exitAbsent, d.emq("move", "nobody", "x", "--yes").code)
	require.Empty(t, e.sizes("x"))
}

// broken moves jobs of mails to mails at e, and kills the command with SIGKILL once it has taken them, put them, or
// forgotten them: each time the next step is held up by a server that is paused.
func (d *desk) broken(t *testing.T, e *desk, step string) {
	t.Helper()
	held := func(who *desk) {
		t.Helper()
		store.WaitFor(t, "a call that waits", func() bool { return who.c.Info("blocked_clients") == "1" })
	}
	cmd := d.command("move", "mails", "mails", "--to-url", "unix://"+e.p.Socket, "--yes")
	e.c.Must("CLIENT PAUSE 1000000 WRITE")
	require.NoError(t, cmd.Start())
	held(e) // waits in put
	if step != "taken" {
		d.c.Must("CLIENT PAUSE 1000000 WRITE")
		e.c.Must("CLIENT UNPAUSE")
		held(d) // waits in forget, for the old queue's copy
	}
	if step == "forgotten" {
		e.c.Must("CLIENT PAUSE 1000000 WRITE")
		d.c.Must("CLIENT UNPAUSE")
		held(e) // waits in forget, for the new queue's note
	}
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for _, who := range []*desk{d, e} { // what the killed command has sent must not be executed
		store.WaitFor(t, "its connection to end", func() bool { return who.c.Info("blocked_clients") == "0" })
		who.c.Must("CLIENT UNPAUSE")
	}
}

// At whatever step a move is killed, ls, peek, audit and doctor report the jobs on their way, and the command that
// completes the move. That command works; or --back takes back the jobs that had not arrived; or, if the other server
// is gone for good, --gone takes back all of them. No job is lost, and none is in both queues except those that had
// arrived at a server which can't be asked.
func TestMoveKilled(t *testing.T) {
	const n = 30
	for _, step := range []string{"taken", "put", "forgotten"} {
		arrived := map[string]int{"taken": 0, "put": n, "forgotten": 0}[step] // how many of those on their way
		for _, end := range []string{"again", "back", "moved", "gone"} {
			t.Run(step+" "+end, func(t *testing.T) {
				d, e := sit(t), sit(t)
				var jobs []string
				for i := range n {
					jobs = append(jobs, made(time.Hour, n-i), fmt.Sprint("payload ", i))
				}
				d.must(mails.Menqueue(jobs...))
				d.broken(t, e, step)
				on := step != "forgotten"
				_, there := d.p.Keyspace()["emq:{mails}:moving"]
				require.Equal(t, on, there)
				line := fmt.Sprintf(`"mails" has 30 jobs on their way to "mails" of the server "unix://%s", for `, e.p.Socket)
				again := "move mails mails --to-url " + "unix://" + e.p.Socket
				for _, args := range [][]string{{"ls"}, {"peek", "mails"}, {"audit", "mails"}, {"audit", "--all"}} {
					if r := d.emq(args...); on {
						require.Equal(t, 0, r.code, r.err)
						require.Contains(t, r.err, line, args)
						require.Contains(t, r.err, "goes on by: emq "+again+"\n", args)
					} else {
						require.NotContains(t, r.err, "on their way", args)
					}
				}
				r := d.emq("show", "mails", jobs[0])
				require.Equal(t, exitAbsent, r.code)
				require.Equal(t, on, strings.Contains(r.err, line), r.err)
				if on { // as if an hour had passed
					told := strings.SplitN(wire.Value(d.c.Do("HGET", mails.Meta(), "moving")).(string), " ", 3)
					d.must([]string{"HSET", mails.Meta(), "moving", told[0] + " " + fmt.Sprint(time.Now().Add(-time.Hour).UnixMilli()) + " " + told[2]})
				}
				r = d.emq("doctor")
				require.Equal(t, on, strings.Contains(r.out, "critical  moves: "+line+"1h0m: emq move --to-url unix://"+e.p.Socket+" mails mails\n"), r.out)

				total := func() int { return len(d.content(mails)) + len(e.content(mails)) }
				switch {
				case !on:
					require.Equal(t, told{exitAbsent, "", "emq: there is no queue mails; \"emq ls\" lists them\n"}, d.emq("move", "--back", "mails", "--yes"))
					require.Len(t, e.content(mails), n)
					return
				case end == "again":
					require.Contains(t, d.ok(append(strings.Fields(again), "--yes")...), "30 jobs moved")
					require.Len(t, e.content(mails), n)
				case end == "back":
					require.Equal(t, exitUsage, d.emq("move", "--back", "mails").code, "it asks")
					require.Contains(t, d.ok("move", "--back", "mails", "--dry-run"), "Would be taken back, but for those that arrived: 30 jobs of mails")
					require.Equal(t, exitUsage, d.emq("move", "--back", "mails", "new", "--yes").code)
					require.Equal(t, exitUsage, d.emq("move", "mails", "new", "--gone", "--yes").code)
					require.Equal(t, exitUsage, d.emq("move", "--back", "mails", "--state", "dead", "--yes").code)
					require.Equal(t, exitRefused, d.emq("move", "mails", "new", "--yes").code, "another move is refused until then")
					back := d.records("move", "--back", "mails", "--yes", "--gone")[0] // --gone is ignored, since the server can be asked
					require.Equal(t, []any{float64(n - arrived), float64(arrived)}, []any{back["back"], back["arrived"]})
					require.Len(t, e.content(mails), arrived)
				case end == "moved": // the server now wants a password, and another URL leads to it
					e.c.Must("CONFIG SET requirepass secret")
					r := d.emq("move", "--back", "mails", "--yes", "--gone")
					require.Equal(t, exitUnreachable, r.code, "a server that refuses is not gone: %s", r.err)
					require.Empty(t, d.content(mails))
					require.Equal(t, exitAbsent, d.emq("move", "--back", "mails", "--yes", "--to-context", "x").code)
					r = d.with("EMQ_TO_PASSWORD=secret").emq("move", "--back", "mails", "--yes", "--to-url", "valkey://"+e.p.Addr())
					require.Equal(t, 0, r.code, r.err)
					e.c.Must("CONFIG SET requirepass \"\"")
					require.Len(t, e.content(mails), arrived)
				case end == "gone":
					e.p.Dies = true
					e.p.Crash()
					r := d.emq("move", "--back", "mails", "--yes")
					require.Equal(t, exitUnreachable, r.code)
					require.Contains(t, r.err, "if it is gone for good, --gone takes all 30 jobs back, and what had arrived there and was done is done again")
					require.Empty(t, d.content(mails))
					require.Equal(t, "30 jobs of mails taken back.\n", d.ok("move", "--back", "mails", "--yes", "--gone"))
					require.Len(t, d.content(mails), n)
					require.Empty(t, d.p.Keyspace().Check(wire.Wire6))
					return
				}
				require.Equal(t, n, total())
				require.NotContains(t, d.p.Keyspace(), mails.Meta())
				require.Contains(t, d.emq("doctor").out, "\nok        moves: ")
				if end != "again" {
					require.Equal(t, n-arrived, len(d.content(mails)))
				}
				d.sound()
				e.sound()
			})
		}
	}
}

// The bench leaves nothing behind, even when it is interrupted, and does not load a server that has work without a
// confirmation.
func TestBench(t *testing.T) {
	d := sit(t)
	d.c.Must("SET {emq}:version " + wire.Wire6)
	digest := d.c.Do("DEBUG", "DIGEST")
	for _, batch := range []string{"1", "100"} {
		list := d.records("bench", "--jobs", "2000", "--batch", batch)
		require.Len(t, list, 3)
		for _, r := range list {
			require.Greater(t, r["jobs_per_second"], 0.0)
			require.GreaterOrEqual(t, r["p99_us"], r["p50_us"])
		}
		require.Equal(t, digest, d.c.Do("DEBUG", "DIGEST"))
	}
	r := d.begin(t, "bench", "--jobs", "10000000")
	store.WaitFor(t, "the bench to run", func() bool { return strings.Contains(d.c.Do("EMQ.QUEUES", "", "10"), "bench-") })
	r.signal(syscall.SIGINT)
	require.Equal(t, exitInterrupted, r.code(), r.err.String())
	require.Equal(t, digest, d.c.Do("DEBUG", "DIGEST"))

	d.ok("enqueue", "mails", "x")
	require.Equal(t, exitUsage, d.emq("bench", "--jobs", "10").code)
	require.Equal(t, 0, d.emq("bench", "--jobs", "10", "--yes").code)
}

// The mover of docs/command.md can do all that the page says, and the page explains the names of all records.
func TestMover(t *testing.T) {
	text, err := os.ReadFile(manual)
	require.NoError(t, err)
	d, e := sit(t), sit(t)
	d.stock(mails, 20)
	var link []string
	for _, desk := range []*desk{d, e} {
		desk.c.Must(regexp.MustCompile(`(?m)^ACL SETUSER mover .*$`).FindString(string(text)))
		link = append(link, "valkey://mover@"+desk.p.Addr())
	}
	d = d.with("EMQ_URL="+link[0], "EMQ_PASSWORD=secret", "EMQ_TO_PASSWORD=secret")
	e = e.with("EMQ_URL="+link[1], "EMQ_PASSWORD=secret")
	all := d.emq("export", "mails")
	require.Equal(t, 0, all.code, all.err)
	list := d.records("enqueue", "mails", "x")
	r := d.fed("x\n", "enqueue", "mails", "--raw", "--json")
	require.Equal(t, 0, r.code, r.err)
	list = append(append(list, records(t, r.out)...), d.records("move", "mails", "new", "--to-url", link[1], "--yes")...)
	list = append(list, d.records("move", "mails", "new", "--dry-run")...)
	r = e.fed(all.out, "import", "--queue", "again", "--json")
	require.Equal(t, 0, r.code, r.err)
	list = append(list, records(t, r.out)...)
	list = append(list, records(t, d.emq("bench", "--jobs", "10", "--json", "--yes").out)...)
	list = append(list, records(t, all.out)...)
	require.Greater(t, len(list), 70)
	for _, r := range list {
		for name := range r {
			require.Contains(t, string(text), "`"+strings.TrimSuffix(name, "_base64")+"`")
		}
	}
	require.Equal(t, map[string]int64{"pending": 22, "scheduled": 20, "dead": 20}, e.sizes("new"))
	d.sound()
	e.sound()
}
