package lease

const (
	// MaxInt is the largest integer that every speaker of the wire holds exactly, 2^53−1: sorted-set scores and many
	// client languages keep numbers as doubles.
	MaxInt = 1<<53 - 1
	// MaxStored is the largest value of a number field in a row that can still be counted up (WIRE6 §1).
	MaxStored = MaxInt - 1
)

// Decimal reads a canonical decimal integer from 0 to MaxInt: digits alone, no sign, no leading zero. ok is false for
// anything else, so that a number has one spelling and can be compared byte for byte.
func Decimal(s string) (n int64, ok bool) {
	const maxDigits = 16 // of 2^53−1
	if len(s) == 0 || len(s) > maxDigits || (s[0] == '0' && len(s) > 1) {
		return 0, false
	}
	for i := 0; i < len(s); i++ {
		d := s[i] - '0'
		if d > 9 {
			return 0, false
		}
		n = n*10 + int64(d)
	}
	return n, n <= MaxInt
}

// Count reads a number field that counts events (failures, stalled). A field that is missing or is no canonical
// integer up to MaxStored counts as 0 (WIRE6 §1): a broken counter must not keep a job from being settled.
func Count(s string) int64 {
	if n, ok := Decimal(s); ok && n <= MaxStored {
		return n
	}
	return 0
}
