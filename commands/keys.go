package commands

import "strings"

// Suffixes of the keys that callers name, after the queue's base; a row's is followed by the id.
const (
	suffixRow      = "job:"
	suffixPending  = "pending"
	suffixActive   = "active"
	suffixSchedule = "schedule"
	suffixDead     = "dead"
)

// keySuffix holds each key's suffix after the queue's base (WIRE6 §1).
var keySuffix = [NumKeys]string{
	KeyRow:       suffixRow,
	KeyPending:   suffixPending,
	KeyActive:    suffixActive,
	KeySchedule:  suffixSchedule,
	KeyDead:      suffixDead,
	KeyCompleted: "metrics:completed",
	KeyFailed:    "metrics:failed",
	KeyMeta:      "meta",
}

// Suffix is what follows the queue's base in the key's name.
func (k Key) Suffix() string { return keySuffix[k] }

const (
	basePrefix = "emq:{"
	baseEnd    = "}:"
	// jobPrefix is the namespace of job ids, which both executors check.
	jobPrefix = "JOB"
)

// IsJob tells whether an id is in the namespace of jobs.
func IsJob(id string) bool { return strings.HasPrefix(id, jobPrefix) }

// base returns the queue's base, `emq:{q}:`, with which a key's name begins. A queue's name must not be empty or contain a
// brace or NUL; any other bytes and any length are valid.
func base(key string) (string, bool) {
	if !strings.HasPrefix(key, basePrefix) {
		return "", false
	}
	for i := len(basePrefix); i < len(key); i++ {
		switch key[i] {
		case '}':
			end := i + len(baseEnd)
			if i == len(basePrefix) || end > len(key) || key[i:end] != baseEnd {
				return "", false
			}
			return key[:end], true
		case '{', 0:
			return "", false
		}
	}
	return "", false
}

// place is an argument that names a key, or the queue's base.
type place struct {
	arg  int // in Call.Args
	role Role
	key  Key
}

// follows reports whether the rest of a name, after the queue's base, is right. Constants are compared without a call.
func (p *place) follows(rest, id string) bool {
	switch {
	case p.role == RoleBase:
		return rest == ""
	case p.role == RoleRowPrefix:
		return rest == suffixRow
	case p.key == KeyRow:
		return strings.HasPrefix(rest, suffixRow) && rest[len(suffixRow):] == id
	case p.key == KeyPending:
		return rest == suffixPending
	case p.key == KeyActive:
		return rest == suffixActive
	}
	return rest == keySuffix[p.key]
}

// layout checks that all arguments that name a key or the queue's base are exact names of the same queue, and that the row's
// name ends in the id (WIRE6 §2.4). It returns the first argument that is wrong.
func (v *Command) layout(c *Call) (arg int, queue string, ok bool) {
	args, places, id := c.Args, v.places, ""
	if len(places) == 0 {
		return v.layoutQueues(c)
	}
	if at := v.At(RoleID); at > 0 {
		id = args[at]
	}
	name := args[places[0].arg]
	if queue, ok = base(name); !ok {
		return places[0].arg - 1, "", false
	}
	for i := range places {
		p := &places[i]
		if i > 0 {
			name = args[p.arg]
			if !strings.HasPrefix(name, queue) {
				return p.arg - 1, queue, false
			}
		}
		if !p.follows(name[len(queue):], id) {
			return p.arg - 1, queue, false
		}
	}
	return 0, queue, true
}

// layoutQueues checks that each argument of a list of queues is a base.
func (v *Command) layoutQueues(c *Call) (arg int, queue string, ok bool) {
	if v.Plan.Jobs != ListedQueues {
		return 0, "", true
	}
	for i := v.listAt; i < len(c.Args); i++ {
		if b, ok := base(c.Args[i]); !ok || b != c.Args[i] {
			return i - 1, b, false
		}
	}
	return 0, "", true
}
