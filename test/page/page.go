// Package page answers one question: do the commands of a page do what the page says? It takes the lines that begin
// with `$ ` from a page's block and runs them in a shell, as a reader of the page would.
package page

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
)

var prompt = regexp.MustCompile(`(?m)^\$ `)

// Block is the first block of a page after these words.
func Block(t testing.TB, path, words string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), words)
	require.True(t, ok, "%s has no such words: %s", path, words)
	_, rest, _ = strings.Cut(rest, "```\n")
	block, _, _ := strings.Cut(rest, "```\n")
	return block
}

// Lines are the commands of such a block: the lines that begin with `$ `, and the indented lines below, which continue them.
func Lines(t testing.TB, path, words string) string {
	t.Helper()
	lines := regexp.MustCompile(`(?m)^\$ .*(\n    .*)*$`).FindAllString(Block(t, path, words), -1)
	require.NotEmpty(t, lines, "%s has no commands below: %s", path, words)
	return prompt.ReplaceAllString(strings.Join(lines, "\n"), "")
}

// Command is a line of a page, and the output that the page shows for it.
type Command struct{ Line, Prints string }

// Commands are the commands of all blocks of a page, block by block.
func Commands(t testing.TB, path string) [][]Command {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	blocks := Blocks(string(text))
	require.NotEmpty(t, blocks, "%s has no commands", path)
	return blocks
}

// Blocks are the commands of a part of a page, for each block that has some.
func Blocks(text string) [][]Command {
	var blocks [][]Command
	for _, block := range regexp.MustCompile("(?ms)^```\n(.*?)^```$").FindAllStringSubmatch(text, -1) {
		var list []Command
		for _, part := range prompt.Split(block[1], -1)[1:] {
			line, prints, _ := strings.Cut(part, "\n")
			list = append(list, Command{line, prints})
		}
		if len(list) > 0 {
			blocks = append(blocks, list)
		}
	}
	return blocks
}

// Matches reports whether the output is what the page shows, where … stands for anything within a line, and on a line
// of its own for any lines.
func (c Command) Matches(printed string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(c.Prints), "…", `[^\n]*`)
	pattern = regexp.MustCompile(`(?m)^\[\^\\n\]\*\n`).ReplaceAllString(pattern, `(?:[^\n]*\n)*`)
	return regexp.MustCompile("^" + pattern + "$").MatchString(printed)
}

// Follow runs a block of a page in one shell, in a folder, and compares each command's output with the page. instead
// has pairs: a text on the page, and its replacement.
func Follow(t testing.TB, dir string, block []Command, instead ...string) {
	t.Helper()
	var lines strings.Builder
	fmt.Fprintf(&lines, "export TMPDIR='%s'\n", dir)
	for i, c := range block {
		fmt.Fprintf(&lines, "exec >'%s/out.%d'\n%s\n", dir, i, strings.TrimSuffix(c.Line, "\n"))
	}
	out, err := Run(t, dir, lines.String(), instead...)
	require.NoError(t, err, "%s\n%s", lines.String(), out)
	for i, c := range block {
		printed, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("out.%d", i)))
		require.NoError(t, err)
		require.True(t, c.Matches(string(printed)), "%s\nprinted:\n%s\nthe page has:\n%s", c.Line, printed, c.Prints)
	}
}

// Run runs lines in a folder; instead has pairs: a text on the page, and its replacement.
func Run(t testing.TB, dir, lines string, instead ...string) (string, error) {
	t.Helper()
	sh := exec.Command("bash", "-euo", "pipefail", "-c", strings.NewReplacer(instead...).Replace(lines))
	sh.Dir = dir
	sh.Env = append(os.Environ(), "PATH="+store.Tools(t)+":"+os.Getenv("PATH"))
	out, err := sh.CombinedOutput()
	return string(out), err
}
