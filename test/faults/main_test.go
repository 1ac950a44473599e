package faults

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"emq/test/wire"

	"emq/test/store"
)

// number reads a number from INFO.
func number(t testing.TB, c *wire.Conn, name string) int {
	t.Helper()
	n, err := strconv.Atoi(c.Info(name))
	require.NoError(t, err, name)
	return n
}

// report writes the load's row of the table that `make proof` prints. It runs at the very end, so that there is a row
// wherever the test failed.
func report(t testing.TB, c *crowd) {
	jobs, broken := c.tally()
	head, row := "fault|rounds|jobs", fmt.Sprintf("%s|%d|%d", c.fault, c.rounds, jobs)
	for b, n := range broken {
		head, row = head+"|"+breachNames[b], row+"|"+strconv.Itoa(n)
	}
	verdict := "held"
	if t.Failed() {
		verdict = "FAILED"
	}
	head, row = head+"|verdict\n", row+"|"+verdict+"\n"
	t.Logf("%d promises, %d settlements too late, %d answers that never came\n%s%s", c.kept, c.late, c.doubt, head, row)
	path := os.Getenv("EMQ_TABLE")
	if path == "" {
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil && size == 0 {
		row = head + row
	}
	_, err = f.WriteString(row)
	require.NoError(t, err)
}

func TestMain(m *testing.M) {
	store.Needs("VALKEY_SERVER", "EMQ_MODULE")
	redis.SetLogger(silence{}) // the client would log every server that is down
	os.Exit(m.Run())
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
