package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRooms holds that the page of the architecture names every folder, and every file where it tells the files of one.
func TestRooms(t *testing.T) {
	page, named := read(t, "architecture.md"), map[string]bool{}
	for _, word := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(page, -1) {
		named[strings.TrimSuffix(word[1], "/")] = true
	}
	for folder, files := range map[string]bool{"..": false, "../commands": true, "../module": true, "../test": true} {
		entries, err := os.ReadDir(folder)
		require.NoError(t, err)
		for _, e := range entries {
			name := e.Name()
			if strings.HasPrefix(name, ".") || name == "testdata" || !e.IsDir() && (!files || folder == "../commands" && strings.HasSuffix(name, "_test.go")) {
				continue
			}
			stem := strings.TrimSuffix(strings.TrimSuffix(name, filepath.Ext(name)), "_test")
			assert.True(t, named[name] || folder != "../commands" && named[stem] || strings.Contains(page, "`"+name+"/"), "the page does not say what is in %s", filepath.Join(folder, name))
		}
	}
}
