package store

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Tools is the folder of the tools that belong to the server, valkey-cli and the others. Without them a test of theirs is
// skipped: an image may have the server alone.
func Tools(t testing.TB) string {
	t.Helper()
	for _, server := range []string{os.Getenv("VALKEY_SERVER"), "valkey-server"} {
		if path, err := exec.LookPath(server); err == nil {
			dir := filepath.Dir(path)
			if _, err := exec.LookPath(filepath.Join(dir, "valkey-check-aof")); err == nil {
				return dir
			}
		}
	}
	t.Skip("no valkey-check-aof and the rest beside the server")
	return ""
}
