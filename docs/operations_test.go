package docs_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What the C side says to the log: the literals of a call, joined, up to its arguments.
var (
	logged   = regexp.MustCompile(`(?s)(vm_Log\(ctx, "\w+"|refuse\(ctx),\s*((?:"(?:[^"\\]|\\.)*"\s*)+)`)
	calls    = regexp.MustCompile(`(vm_Log|refuse)\(`)
	seam     = regexp.MustCompile(`"\s*"`)
	debug    = regexp.MustCompile(`(?s)#ifdef EMQ_DEBUG.*?#endif`)
	argument = regexp.MustCompile(`%[.*\d]*[a-z]+(\.%d)*`)
)

// TestLogLines asserts that the page on operations tells of every line that the module writes to the log. `…` stands for
// what the line fills in.
func TestLogLines(t *testing.T) {
	files, err := filepath.Glob("../module/*.c")
	require.NoError(t, err)
	found := 0
	for _, file := range files {
		source := debug.ReplaceAllString(read(t, file), "")
		for _, call := range logged.FindAllStringSubmatch(source, -1) {
			text := strings.TrimSpace(call[2])
			text = seam.ReplaceAllString(text[1:len(text)-1], "")
			text = argument.ReplaceAllString(text, "…")
			if text == "not loaded: …" { // refuse() itself
				continue
			}
			if strings.HasPrefix(call[1], "refuse") {
				text = "not loaded: " + text
			}
			found++
			mentions(t, "operations.md", "`"+text+"`")
		}
		// Nothing is written that the pattern above misses, but for what is declared and what a step of the load returns.
		for _, at := range calls.FindAllStringIndex(source, -1) {
			rest := source[at[0]:min(len(source), at[1]+40)]
			assert.True(t, logged.MatchString(source[at[0]:min(len(source), at[1]+300)]) || strings.HasPrefix(rest, "refuse(vm_ctx") ||
				strings.HasPrefix(rest, "refuse(ctx, failed)"), "%s: %q", file, rest)
		}
	}
	require.Greater(t, found, 15)
}

// TestRecipesAreTested: each test that the pages name exists.
func TestRecipesAreTested(t *testing.T) {
	for _, page := range []string{operation, protocol} {
		found := witness.FindAllStringSubmatch(read(t, page), -1)
		require.NotEmpty(t, found)
		for _, name := range found {
			assert.Contains(t, read(t, name[2]), "\nfunc "+name[1]+"(t *testing.T)", name[2])
		}
	}
}
