package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// letters makes n dead letters of mails: three in eight have one error, the others another, and the numbers in the
// texts differ.
func (d *desk) letters(n int) (ids []string) {
	for i := range n {
		ids = append(ids, made(time.Hour, n-i))
	}
	d.bury(mails, ids, func(i int) string {
		if i%8 < 3 {
			return fmt.Sprintf("550 no such mailbox: user %d", 100_000+i%50)
		}
		return fmt.Sprintf("smtp: timeout after %d s\nagain later", 30+i%9)
	})
	return ids
}

// TestDeadLetters does what the command is made for: it requeues the right 300 of 800 dead letters with the commands
// that the previous ones print.
func TestDeadLetters(t *testing.T) {
	d := sit(t)
	ids := d.letters(800)
	out := d.ok("dead", "groups", "mails")
	require.Regexp(t, `\A800 dead letters of mails, in 2 groups:

[0-9a-f]{8}  500 jobs  62.5 %  made 1h(0m)? ago
  error    smtp: timeout after .*
  latest   smtp: timeout after \d+ s\\nagain later
  see      emq dead ls mails --group [0-9a-f]{8}
  requeue  emq dead requeue mails --group [0-9a-f]{8}

[0-9a-f]{8}  300 jobs  37.5 %  made 1h(0m)? ago
  error    550 no such mailbox: .*
`, out)
	_, second, _ := strings.Cut(out, "300 jobs")
	_, line, _ := strings.Cut(second, "requeue  emq ")
	command := strings.Fields(line)

	groups := d.records("dead", "groups", "mails")
	require.Equal(t, "emq "+strings.Join(command, " "), groups[1]["requeue"])
	require.Equal(t, []any{300.0, 0.375, command[4]}, []any{groups[1]["jobs"], groups[1]["share"], groups[1]["group"]})

	see := append([]string{"dead", "ls"}, command[2:]...)
	require.Len(t, d.records(append(see, "-n", "0")...), 300)
	r := d.emq(see...)
	require.Equal(t, 21, strings.Count(r.out, "\n"))
	require.Equal(t, "There are more: -n 0 shows all.\n", r.err)

	before := d.p.Keyspace()
	refusal := d.emq(command...)
	require.Equal(t, told{2, "", "emq: Requeue 300 dead letters of mails? There is no terminal to ask on: give --yes. Nothing was changed\n"}, refusal)
	require.Contains(t, d.ok(append(command, "--dry-run")...), "Would be requeued: 300 dead letters of mails, from "+ids[0]+" to "+ids[794]+".")
	require.Empty(t, before.Diff(d.p.Keyspace()))

	s := d.terminal(nil, command...)
	s.sees("Requeue 300 dead letters of mails? [y/N] ")
	s.types("y\n")
	code, text := s.ends()
	require.Equal(t, 0, code)
	require.Contains(t, text, "300 dead letters of mails requeued.")
	require.Regexp(t, `choosing +0% .*\(0/`, text, "a bar on a terminal, whose clock runs before it tells a speed")
	after := d.p.Keyspace()
	require.Empty(t, after.Check(wire.Wire6))
	for i, id := range ids {
		_, pending := after[mails.Pending()].(store.ZSet)[id]
		require.Equal(t, i%8 < 3, pending, "%d", i)
	}
	gone := d.emq(append(command, "--yes")...)
	require.Equal(t, 3, gone.code, "the group is no more: %v", gone)
	require.Contains(t, gone.err, "emq dead groups mails lists the groups")
	require.Equal(t, 2, d.emq("dead", "groups", "mails", "-n", "-1").code)

	// In printed commands, a queue's name that looks like a flag is not taken for one.
	d.bury("--all", []string{"JOB1"}, func(int) string { return "no" })
	command = strings.Fields(records(t, d.ok("dead", "groups", "--json", "--", "--all"))[0]["requeue"].(string))[1:]
	require.Equal(t, "1 dead letter of --all requeued.\n", d.ok(slices.Insert(command, 2, "--yes")...))
}

// TestChoices tries each way to choose dead letters with --dry-run.
func TestChoices(t *testing.T) {
	d := sit(t)
	ids := d.letters(16)
	late := made(0, 0)
	d.bury(mails, []string{late, "JOBtimeless"}, func(int) string { return "No Such thing" })
	chosen := func(args ...string) float64 {
		return d.records(append([]string{"dead", "requeue", "mails", "--dry-run"}, args...)...)[0]["chosen"].(float64)
	}
	require.Equal(t, 18.0, chosen("--all"))
	require.Equal(t, 8.0, chosen("--match", "no such"))
	require.Equal(t, 1.0, chosen("--match", "PAYLOAD OF "+ids[3]))
	require.Equal(t, 16.0, chosen("--older-than", "30m"))
	require.Equal(t, 6.0, chosen("--older-than", "30m", "--match", "no such"))
	require.Equal(t, 0.0, chosen("--older-than", "1d"))
	require.Equal(t, 6.0, chosen("--group", "550 no such mailbox: user 777"))
	require.Equal(t, 2.0, chosen(ids[0], late, ids[0]))
	require.Equal(t, 1.0, records(t, d.fed(late+"\nJOBnone\n\n", "dead", "requeue", "mails", "--dry-run", "--json", "-").out)[0]["chosen"])

	before := d.p.Keyspace()
	for _, wrong := range [][]string{{}, {"--match", ""}, {"--group", " ", "--all"}, {"--older-than", ""}, {"--all", "--match", "x"}, {"--all", ids[0]},
		{"--match", "x", ids[0]}, {"--older-than", "soon"}, {"--older-than", "0s"}, {"--match", "", "--all"}, {"--match", "", "--older-than", "30m"}, {"--older-than", "-1d"}, {"--older-than", "500000d"}} {
		for _, verb := range []string{"requeue", "rm"} {
			r := d.emq(append([]string{"dead", verb, "mails", "--yes"}, wrong...)...)
			require.Equal(t, 2, r.code, "%s %q: %s", verb, wrong, r.err)
		}
	}
	require.Equal(t, 3, d.emq("dead", "requeue", "nails", "--all", "--yes").code)
	require.Equal(t, 3, d.emq("dead", "requeue", "mails", "--group", "00000000", "--yes").code)
	require.Empty(t, before.Diff(d.p.Keyspace()))

	require.Equal(t, "16 dead letters of mails removed.\n", d.ok("dead", "rm", "mails", "--older-than", "30m", "--yes"))
	require.Len(t, d.p.Keyspace()[mails.Dead()], 2)
	require.Equal(t, told{0, "", "No such jobs of mails: nothing was changed.\n"}, d.emq("dead", "rm", "mails", "--match", "nix", "--yes"))
}

func TestAsks(t *testing.T) {
	d := sit(t)
	d.must(mails.Menqueue("JOB1", "x", "JOB2", "y"))
	before := d.p.Keyspace()
	for keys, want := range map[string]int{"n\n": 1, "\n": 1, "x\n": 1, "\x04": 1, "\x03": 130} {
		s := d.terminal(nil, "rm", "mails", "JOB1", "JOB2")
		s.sees("Remove 2 jobs of mails? [y/N] ")
		s.types(keys)
		code, text := s.ends()
		require.Equal(t, want, code, "%q: %q", keys, text)
		require.Contains(t, text, "nothing was changed")
	}
	require.Empty(t, before.Diff(d.p.Keyspace()))
	s := d.terminal(nil, "rm", "mails", "JOB1")
	s.sees("[y/N]")
	s.types("yes\n")
	code, _ := s.ends()
	require.Equal(t, 0, code)
	require.Equal(t, "1 job of mails removed.\n", d.ok("rm", "mails", "JOB2", "-y"))
	require.NotContains(t, d.p.Keyspace(), mails.Pending())
	var piped buffer
	s = d.terminal(&piped, "dead", "groups", "mails", "--json")
	code, _ = s.ends()
	require.Equal(t, 3, code, "the queue is gone as well")
}

func TestByIDs(t *testing.T) {
	d := sit(t)
	ids := d.letters(3)
	d.must(mails.Mschedule("at", "JOBs", "4102444800000", "c"), mails.Menqueue("JOBa", "x", "JOBp", "y"), mails.Mclaim(1<<40, 1))
	require.Equal(t, "1 dead letter of mails requeued.\n", d.ok("requeue", "mails", ids[0]))
	require.Equal(t, "1 scheduled job of mails requeued.\n", d.ok("requeue", "mails", "JOBs"))
	require.Equal(t, 2, d.emq("requeue", "mails", ids[1], ids[2]).code, "two are asked about")
	r := d.fed(ids[1]+"\n"+ids[2]+"\nJOBp\n", "requeue", "mails", "-", "--yes")
	require.Equal(t, 3, r.code)
	require.Equal(t, "2 dead letters of mails requeued.\n", r.out)
	require.Equal(t, "emq: 1 of 3 ids: mails has no such scheduled job or dead letter\n", r.err)
	require.Equal(t, "1 active job of mails released.\n", d.ok("release", "mails", "JOBa"))
	require.Equal(t, told{3, "0 active jobs of mails released.\n", "emq: 1 of 1 id: mails has no such active job\n"}, d.emq("release", "mails", "JOBa"))
	require.Equal(t, 3, d.emq("rm", "mails", "JOBa", "--state", "dead", "-y").code)
	require.Equal(t, 2, d.emq("rm", "mails", "JOBa").code)
	require.Equal(t, 2, d.emq("rm", "mails", "JOBa", "--state", "done", "-y").code)
	require.Len(t, d.p.Keyspace()[mails.Pending()], 6)
	require.Equal(t, 1.0, d.records("rm", "mails", "JOBa", "--yes")[0]["changed"])
	require.Empty(t, d.p.Keyspace().Check(wire.Wire6))
}

// TestInterrupted interrupts bulk work during a call: the call completes, and the command reports exactly what was done.
func TestInterrupted(t *testing.T) {
	d := sit(t)
	d.letters(3000)
	d.c.Must("CLIENT PAUSE 100000 WRITE")
	var out, errs buffer
	cmd := d.command("dead", "requeue", "mails", "--all", "--yes")
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Start())
	store.WaitFor(t, "a call that waits", func() bool { return d.c.Info("blocked_clients") == "1" })
	require.NoError(t, cmd.Process.Signal(syscall.SIGINT))
	d.c.Must("CLIENT UNPAUSE")
	require.Equal(t, 130, code(t, cmd.Wait()))
	require.Equal(t, "emq: interrupted: 500 of 3,000 dead letters were requeued\n", errs.String())
	require.Len(t, d.p.Keyspace()[mails.Dead()], 2500)
}

func TestGates(t *testing.T) {
	d := sit(t)
	d.must(mails.Enqueue("JOB1", "x"))
	require.Equal(t, "mails is paused. To go on: emq resume mails\n", d.ok("pause", "mails"))
	require.Equal(t, true, d.records("ls")[0]["paused"])
	require.Equal(t, "mails goes on.\n", d.ok("resume", "mails"))
	require.Equal(t, "mails is not paused.\n", d.ok("resume", "mails"))
	require.Equal(t, "mails is paused for 10m.\n", d.ok("pause", "mails", "--for", "10m"))
	require.InDelta(t, time.Now().Add(10*time.Minute).UnixMilli(), d.records("ls")[0]["paused_until_ms"], 60_000)
	r := d.emq("pause", "nails")
	require.Equal(t, told{0, "nails is paused. To go on: emq resume nails\n", "There were no jobs in nails so far: is that its name?\n"}, r)
	require.Equal(t, "mails goes on.\nnails goes on.\n", d.ok("resume", "mails", "nails"))

	require.Equal(t, "mails: no limits\n", d.ok("limit", "mails"))
	require.Equal(t, "mails: 3 at a time\n", d.ok("limit", "mails", "--concurrency", "3"))
	require.Equal(t, "mails: 3 at a time, 100 in 1s\n", d.ok("limit", "mails", "--max", "100", "--per", "1s"))
	require.Equal(t, "mails: 3 at a time, 50 in 1s\n", d.ok("limit", "mails", "--max", "50"))
	require.Equal(t, "mails: 3 at a time, 50 in 1m0s\n", d.ok("limit", "mails", "--per", "1m"))
	require.Equal(t, 50.0, d.records("limit", "mails", "--concurrency", "0")[0]["rate_max"])
	require.Equal(t, "mails: no limits\n", d.ok("limit", "mails", "--max", "0"))
	d.ok("limit", "mails", "--concurrency", "3")
	require.Equal(t, "mails: no limits\n", d.ok("limit", "mails", "--none"))
	for _, wrong := range [][]string{{"--max", "3"}, {"--per", "1s"}, {"--per", "x", "--max", "1"}, {"--concurrency", "-1"}, {"--none", "--max", "1"},
		{"--max", "0", "--per", "1s"}, {"--max", "1", "--per", "1ns"}} {
		require.Equal(t, 2, d.emq(append([]string{"limit", "mails"}, wrong...)...).code, "%q", wrong)
	}
	require.Equal(t, 2, d.emq("pause", "mails", "--for", "-1s").code)
	require.Equal(t, 2, d.emq("pause", "mails", "--for", "900us").code)
	require.Equal(t, "mails: no limits\n", d.ok("limit", "mails"))
}

func TestAudit(t *testing.T) {
	d := sit(t)
	d.must(mails.Enqueue("JOB1", "x"), wire.Queue("orders").Enqueue("JOB1", "x"))
	require.Equal(t, "1 queue: all is where it should be.\n", d.ok("audit", "mails"))
	d.c.Must("ZADD emq:{mails}:dead 0 JOBghost", "SREM x y")
	r := d.emq("audit", "--all")
	require.Equal(t, 1, r.code)
	require.Regexp(t, `mails  dead  JOBghost  an entry without a job  take it out`, r.out)
	require.Equal(t, "emq: 1 finding: --fix puts right what can be\n", r.err)
	list := records(t, d.emq("audit", "mails", "--json").out)
	require.Equal(t, map[string]any{"queue": "mails", "id": "JOBghost", "finding": "no-row", "in": "dead", "to_do": "drop", "done": false}, list[0])
	before := d.p.Keyspace()
	require.Equal(t, 2, d.emq("audit", "mails", "--fix").code)
	require.Equal(t, 1, d.emq("audit", "mails", "--fix", "--dry-run").code)
	require.Empty(t, before.Diff(d.p.Keyspace()))
	require.Contains(t, d.ok("audit", "--all", "--fix", "--yes"), "done: take it out")
	require.Empty(t, d.p.Keyspace().Check(wire.Wire6))
	require.Equal(t, 2, d.emq("audit").code)
	require.Equal(t, 2, d.emq("audit", "--all", "mails").code)
	require.Equal(t, 3, d.emq("audit", "nails").code)

	// A queue that can't be searched is named, and does not affect the others.
	d.must(wire.Queue("a").Enqueue("JOB1", "x"))
	d.c.Must("SET emq:{a}:dead x", "ZADD emq:{mails}:dead 0 JOBghost", "SET emq:{orders}:meta x")
	r = d.emq("audit", "--all", "--fix", "--yes")
	require.Equal(t, 1, r.code)
	require.Contains(t, r.out, "done: take it out")
	require.Regexp(t, `orders  meta +another key is where its pause and limits should be +left alone`, r.out)
	require.Contains(t, r.err, "emq: a: the server refused: WRONGTYPE")

	// On a terminal, both passes over many queues show their progress.
	for i := range 150 {
		d.must(wire.Queue(fmt.Sprint("q", i)).Enqueue("JOB1", "x"))
	}
	s := d.terminal(nil, "audit", "--all")
	_, text := s.ends()
	require.Regexp(t, `looked through .*\(0/153, 0 queues/`, text)
	require.Regexp(t, `looked through .*\(0/\d+, 0 keys/`, text)
}

// TestPipe closes the pipe that reads the output: that is no error.
func TestPipe(t *testing.T) {
	d := sit(t)
	d.letters(3000)
	sh := exec.Command("bash", "-c", `set -o pipefail; "$0" dead ls mails -n 0 --json | head -n 1`, d.command().Path)
	sh.Env, sh.Dir = d.env, d.home
	var errs buffer
	sh.Stderr = &errs
	out, err := sh.Output()
	require.Equal(t, 128+int(syscall.SIGPIPE), code(t, err))
	require.Equal(t, 1, strings.Count(string(out), "\n"))
	require.Empty(t, errs.String())
}

// TestFullDisk writes the output to a full disk: the command fails, whatever was done.
func TestFullDisk(t *testing.T) {
	d := sit(t)
	ids := d.letters(3)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	for _, args := range [][]string{{"--help"}, {"--version"}, {"exit-codes"}, {"ls"}, {"ls", "--json"}, {"peek", "mails", "--state", "dead"}, {"show", "mails", ids[0]},
		{"find", ids[0]}, {"dead", "groups", "mails"}, {"dead", "ls", "mails"}, {"dead", "requeue", "mails", "--all", "--dry-run"}, {"dead", "rm", "mails", ids[0], "--yes"},
		{"requeue", "mails", ids[1]}, {"pause", "mails"}, {"resume", "mails"}, {"limit", "mails"}, {"limit", "mails", "--concurrency", "1", "--json"}, {"audit", "mails"},
		{"context", "add", "here", "valkey://127.0.0.1"}, {"context", "ls"}, {"context", "rm", "here"}, {"completion", "bash"}, {"enqueue", "mails", "x"}, {"export", "mails"},
		{"move", "mails", "others", "--yes"}, {"rewire"}} {
		cmd := d.command(args...)
		var errs buffer
		cmd.Stdout, cmd.Stderr = full, &errs
		require.Equal(t, 1, code(t, cmd.Run()), "%q: %s", args, errs.String())
		require.Contains(t, errs.String(), "no space left", "%q", args)
	}
	doctor := d.command("doctor", "--json")
	doctor.Stdout = full
	require.Equal(t, 3, code(t, doctor.Run()), "it is not known")
}

// TestUnsetVariables has empty words on the command line, as from a script's unset variable, and other impossible ones:
// the command is refused without a question, and changes, chooses or creates nothing.
func TestUnsetVariables(t *testing.T) {
	d := sit(t)
	d.letters(3)
	d.must(mails.Enqueue("JOB1", "x"))
	before := d.p.Keyspace()
	for _, args := range [][]string{{"--url", "", "ls"}, {"--context", " ", "ls"}, {"peek", "mails", "--since", ""}, {"peek", "mails", "--after", ""},
		{"move", "mails", "others", "--match", "", "--yes"}, {"move", "mails", "others", "--state", "", "--yes"}, {"move", "mails", "others", "--to-url", "", "--yes"},
		{"enqueue", "mails", "x", "--at", ""}, {"enqueue", "mails", "x", "--id", ""}, {"import", "--queue", ""}, {"export", "mails", "--after", ""},
		{"rm", "mails", "", "--yes"}, {"rm", "mails", "mails", "--yes"}, {"release", "mails", ""}, {"requeue", "mails", ""}, {"requeue", "mails", "", "--state", "dead"},
		{"dead", "rm", "mails", "", "--yes"}, {"dead", "requeue", "mails", "job1", "--yes"}} {
		r := d.emq(args...)
		require.Equal(t, 2, r.code, "%q: %s%s", args, r.out, r.err)
	}
	require.Equal(t, 2, d.fed("JOB1\n# all of them\n", "rm", "mails", "-", "--yes").code)
	require.Equal(t, told{0, "", "No such jobs of mails: nothing was changed.\n"}, d.fed("\n", "requeue", "mails", "-", "--yes"))
	for _, name := range []string{"", "{", "a}b"} {
		for _, args := range [][]string{{"ls", name}, {"ls", "mails", name}, {"peek", name}, {"show", name, "JOB1"}, {"dead", "groups", name}, {"dead", "ls", name},
			{"dead", "rm", name, "--all", "--yes"}, {"rm", name, "JOB1", "--yes"}, {"requeue", name, "JOB1"}, {"release", name, "JOB1"}, {"pause", name}, {"resume", name},
			{"limit", name}, {"audit", name}, {"enqueue", name, "x"}, {"move", "mails", name, "--yes"}, {"move", name, "mails", "--yes"}, {"export", name},
			{"work", name, "--", "true"}} {
			require.Equal(t, 2, d.emq(args...).code, "%q", args)
		}
	}
	require.Empty(t, before.Diff(d.p.Keyspace()))
}
