package docs_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// witness finds a test that a page names, with the file that it says it is in.
var witness = regexp.MustCompile(`\[(Test\w+)\]\(([^)]+)\)`)

// TestWitnesses: each test that stands beside a promise exists, and each row of a table of promises names one.
func TestWitnesses(t *testing.T) {
	text, err := os.ReadFile("guarantees.md")
	require.NoError(t, err)
	found := witness.FindAllStringSubmatch(string(text), -1)
	require.Greater(t, len(found), 30)
	for _, name := range found {
		source, err := os.ReadFile(name[2])
		if assert.NoError(t, err) {
			assert.Contains(t, string(source), "\nfunc "+name[1]+"(t *testing.T)", name[2])
		}
	}
	for line := range strings.SplitSeq(string(text), "\n") {
		if strings.HasPrefix(line, "| ") && !strings.HasPrefix(line, "| ---") && !strings.HasSuffix(line, "| held by |") {
			assert.Regexp(t, witness, line)
		}
	}
}
