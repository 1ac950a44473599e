package commands

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// QUEUES decides only whether the call is allowed. The host knows the queues and replies with the list.
func TestQueues(t *testing.T) {
	const (
		foreign = `EMQFENCE {emq}:version is "echomq:4.0.0", this executor speaks "echomq:6.0.0"`
		noCount = "ERR count must be an integer from 1 to 1000, got "
	)
	listed := decided{next: NextList}
	refused := func(text string) decided { return decided{err: text} }
	for _, c := range []struct {
		name         string
		after, count string
		found        found
		want         decided
	}{
		{"from the start", "", "1", found{}, listed},
		{"behind a base", "emq:{q}:", "1000", found{}, listed},
		{"behind any bytes", "\x00\xff{}" + strings.Repeat("x", 10_000), "10", found{}, listed},
		{"on a replica", "", "10", found{replica: true}, listed},
		{"without an identity", "", "10", found{identity: "-"}, listed},
		{"on a foreign store", "", "10", found{identity: "echomq:4.0.0"}, refused(foreign)},
		{"the identity is no string", "", "10", found{identityType: Hash}, refused(`EMQFENCE {emq}:version is a hash, this executor speaks "echomq:6.0.0"`)},
		{"none", "", "0", found{}, refused(noCount + `"0"`)},
		{"too many", "", "1001", found{}, refused(noCount + `"1001"`)},
		{"a leading zero", "", "01", found{}, refused(noCount + `"01"`)},
		{"no number", "", "\xff", found{}, refused(noCount + `"\xff"`)},
		{"no number on a foreign store", "", "", found{identity: "echomq:4.0.0"}, refused(noCount + `""`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, decide(Queues, c.found.request(Queues, c.after, c.count)))
		})
	}
}
