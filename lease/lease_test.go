package lease_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"emq/lease"
)

func TestDecimal(t *testing.T) {
	for s, want := range map[string]int64{
		"0": 0, "1": 1, "9": 9, "10": 10, "1732872600000": 1732872600000,
		"4503599627370495": 1<<52 - 1, "9007199254740990": 1<<53 - 2, "9007199254740991": 1<<53 - 1,
	} {
		n, ok := lease.Decimal(s)
		assert.True(t, ok, s)
		assert.Equal(t, want, n, s)
	}
	for _, s := range []string{
		"", " ", "-1", "+5", "05", "00", "1.5", "1e3", "0x10", " 1", "1 ", "1\n", "1\x00", "\x001", "/", ":", "١",
		"9007199254740992", "9999999999999999", "18446744073709551617", strings.Repeat("9", 30), strings.Repeat("0", 30),
	} {
		_, ok := lease.Decimal(s)
		assert.False(t, ok, "%q", s)
	}
}

func TestCount(t *testing.T) {
	assert.Equal(t, int64(7), lease.Count("7"))
	assert.Equal(t, int64(lease.MaxStored), lease.Count("9007199254740990"))
	for _, s := range []string{"", "-1", "07", "abc", "9007199254740991"} {
		assert.Zero(t, lease.Count(s), "%q", s)
	}
}

func TestNextToken(t *testing.T) {
	n, ok := lease.NextToken("0")
	assert.True(t, ok)
	assert.Equal(t, int64(1), n)
	n, ok = lease.NextToken("9007199254740990")
	assert.True(t, ok)
	assert.Equal(t, int64(lease.MaxInt), n)
	for _, s := range []string{"", "abc", "-1", "01", "9007199254740991"} {
		_, ok = lease.NextToken(s)
		assert.False(t, ok, "%q", s)
	}
}

func TestHeld(t *testing.T) {
	for _, c := range []struct {
		name, state, attempts, token string
		epoch, want                  bool
	}{
		{"the holder", "active", "1", "1", true, true},
		{"a lease of the scripts, without an epoch", "active", "1", "1", false, true},
		{"lapsed and returned, not claimed again", "pending", "1", "1", true, true},
		{"given back by FAIL, promoted", "pending", "1", "1", false, false},
		{"given back by FAIL, waiting", "scheduled", "1", "1", false, false},
		{"waiting with an epoch left behind", "scheduled", "1", "1", true, false},
		{"dead", "dead", "1", "1", true, false},
		{"an older token", "active", "2", "1", true, false},
		{"a token of the future", "active", "1", "2", true, false},
		{"never claimed", "pending", "0", "0", true, false},
		{"never claimed, yet active", "active", "0", "0", true, false},
		{"the same number spelled otherwise", "active", "1", "01", true, false},
		{"both spelled otherwise", "active", "01", "01", true, false},
		{"no attempts, empty token", "active", "", "", true, false},
		{"words", "active", "abc", "abc", true, false},
		{"the last token there is", "active", "9007199254740991", "9007199254740991", true, true},
		{"one past it", "active", "9007199254740992", "9007199254740992", true, false},
		{"no state", "", "1", "1", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, lease.Held(c.state, c.attempts, c.token, c.epoch))
		})
	}
}

func TestStall(t *testing.T) {
	for _, c := range []struct {
		stalled string
		max     int64
		want    int64
		over    bool
	}{
		{"", 3, 1, false}, {"0", 3, 1, false}, {"1", 3, 2, false}, {"2", 3, 3, true}, {"3", 3, 4, true}, {"900", 3, 901, true},
		{"", 1, 1, true}, {"", 2, 1, false}, {"many", 1, 1, true}, {"many", 2, 1, false}, {"-5", 2, 1, false}, {"02", 3, 1, false},
		{"", 0, 1, false}, {"5", 0, 6, false}, {"9007199254740990", 0, 9007199254740991, false},
		{"2147483646", lease.MaxAttempts, 2147483647, true}, {"2147483645", lease.MaxAttempts, 2147483646, false},
		{"9007199254740990", lease.MaxAttempts, 9007199254740991, true}, {"9007199254740991", 2, 1, false},
	} {
		n, over := lease.Stall(c.stalled, c.max)
		assert.Equal(t, c.want, n, "%q of %d", c.stalled, c.max)
		assert.Equal(t, c.over, over, "%q of %d", c.stalled, c.max)
	}
}

// FuzzDecimal checks the canonical form: a text is accepted if and only if it is how the number prints.
func FuzzDecimal(f *testing.F) {
	for _, s := range []string{"0", "05", "-1", "9007199254740991", "9007199254740992", "1e3", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		n, ok := lease.Decimal(s)
		want, err := strconv.ParseUint(s, 10, 64)
		canonical := err == nil && want <= lease.MaxInt && strconv.FormatUint(want, 10) == s
		assert.Equal(t, canonical, ok)
		if ok {
			assert.Equal(t, int64(want), n)
		}
	})
}
