package conformance

import (
	"context"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"emq/test/store"
)

// What a package alone must keep, in its own language: errors of its types, values and times that make no sense there, processes
// that fork, signals. Scenarios that all clients can play are in scenarios.json.
func TestUnits(t *testing.T) {
	for _, c := range clients(t) {
		var argv []string
		switch c.argv[len(c.argv)-1] {
		case "threads":
			argv = []string{c.argv[0], "units.py"}
		case "iovalkey", "ioredis":
			argv = []string{c.argv[0], "--test-reporter=spec", "units.mjs"}
		default: // the units of Python are those of both of its forms
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			c.need(t)
			t.Parallel()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
			cmd.Env = append(append(os.Environ(), c.env...), "EMQ_LIBRARY="+c.name, "EMQ_URL=valkey://"+store.Open(t, store.Pumped("--emq.pump-interval-ms", "10")).Addr())
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
}
