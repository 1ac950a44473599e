package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"emq/test/page"
	"emq/test/wire"
)

const manual = "../../docs/command.md"

// TestPage follows docs/command.md from top to bottom, as the operator of docs/operations.md.
func TestPage(t *testing.T) {
	d := sit(t)
	d.letters(8000)
	d.must(wire.Queue("orders").Enqueue("JOB00000000001", `{"order":4711}`))
	d = d.as("operator")
	dir := t.TempDir()
	require.NoError(t, os.Symlink(d.command().Path, filepath.Join(dir, "emq")))
	for _, e := range append(d.env, "PATH="+dir+":"+os.Getenv("PATH")) {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
	for _, block := range page.Commands(t, manual) {
		page.Follow(t, dir, block)
	}
	require.Empty(t, d.p.Keyspace().Check(wire.Wire6))
}

// as is the desk of a user that docs/operations.md creates.
func (d *desk) as(role string) *desk {
	d.t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(d.t, err)
	rights := regexp.MustCompile(`(?m)^ACL SETUSER ` + role + ` on >secret .*$`).FindString(string(text))
	require.NotEmpty(d.t, rights, "the page makes no %s", role)
	d.c.Must(rights)
	return d.with("EMQ_URL=valkey://"+role+"@"+d.p.Addr(), "EMQ_PASSWORD=secret")
}

// TestHelp checks that each command has complete help, and that the page explains every name of a record.
func TestHelp(t *testing.T) {
	var examples strings.Builder
	root := newRoot(&app{})
	each(root, func(c *cobra.Command) {
		if c == root || c.Name() == "exit-codes" || c.Hidden {
			return
		}
		require.NotEmpty(t, c.Short, c.CommandPath())
		require.NotEmpty(t, c.Example, "%s has no examples", c.CommandPath())
		require.NotNil(t, c.RunE, c.CommandPath())
		for _, line := range strings.Split(c.Long+"\n"+c.Example, "\n") {
			require.LessOrEqual(t, len([]rune(line)), 130, "%s: %s", c.CommandPath(), line)
		}
		for _, line := range strings.Split(c.Example, "\n") {
			examples.WriteString(line + "\n")
			require.Contains(t, line, "emq", "%s: %s", c.CommandPath(), line)
		}
	})
	text, err := os.ReadFile(manual)
	require.NoError(t, err)
	_, rest, _ := strings.Cut(newExitCodes(nil).Long, "\n")
	for _, line := range strings.Split(rest, "\n") {
		if code, meaning, ok := strings.Cut(strings.TrimSpace(line), "  "); ok && !strings.Contains(line, "Nagios") {
			require.Contains(t, strings.ReplaceAll(string(text), "`", ""), "| "+strings.TrimSpace(code)+" | "+strings.TrimSpace(meaning)+" |")
		}
	}
	d := away(t)
	for _, args := range [][]string{{}, {"help"}, {"--help"}} {
		out := d.ok(args...)
		require.Contains(t, out, "To begin with:")
		require.Contains(t, out, "emq dead groups QUEUE")
	}
	require.Contains(t, d.ok("help", "exit-codes"), "130")
	require.Regexp(t, `^emq \d+\.\d+\.\d+, wire echomq:6.0.0, build .+\n$`, d.ok("--version"))
	for _, wrong := range [][]string{{"nix"}, {"ls", "--nix"}, {"dead", "nix"}, {"context", "nix"}, {"rm", "mails"}, {"ls", "--timeout", "x"}} {
		r := d.emq(wrong...)
		require.Equal(t, 2, r.code, "%q", wrong)
		require.Contains(t, r.err, "--help", "%q", wrong)
	}

	d.ok("man", "pages")
	require.FileExists(t, d.home+"/pages/emq-dead-requeue.1")
	page, err := os.ReadFile(d.home + "/pages/emq.1")
	require.NoError(t, err)
	for _, line := range []string{"  emq ls                       the queues, and how they are doing", "  130  interrupted; what was done until then is told"} {
		require.Contains(t, string(page), "\n"+line+"\n", "a list stays one")
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		require.NotEmpty(t, d.ok("completion", shell))
	}
}

// TestNamesAreTold makes a record of each kind, and looks for its names on the page.
func TestNamesAreTold(t *testing.T) {
	d := sit(t)
	d.letters(8)
	d.must(mails.Enqueue("JOB1\xff", "\xff"))
	d.c.Must("ZADD emq:{mails}:dead 0 JOBghost")
	d.emq("context", "add", "x", "valkey://h")
	text, err := os.ReadFile(manual)
	require.NoError(t, err)
	for _, args := range [][]string{{"ls"}, {"peek", "mails"}, {"show", "mails", "JOB1\xff"}, {"find", "JOB1\xff"}, {"dead", "ls", "mails"},
		{"dead", "groups", "mails"}, {"dead", "rm", "mails", "--all", "--dry-run"}, {"audit", "mails"}, {"doctor"}, {"context", "ls"}} {
		list := records(t, d.emq(append(args, "--json")...).out)
		require.NotEmpty(t, list, "%q", args)
		for name := range list[0] {
			require.Contains(t, string(text), "`"+strings.TrimSuffix(name, "_base64")+"`", "%q", args)
		}
	}
}

func TestCompletion(t *testing.T) {
	d := sit(t)
	d.must(mails.Enqueue("JOB1", "x"), wire.Queue("orders").Enqueue("JOB1", "x"), wire.Queue("bad\x1b").Enqueue("JOB1", "x"))
	d.emq("context", "add", "prod", "valkey://h")
	for words, want := range map[string][]string{
		"peek ":          {"mails", "orders"},
		"dead requeue m": {"mails"},
		"ls mails ":      {"orders"},
		"peek mails ":    nil,
		"peek mails -s ": {"pending", "active", "scheduled", "dead"},
		"context use ":   {"prod"},
		"--context ":     {"prod"},
	} {
		args := strings.Split(words, " ")
		got := strings.Split(d.emq(append([]string{"__complete"}, args...)...).out, "\n")
		got = slices.DeleteFunc(got[:max(len(got)-2, 0)], func(line string) bool { return strings.HasPrefix(line, ":") })
		require.ElementsMatch(t, want, got, "%q", words)
	}
	d.letters(8)
	first := records(t, d.emq("dead", "groups", "mails", "--json").out)[0]["group"].(string)
	for _, args := range [][]string{{"dead", "requeue", "mails", "--group", ""}, {"dead", "ls", "mails", "--group", first[:2]}, {"dead", "rm", "mails", "--group", ""}} {
		require.Regexp(t, `\A`+first+`\t5 jobs: smtp: timeout after N s again later\n`, d.emq(append([]string{"__complete"}, args...)...).out)
	}
	require.Equal(t, 0, away(t).with("EMQ_URL=valkey://nobody@127.0.0.1:1").emq("__complete", "peek", "").code)
}
