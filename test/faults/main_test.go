package faults

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"emq/test/wire"
)

// number reads a number from INFO.
func number(t testing.TB, c *wire.Conn, name string) int {
	t.Helper()
	n, err := strconv.Atoi(c.Info(name))
	require.NoError(t, err, name)
	return n
}

// report fails the test if the ledger found a promise broken, and writes the fault's row of the table that `make proof`
// prints.
func report(t testing.TB, fault string, rounds int, c *crowd) {
	t.Helper()
	jobs := 0
	c.Lock()
	for _, j := range c.jobs {
		if j.enqueued != 0 {
			jobs++
		}
	}
	lost, twice := len(c.lost), len(c.twice)
	t.Logf("%s: %d rounds, %d jobs, %d lost, %d doubled; %d promises, %d stale settlements, %d answers that never came",
		fault, rounds, jobs, lost, twice, c.kept, c.stale, c.doubt)
	c.Unlock()
	if path := os.Getenv("EMQ_TABLE"); path != "" {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		require.NoError(t, err)
		_, err = f.WriteString(strings.Join([]string{fault, strconv.Itoa(rounds), strconv.Itoa(jobs), strconv.Itoa(lost), strconv.Itoa(twice)}, "|") + "\n")
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	c.verdict(t)
}

func TestMain(m *testing.M) {
	for _, name := range []string{"VALKEY_SERVER", "EMQ_MODULE"} {
		if os.Getenv(name) == "" {
			fmt.Fprintf(os.Stderr, "%s is not set, and `make test` sets it\n", name)
			os.Exit(1)
		}
	}
	redis.SetLogger(silence{}) // a server that is down is nothing to tell of
	os.Exit(m.Run())
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
