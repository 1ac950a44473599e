// Package lease answers one question: who holds a job, and until when?
//
// A claim grants a lease: it counts the row's attempts up, and that count is the fencing token the holder must present.
// Deadlines are Unix milliseconds on the server's clock. The package decides on plain data; it reads no clock.
package lease

// States of a job row, as its `state` field spells them (WIRE6 §1).
const (
	Pending   = "pending"
	Active    = "active"
	Scheduled = "scheduled"
	Dead      = "dead"
)

const (
	// MaxMillis bounds every time argument (lease, delay, due, timeout): 2^52−1 ms, so that now + MaxMillis is still
	// an exact score.
	MaxMillis = 1<<52 - 1
	// MaxAttempts bounds the caps max and max_stalled: 2^31−1.
	MaxAttempts = 1<<31 - 1
)

// Deadline is the instant, in Unix ms, at which a lease or delay of the given ms ends.
func Deadline(now, millis int64) int64 { return now + millis }

// NextToken is the fencing token of the claim that follows the given `attempts` field. ok is false for a bad row: the
// field is missing, is no canonical integer, or cannot be counted up (WIRE6 §1).
func NextToken(attempts string) (token int64, ok bool) {
	n, ok := Decimal(attempts)
	return n + 1, ok && n <= MaxStored
}

// Held tells whether the presented token is the one of the row's current holder (WIRE6 §4, The holder): it equals
// `attempts` byte for byte, the row was claimed at least once, and the lease was not given back. A lease that lapsed
// and was returned to pending (state pending with an epoch) is still its holder's until somebody claims the job again.
func Held(state, attempts, token string, hasEpoch bool) bool {
	if token != attempts {
		return false
	}
	if n, ok := Decimal(attempts); !ok || n < 1 {
		return false
	}
	return state == Active || (state == Pending && hasEpoch)
}

// Stall counts a lost lease: it gives the row's next `stalled`, and whether that is at the cap (WIRE6 §6, REAP). A cap
// of 0 is never reached.
func Stall(stalled string, max int64) (n int64, over bool) {
	n = Count(stalled) + 1
	return n, max > 0 && n >= max
}
