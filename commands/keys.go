package commands

import "strings"

// keySuffix holds what follows a queue's base in each key's name (WIRE6 §1); a row's is followed by the id.
var keySuffix = [NumKeys]string{
	KeyRow:       "job:",
	KeyPending:   "pending",
	KeyActive:    "active",
	KeySchedule:  "schedule",
	KeyDead:      "dead",
	KeyCompleted: "metrics:completed",
	KeyFailed:    "metrics:failed",
	KeyMeta:      "meta",
}

// Suffix is what follows the queue's base in the key's name.
func (k Key) Suffix() string { return keySuffix[k] }

const (
	basePrefix = "emq:{"
	baseEnd    = "}:"
	// jobPrefix is the namespace of a job id, the three bytes that both executors check.
	jobPrefix = "JOB"
)

// IsJob tells whether an id is in the namespace of jobs.
func IsJob(id string) bool { return strings.HasPrefix(id, jobPrefix) }

// base cuts the queue's base, `emq:{q}:`, off a key's name. A queue's name is not empty and holds no brace and no NUL;
// any other bytes and any length will do.
func base(key string) (string, bool) {
	if !strings.HasPrefix(key, basePrefix) {
		return "", false
	}
	for i := len(basePrefix); i < len(key); i++ {
		switch key[i] {
		case '}':
			if i == len(basePrefix) || !strings.HasPrefix(key[i:], baseEnd) {
				return "", false
			}
			return key[:i+len(baseEnd)], true
		case '{', 0:
			return "", false
		}
	}
	return "", false
}

// place is an argument that names a key, or the queue's base.
type place struct {
	arg    int // in Request.Args
	isRow  bool
	suffix string // follows the base; in a row's name the id comes after it
}

// placeOf tells whether an argument names a key or the base, and what it must be.
func placeOf(arg int, a *Arg) (place, bool) {
	switch a.Role {
	case RoleKey:
		return place{arg, a.Key == KeyRow, keySuffix[a.Key]}, true
	case RoleRowPrefix:
		return place{arg, false, keySuffix[KeyRow]}, true
	case RoleBase:
		return place{arg, false, ""}, true
	}
	return place{}, false
}

// layout checks that each argument that names a key, and each that names the queue's base, is the exact name of one
// and the same queue, and that the row's ends in the id (WIRE6 §2.4). It reports the first argument that is not.
func (v *Command) layout(c *Call) (arg int, queue string, ok bool) {
	if v.Plan.Jobs == ListedQueues {
		return v.layoutQueues(c)
	}
	if len(v.places) == 0 {
		return 0, "", true
	}
	if queue, ok = base(c.Args[v.places[0].arg]); !ok {
		return v.places[0].arg - 1, "", false
	}
	args, places := c.Args, v.places
	for i := range places {
		p := &places[i]
		rest, ok := strings.CutPrefix(args[p.arg], queue)
		if ok && p.isRow {
			rest, ok = strings.CutSuffix(rest, args[v.at[RoleID]])
		}
		if !ok || rest != p.suffix {
			return p.arg - 1, queue, false
		}
	}
	return 0, queue, true
}

// layoutQueues checks that each argument of the list is the base of a queue.
func (v *Command) layoutQueues(c *Call) (arg int, queue string, ok bool) {
	for i := v.listAt; i < len(c.Args); i++ {
		if b, ok := base(c.Args[i]); !ok || b != c.Args[i] {
			return i - 1, b, false
		}
	}
	return 0, "", true
}
