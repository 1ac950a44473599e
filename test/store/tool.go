package store

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Tools is the folder of the server's tools, such as valkey-cli. A test that needs them is skipped if there are none,
// because an image may have only the server.
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
