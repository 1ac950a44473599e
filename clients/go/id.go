package emq

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"time"
)

// ID names a job: JOB and 11 base-62 digits (0–9 A–Z a–z) of a 63-bit number, whose upper 41 bits are the milliseconds
// since 2024-01-01 UTC. Ids sort by the time at which they were made, and jobs are claimed in that order.
//
// Jobs that other programs enqueue may have other ids: JOB and any bytes. They are handled like all others; this package
// makes none.
type ID string

const (
	idPrefix = "JOB"
	idLen    = 14
	idEpoch  = 1704067200000 // 2024-01-01 UTC in Unix ms
	digits   = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

	nodeBits = 12
	seqBits  = 10
	lowBits  = nodeBits + seqBits
	maxID    = 1<<63 - 1
)

// ParseID returns the id that a text is, or an error that says why it is none. All of it is checked: JOB, the length, each
// digit, and that the number has no more than 63 bits.
func ParseID(s string) (ID, error) {
	if _, err := ID(s).number(); err != nil {
		return "", err
	}
	return ID(s), nil
}

// Time is when the id was made, to the millisecond; the zero time for an id that this package would not make.
func (id ID) Time() time.Time {
	n, err := id.number()
	if err != nil {
		return time.Time{}
	}
	return time.UnixMilli(int64(n>>lowBits) + idEpoch)
}

// LeastID is the least of the ids that are made at a time, to the millisecond, or later.
func LeastID(t time.Time) ID {
	ms := min(max(t.UnixMilli()-idEpoch, 0), maxID>>lowBits)
	return formatID(uint64(ms) << lowBits)
}

func (id ID) number() (n uint64, err error) {
	if len(id) != idLen || id[:len(idPrefix)] != idPrefix {
		return 0, fmt.Errorf("emq: %.40q is no job id: that is JOB and 11 base-62 digits (0-9, A-Z, a-z)", string(id))
	}
	for _, c := range []byte(id[len(idPrefix):]) {
		var d uint64
		switch {
		case '0' <= c && c <= '9':
			d = uint64(c - '0')
		case 'A' <= c && c <= 'Z':
			d = uint64(c-'A') + 10
		case 'a' <= c && c <= 'z':
			d = uint64(c-'a') + 36
		default:
			return 0, fmt.Errorf("emq: %q is no job id: %q is no base-62 digit (0-9, A-Z, a-z)", string(id), c)
		}
		// 11 digits may be more than 64 bits.
		if n > (maxID-d)/62 {
			return 0, fmt.Errorf("emq: %q is no job id: its number has more than 63 bits", string(id))
		}
		n = n*62 + d
	}
	return n, nil
}

func formatID(n uint64) ID {
	b := [idLen]byte{'J', 'O', 'B'}
	for i := idLen - 1; i >= len(idPrefix); i-- {
		b[i] = digits[n%62]
		n /= 62
	}
	return ID(b[:])
}

// mint makes ids, each greater than the one before. Below the time an id has the number of its node, picked at random, and
// a sequence. Two nodes may pick the same number, so whoever enqueues a new id looks whether it was there: see reseed.
type mint struct {
	mu   sync.Mutex
	last uint64 // time and sequence, without the node between
	node uint64
	now  func() time.Time
}

func newMint() *mint {
	m := &mint{now: time.Now}
	m.reseed()
	return m
}

// reseed picks another node.
func (m *mint) reseed() {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	m.mu.Lock()
	defer m.mu.Unlock()
	m.node = binary.LittleEndian.Uint64(b[:]) & (1<<nodeBits - 1)
}

// next makes an id. A clock that stands, or steps back, does not repeat one, nor does a sequence that is used up: the time in
// the ids then runs ahead of the clock.
func (m *mint) next() ID {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := uint64(max(m.now().UnixMilli()-idEpoch, 0)) << seqBits
	m.last = max(m.last+1, now)
	return formatID(m.last>>seqBits<<lowBits | m.node<<seqBits | m.last&(1<<seqBits-1))
}
