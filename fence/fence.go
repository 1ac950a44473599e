// Package fence answers one question: may this executor write to the store it was pointed at?
//
// Every store says which wire its speakers agreed on in one key, read at every command (WIRE6 §3). The package holds
// that identity and the verdict on what was found there; what a verb does with the verdict is the verb's own matter.
package fence

const (
	// Key is the name under which a store keeps the identity of its wire. It is per logical database.
	Key = "{emq}:version"
	// Identity is the wire that this executor speaks, the only value of Key under which it writes.
	Identity = "echomq:6.0.0"
)

// Verdict is what the identity found in a store means for this executor.
type Verdict uint8

const (
	// Ours: present and equal, go on.
	Ours Verdict = iota
	// Absent: no key of that name of whatever type; only a verb that creates a row may claim the store.
	Absent
	// Foreign: present and different, or no string at all; nothing may be written.
	Foreign
)

// Judge gives the verdict on the identity as it was read: whether a key of that name exists, whether it is a string,
// and its bytes.
func Judge(exists, isString bool, value string) Verdict {
	switch {
	case !exists:
		return Absent
	case isString && value == Identity:
		return Ours
	default:
		return Foreign
	}
}
