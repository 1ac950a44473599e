package test

import (
	"fmt"
	"strings"

	"emq/test/wire"
)

// Short names for what nearly every test uses.
const (
	identity = wire.Identity
	wire6    = wire.Wire6
	nothing  = wire.Nil
	empty    = wire.Empty
	gone     = wire.Gone
)

var (
	bulk    = wire.Bulk
	integer = wire.Integer
	array   = wire.Array
	claimed = wire.Claimed
	stale   = wire.Stale
	reaped  = wire.Reaped
	status  = wire.Statuses
	value   = wire.Value
	words   = wire.Words
	show    = wire.Line
	with    = wire.With
)

type queue = wire.Queue

// good is the queue of most tests.
const good = queue("q")

// Bounds of the numbers on the wire.
const (
	maxTime  = 1<<52 - 1
	maxInt31 = 1<<31 - 1
)

// escape writes bytes that are not printable ASCII, quotes and backslashes as in a Go string, with every byte of UTF-8
// escaped.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\\' || c == '"':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
