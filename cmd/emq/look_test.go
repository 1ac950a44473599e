package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	emq "emq/clients/go"
	"emq/test/store"
	"emq/test/wire"
)

const mails = wire.Queue("mails")

// made is an id that was made that long ago; n distinguishes ids of the same time.
func made(ago time.Duration, n int) string {
	return string(emq.LeastID(time.Now().Add(-ago - time.Duration(n)*time.Millisecond)))
}

func TestLs(t *testing.T) {
	d := sit(t)
	require.Equal(t, told{0, "", "There are no queues that you may read.\n"}, d.emq("ls"))
	old := made(3*time.Minute+20*time.Second, 0)
	d.must(mails.Menqueue(old, "a", "JOBz", "b"), mails.Mclaim(1<<40, 1), mails.Release(old, "1", 0), mails.Limit(3, 100, 1000), mails.Pause(0),
		mails.Mschedule("at", "JOBs", "4102444800000", "c"), wire.Queue("\x1b[31m\xff").Enqueue("JOB1", "x"), wire.Queue("broken").Enqueue("JOB1", "x"))
	d.c.Must("SET emq:{broken}:dead x")
	out := d.ok("ls")
	require.Regexp(t, `(?m)\A`+regexp.QuoteMeta(`QUEUE         PENDING  ACTIVE  SCHEDULED  DEAD  OLDEST  IDLE WORKERS`)+`
\\x1b\[31m\\xff        1       0          0     0                     0
broken +the server refused: WRONGTYPE .*
`+regexp.QuoteMeta(`mails               2       0          1     0`)+`   3m2\ds             0  paused, 3 at a time, 100 in 1s
\z`, out)
	list := d.records("ls")
	require.Len(t, list, 3)
	require.Equal(t, map[string]any{"queue": nil, "queue_base64": "G1szMW3/", "pending": 1.0, "active": 0.0, "scheduled": 0.0, "dead": 0.0, "completed": 0.0,
		"failed": 0.0, "oldest_pending_age_ms": nil, "next_due_ms": nil, "next_expiry_ms": nil, "waiting": 0.0, "paused": false, "paused_until_ms": nil,
		"concurrency": nil, "rate_max": nil, "rate_duration_ms": nil}, list[0])
	require.Contains(t, list[1]["error"], "WRONGTYPE")
	require.Nil(t, list[1]["pending"])
	require.Equal(t, []any{"mails", 2.0, 1.0, true, 3.0, 100.0, 1000.0, 4102444800000.0}, []any{list[2]["queue"], list[2]["pending"], list[2]["scheduled"],
		list[2]["paused"], list[2]["concurrency"], list[2]["rate_max"], list[2]["rate_duration_ms"], list[2]["next_due_ms"]})

	require.Equal(t, "mails", d.records("ls", "mails")[0]["queue"])
	require.Equal(t, told{3, "", "emq: there is no queue nails; \"emq ls\" lists them\n"}, d.emq("ls", "mails", "nails"))
}

// TestLsWatch lets a queue grow while two runs watch it.
func TestLsWatch(t *testing.T) {
	d := sit(t)
	d.must(mails.Enqueue("JOB1", "x"))
	var piped buffer
	cmd := d.command("ls", "--watch", "--json", "mails")
	cmd.Stdout = &piped
	require.NoError(t, cmd.Start())
	screen := d.terminal(nil, "ls", "-w")
	screen.sees("mails        1")
	store.WaitFor(t, "the first record", func() bool { return strings.Contains(piped.String(), `"pending":1,`) })
	d.must(mails.Enqueue("JOB2", "x"))
	screen.sees("mails        2")
	store.WaitFor(t, "another record", func() bool { return strings.Contains(piped.String(), `"pending":2,`) })
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	require.Equal(t, 0, code(t, cmd.Wait()))
	for _, r := range records(t, piped.String()) {
		require.Equal(t, "mails", r["queue"])
		require.Contains(t, r, "in_per_second")
	}
	screen.types("\x03")
	code, text := screen.ends()
	require.Equal(t, 0, code)
	require.Regexp(t, `\x1b\[2A\rQUEUE`, text, "in place")
	require.NotContains(t, text, "\x1b[2m", "NO_COLOR is set")

	screen = d.with("TERM=dumb").terminal(nil, "ls", "-w")
	screen.sees("mails        2")
	screen.types("\x03")
	_, text = screen.ends()
	require.NotContains(t, text, "\x1b", "it can't do that")
}

func TestTop(t *testing.T) {
	d := sit(t).with("NO_COLOR=")
	require.Equal(t, 2, d.emq("top").code)
	d.must(mails.Enqueue("JOB1", "x"), wire.Queue("bad\x1b[2J").Enqueue("JOB1", "x"))
	s := d.terminal(nil, "top")
	s.sees("\x1b[?1049h")
	s.sees("mails")
	s.sees(`bad\x1b[2J`)
	s.types("q")
	code, text := s.ends()
	require.Equal(t, 0, code)
	require.True(t, strings.HasSuffix(text, "\x1b[?25h\x1b[?1049l"), "the screen is as it was: %q", text[max(0, len(text)-40):])
	require.NotContains(t, text, "bad\x1b")
	require.True(t, s.asFound())
	require.Contains(t, text, "\x1b[2mQUEUE", "colour on a terminal")
}

func TestPeek(t *testing.T) {
	d := sit(t)
	ids := []string{made(5*time.Hour, 0), made(3*time.Hour, 0), made(time.Minute, 0)}
	d.must(mails.Menqueue(ids[0], "to: \x1b]0;x\x07ann", ids[1], "\xff\xfe", ids[2], strings.Repeat("x", 5000)),
		mails.ScheduleAt("JOBs", "later", 4102444800000))
	require.Regexp(t, `\AID              MADE  CLAIMS  FAILURES  PAYLOAD
`+ids[0]+`    5h       0         0  to: \\x1b\]0;x\\aann
`+ids[1]+`    3h       0         0  \\xff\\xfe
`+ids[2]+`  +1m\d?s?       0         0  \(5,000 bytes\)
\z`, d.ok("peek", "mails"))
	require.Regexp(t, `^ID +MADE +DUE .*\nJOBs +\d+d `, d.ok("peek", "mails", "--state", "scheduled"))

	list := d.records("peek", "mails", "-n", "0")
	require.Len(t, list, 3)
	require.Equal(t, []any{nil, "//4=", 2.0}, []any{list[1]["payload"], list[1]["payload_base64"], list[1]["payload_bytes"]})
	require.Equal(t, []any{nil, 5000.0}, []any{list[2]["payload"], list[2]["payload_bytes"]}, "long payloads are for show")

	require.Equal(t, ids[1:2], idsIn(d.records("peek", "mails", "--since", "4h", "-n", "1")))
	require.Equal(t, ids[2:], idsIn(d.records("peek", "mails", "--since", time.Now().Add(-time.Hour).UTC().Format("2006-01-02 15:04"))))

	// Page by page, as the last line of each says.
	var walked []string
	for next := []string{"peek", "mails", "-n", "1"}; next != nil; {
		r := d.emq(next...)
		require.Equal(t, 0, r.code)
		walked = append(walked, strings.Fields(strings.Split(r.out, "\n")[1])[0])
		if next = nil; r.err != "" {
			require.Regexp(t, `\AMore: emq peek mails `, r.err)
			next = strings.Fields(r.err)[2:]
		}
	}
	require.Equal(t, ids, walked)

	// A long list is printed page by page, not collected first.
	d.stock("many", 6000)
	reads := func() int {
		n, _ := strconv.Atoi(regexp.MustCompile(`cmdstat_hmget:calls=(\d+)`).FindStringSubmatch(d.c.Do("INFO", "commandstats"))[1])
		return n
	}
	for _, args := range [][]string{{"peek", "many", "-n", "0"}, {"dead", "ls", "many", "-n", "0"}} {
		before := reads()
		cmd := d.command(args...)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewReader(out)
		head, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Regexp(t, `^ID .* LAST ERROR .*PAYLOAD\n`, head)
		require.Less(t, reads()-before, 4000, "only the pages that have been read are requested")
		rest, err := io.ReadAll(lines)
		require.NoError(t, err)
		require.NoError(t, cmd.Wait())
		require.Equal(t, 6000, strings.Count(string(rest), "\n"))
		require.Equal(t, strings.Index(head, "PAYLOAD"), bytes.Index(rest, []byte("payload")), "%.300s", rest)
	}
	var out buffer
	s := d.terminal(&out, "dead", "ls", "many", "-n", "0", "--match", "host 1") // with a progress bar between the pages
	s.ends()
	require.Equal(t, 1112, strings.Count(out.String(), "\n"))

	require.Equal(t, told{0, "", "No job of mails is dead.\n"}, d.emq("peek", "mails", "--state", "dead"))
	require.Equal(t, 3, d.emq("peek", "nails").code)
	for _, wrong := range [][]string{{"mails", "--state", "done"}, {"mails", "-n", "-1"}, {"mails", "--since", "noon"}, {}, {"a", "b"},
		{"mails", "--since", "1h", "--after", "x"}} {
		require.Equal(t, 2, d.emq(append([]string{"peek"}, wrong...)...).code, "%q", wrong)
	}
}

func idsIn(list []map[string]any) (ids []string) {
	for _, r := range list {
		ids = append(ids, r["id"].(string))
	}
	return ids
}

func TestShow(t *testing.T) {
	d := sit(t)
	id := made(2*time.Hour, 0)
	d.must(mails.Menqueue(id, "{\"to\":\"ann\",\"text\":\"a\\u001bb\u202ec\"}", "JOBtext", "two\r\n\tlines", "JOBbytes", "\x00\x01\xff", "JOBlong", strings.Repeat("é", 20000),
		"JOBhuge", `["`+strings.Repeat("x", 40000)+`"]`))
	d.must(mails.Mclaim(1<<40, 1), mails.Fail(id, "1", 0, 1, "no such\n\x1b[31mmailbox"))
	require.Regexp(t, `\Aid           `+id+`
queue        mails
state        dead
made         20..-..-.. ..:..:.. UTC \(2h ago\)
claims       1
failures     1
lost leases  0
last error   no such
             \\x1b\[31mmailbox
payload      34 bytes, JSON

\{
  "to": "ann",
  "text": "a\\u001bb\\u202ec"
\}
\z`, d.ok("show", "mails", id))
	require.Contains(t, d.ok("show", "mails", "JOBtext"), "payload      11 bytes, text\n\ntwo\n    lines\n")
	require.Contains(t, d.ok("show", "mails", "JOBbytes"), "payload      3 bytes, binary\n\n00000000  00 01 ff  ")
	for id, letter := range map[string]string{"JOBlong": "é", "JOBhuge": "x"} {
		out := d.ok("show", "mails", id)
		require.Contains(t, out, "the first 16 KiB: --all shows it whole")
		require.Less(t, len(out), 17<<10)
		require.NotContains(t, out, `\x`, "no half letter")
		require.GreaterOrEqual(t, strings.Count(d.ok("show", "mails", id, "--all"), letter), 20000)
	}
	require.Equal(t, "\x00\x01\xff", d.ok("show", "mails", "JOBbytes", "--raw"))
	_, text := d.terminal(nil, "show", "mails", "JOBbytes", "--raw").ends()
	require.Contains(t, text, "send it to a file or a pipe")
	require.NotContains(t, text, "\x01")

	r := d.records("show", "mails", id)[0]
	require.Equal(t, []any{"dead", "no such\n\x1b[31mmailbox", 1.0, 1.0}, []any{r["state"], r["last_error"], r["claims"], r["failures"]})
	require.InDelta(t, time.Now().Add(-2*time.Hour).UnixMilli(), r["made_at_ms"], 60_000)

	r2 := d.emq("show", "mails", "JOBnone")
	require.Equal(t, told{3, "", "emq: there is no job JOBnone in mails; \"emq find JOBnone\" looks in all queues\n"}, r2)
}

func TestFind(t *testing.T) {
	d := sit(t)
	odd := wire.Queue("it's; \xff")
	d.must(mails.Enqueue("JOB1", "x"), odd.Enqueue("JOB1", "y"), odd.Enqueue("JOB2", "z"))
	require.Equal(t, []string{"JOB1", "JOB1"}, idsIn(d.records("find", "JOB1")))
	out := d.ok("find", "JOB2")
	require.Contains(t, out, `emq show $'it\'s; \xff' JOB2`, "to be copied into a shell")
	require.Equal(t, told{3, "", "emq: no queue that you may read has a job JOB3\n"}, d.emq("find", "JOB3"))
}

func TestDoctor(t *testing.T) {
	d := sit(t)
	r := d.emq("doctor")
	require.Contains(t, []int{1, 2}, r.code, "a server of the tests keeps nothing on disk")
	require.Regexp(t, `\AEMQ (WARNING|CRITICAL) - `, r.out)
	require.Empty(t, r.err)
	j := d.emq("doctor", "--json")
	require.Equal(t, r.code, j.code)
	worst := map[int]string{1: "warning", 2: "critical"}[r.code]
	require.Contains(t, fmt.Sprint(records(t, j.out)), "status:"+worst)

	require.Equal(t, 3, d.emq("doctor", "--nix").code)
	gone := away(t).with("EMQ_URL=valkey://127.0.0.1:1").emq("doctor")
	require.Equal(t, 2, gone.code)
	require.Regexp(t, `\AEMQ CRITICAL - server: `, gone.out)
}

// TestReadable checks how bytes are shown on a terminal.
func TestReadable(t *testing.T) {
	require.Equal(t, `a\x1b\u202e\xff�é日`, printable("a\x1b\u202e\xff�é日"))
	require.Equal(t, "日本…", cut("日本語", 5))
	for d, want := range map[time.Duration]string{3 * time.Minute: "3m", 200 * time.Second: "3m20s", 26 * time.Hour: "1d2h", 40 * 24 * time.Hour: "40d",
		1500 * time.Millisecond: "1s", 90 * time.Millisecond: "90ms", -time.Hour: "-1h"} {
		require.Equal(t, want, span(d))
	}
	require.Equal(t, []string{"1", "999", "1,000", "-1,234,567"}, []string{count(1), count(999), count(1000), count(-1234567)})
	for _, s := range []string{"", "a b", "it's", "\x1b\xff'\\", "$(x)", "`"} {
		out, err := exec.Command("bash", "-c", "printf %s "+shell(s)).Output()
		require.NoError(t, err)
		require.Equal(t, s, string(out))
	}
}
