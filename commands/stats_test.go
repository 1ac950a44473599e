package commands

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/assert"
)

// base62 writes a number in the digits of an id, at least 11 of them.
func base62(n *big.Int) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	text := ""
	for rest, digit := new(big.Int).Set(n), new(big.Int); rest.Sign() > 0; {
		rest.DivMod(rest, big.NewInt(62), digit)
		text = digits[digit.Int64():digit.Int64()+1] + text
	}
	return strings.Repeat("0", max(0, 11-len(text))) + text
}

// mintedAt is the canonical id for a time in Unix ms.
func mintedAt(millis int64, low int64) string {
	n := big.NewInt(millis - mintedSince)
	return "JOB" + base62(n.Add(n.Lsh(n, 22), big.NewInt(low)))
}

func TestMinted(t *testing.T) {
	assert.Len(t, mintedAt(now, 0), 14)
	for id, want := range map[string]int64{
		"JOB00000000000":                 mintedSince,
		"JOB00000000001":                 mintedSince,
		mintedAt(now, 0):                 now,
		mintedAt(now, 1<<22-1):           now,
		mintedAt(mintedSince+1, 0):       mintedSince + 1,
		"JOB00000000000000000000000000":  0,
		"JOB0000000001ZZZZZZZZZZZZZZZZ":  1,
		"JOB01JDSVXQR0TESTTESTTESTTEST":  1732813709056,
		"JOB7ZZZZZZZZZZZZZZZZZZZZZZZZZ":  1<<48 - 1,
		"JOB7zzzzzzzzzzzzzzzzzzzzzzzzz":  1<<48 - 1,
		"JOB0123456789ABCDEFGHJKMNPQRS":  1171591994633,
		"JOB0tvwxyz000tvwxyzpqrsmnjkhg":  29546085580800,
		mintedAt(mintedSince+1<<41-1, 7): mintedSince + 1<<41 - 1,
		"JOBAzL8n0Y58m7":                 mintedSince + 1<<41 - 1, // 2^63 − 1
	} {
		got, ok := minted(id)
		assert.True(t, ok, id)
		assert.Equal(t, want, got, id)
	}
	for _, id := range []string{
		"", "JOB", "JOB0000000000", "JOB000000000000", "GRP00000000000", "JOBAzL8n0Y58m8", "JOBzzzzzzzzzzz", "JOBLygHa16AHYF", "JOBLygHa16AHYG",
		"JOB0000000000:", "JOB0000000000/", "JOB0000000000@", "JOB0000000000[", "JOB0000000000`", "JOB0000000000{", "JOB0000000000\x00",
		"JOB0000000000\xff", "JOB+0000000001", "JOB-0000000001", "JOB01JF0000000000000000000",
		"JOB80000000000000000000000000", "JOBzzzzzzzzzzzzzzzzzzzzzzzzzz", "JOB0000000000000000000000000I", "JOB00I00000000000000000000000",
		"JOB0000000000000000000000000l", "JOB0000000000o000000000000000", "JOB0u000000000000000000000000", "JOB0000000000000000000000000-",
		"JOB0000000000000000000000000\x00", "JOB0000000000000000000000000@", "JOB0000000000000000000000000[", "JOB0000000000000000000000000`",
		"JOB0000000000000000000000000{", "JOB0000000000000000000000000/", "JOB0000000000000000000000000:", "GRP01JF0000000000000000000000",
		"JOB01JF000000000000000000000", "JOB01JF00000000000000000000000", "job01JF0000000000000000000000",
	} {
		_, ok := minted(id)
		assert.False(t, ok, "%q", id)
	}
}

// FuzzMinted computes with big integers.
func FuzzMinted(f *testing.F) {
	for _, id := range []string{"JOB00000000000", "JOBAzL8n0Y58m7", "JOBAzL8n0Y58m8", "JOBzzzzzzzzzzz", "JOB0000000000:", "JOB"} {
		f.Add(id)
	}
	f.Add("JOB01JF0000000000000000000000")
	f.Add("JOB7ZZZZZZZZZZZZZZZZZZZZZZZZZ")
	f.Fuzz(func(t *testing.T, id string) {
		if len(id) == 29 {
			checkULID(t, id)
			return
		}
		n, ok := new(big.Int), len(id) == 14 && id[:3] == "JOB"
		for i := 3; ok && i < len(id); i++ {
			digit := strings.IndexByte("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", id[i])
			ok = digit >= 0
			n.Add(n.Mul(n, big.NewInt(62)), big.NewInt(int64(digit)))
		}
		ok = ok && n.IsInt64()
		got, is := minted(id)
		if is != ok || ok && got != n.Rsh(n, 22).Int64()+1704067200000 {
			t.Fatalf("%q: %d, %v", id, got, is)
		}
	})
}

// told returns the numbers of a reply.
func told(r *request) (numbers []int64, err string) {
	o := decideOne(Stats, r, true)
	if o.Text != "" {
		return nil, o.Text
	}
	return o.Numbers[:o.Reply.N], ""
}

func TestStats(t *testing.T) {
	const none = NoNumber
	sets := map[Key]Type{KeyPending: SortedSet, KeyActive: SortedSet, KeySchedule: SortedSet, KeyDead: SortedSet}
	sizes := Figures{
		Sizes: [NumKeys]int64{KeyPending: 1, KeyActive: 2, KeySchedule: 3, KeyDead: 4},
		Next:  [NumKeys]float64{KeyActive: 5000, KeySchedule: 6000},
	}
	counts := map[Key]string{KeyCompleted: "7", KeyFailed: "8"}
	next := func(active, schedule float64) Figures {
		f := sizes
		f.Next[KeyActive], f.Next[KeySchedule] = active, schedule
		return f
	}
	for _, c := range []struct {
		name  string
		found found
		want  []int64
	}{
		{"an empty queue", found{}, []int64{0, 0, 0, 0, 0, 0, none, none, none}},
		{"an empty, unclaimed store", found{identity: "-"}, []int64{0, 0, 0, 0, 0, 0, none, none, none}},
		{"everything", found{types: sets, figures: sizes, counts: counts, entry: mintedAt(now-1500, 9)}, []int64{1, 2, 3, 4, 7, 8, 1500, 6000, 5000}},
		{"on a replica", found{types: sets, figures: sizes, counts: counts, entry: mintedAt(now-1500, 9), replica: true}, []int64{1, 2, 3, 4, 7, 8, 1500, 6000, 5000}},
		{"an id that tells no time", found{types: sets, figures: sizes, counts: counts, entry: "JOB01"}, []int64{1, 2, 3, 4, 7, 8, none, 6000, 5000}},
		{"an entry that is no job", found{types: sets, figures: sizes, counts: counts, entry: "XYZ00000000000"}, []int64{1, 2, 3, 4, 7, 8, none, 6000, 5000}},
		{"an id of this millisecond", found{types: sets, figures: sizes, counts: counts, entry: mintedAt(now, 0)}, []int64{1, 2, 3, 4, 7, 8, 0, 6000, 5000}},
		{"an id from a clock that is ahead", found{types: sets, figures: sizes, counts: counts, entry: mintedAt(now+5000, 0)}, []int64{1, 2, 3, 4, 7, 8, 0, 6000, 5000}},
		{"times between milliseconds", found{types: sets, figures: next(1.9, -1.5), counts: counts}, []int64{1, 2, 3, 4, 7, 8, none, -2, 1}},
		{"times without end", found{types: sets, figures: next(math.Inf(1), math.Inf(-1)), counts: counts},
			[]int64{1, 2, 3, 4, 7, 8, none, math.MinInt64 + 1, math.MaxInt64}},
		{"times past the end", found{types: sets, figures: next(1<<63, -1<<63), counts: counts}, []int64{1, 2, 3, 4, 7, 8, none, math.MinInt64 + 1, math.MaxInt64}},
		{"counters at their ends", found{types: sets, figures: sizes, counts: map[Key]string{KeyCompleted: "9223372036854775807", KeyFailed: "-9223372036854775808"}},
			[]int64{1, 2, 3, 4, math.MaxInt64, math.MinInt64 + 1, none, 6000, 5000}},
		{"broken counters", found{types: sets, figures: sizes, counts: map[Key]string{KeyCompleted: "many", KeyFailed: "9223372036854775808"}}, []int64{1, 2, 3, 4, 0, 0, none, 6000, 5000}},
		{"counters of other types", found{types: map[Key]Type{KeyCompleted: List, KeyFailed: String}}, []int64{0, 0, 0, 0, 0, 0, none, none, none}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := told(c.found.request(Stats, valid(Stats)...))
			assert.Empty(t, err)
			assert.Equal(t, append(c.want, 0, 0, none, none, none, none), got) // gates_test.go has those that are not open
		})
	}
	for _, k := range Table[Stats].Plan.Keys {
		for _, kind := range []Type{String, Hash, SortedSet} {
			_, err := told(found{identity: "-", types: map[Key]Type{k: kind}}.request(Stats, valid(Stats)...))
			assert.Equal(t, `EMQFENCE {emq}:version is absent, yet the queue's `+k.Suffix()+` is there; this executor speaks "echomq:6.0.0"`, err)
		}
		_, err := told(found{types: map[Key]Type{k: String}}.request(Stats, valid(Stats)...))
		assert.Equal(t, k <= KeyDead, strings.HasPrefix(err, "WRONGTYPE "), "%v", k)
		_, err = told(found{identity: "echomq:4.0.0", types: map[Key]Type{k: SortedSet}}.request(Stats, valid(Stats)...))
		assert.Contains(t, err, "EMQFENCE ")
	}
}

// checkStats checks what must be true of every reply.
func checkStats(t *testing.T, r *request, o *decision) {
	t.Helper()
	if o.NumEffects != 0 || o.Next != NextFinish || o.Reply != (Reply{ReplyNumbers, numStats}) || o.Tally != r.Tally {
		t.Fatalf("%s: more than an answer", o.describe(r))
	}
	if r.IdentityType != String {
		for _, k := range Table[Stats].Plan.Keys {
			if r.Types[k] != None {
				t.Fatalf("%v is there without an identity", k)
			}
		}
	}
	for i, n := range o.Numbers {
		if may := i >= statOldestAge; n == NoNumber && !may || i <= statDead && n < 0 || i == statOldestAge && n < 0 && n != NoNumber {
			t.Fatalf("%s is %d", statsFields[i], n)
		}
	}
}

// checkULID decodes a ULID's time with the tables of its specification.
func checkULID(t *testing.T, id string) {
	t.Helper()
	want, err := ulid.ParseStrict(id[3:])
	ok := err == nil && id[:3] == "JOB"
	got, is := minted(id)
	if is != ok || ok && got != int64(want.Time()) {
		t.Fatalf("%q: %d, %v; should be %d, %v: %v", id, got, is, want.Time(), ok, err)
	}
}
