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
}

// Suffix is what follows the queue's base in the key's name.
func (k Key) Suffix() string { return keySuffix[k] }

const (
	basePrefix = "emq:{"
	baseEnd    = "}:"
	// jobPrefix is the namespace of a job id, the three bytes that both executors gate.
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
	q := key[len(basePrefix):]
	end := strings.IndexByte(q, '}')
	if end < 1 || !strings.HasPrefix(q[end:], baseEnd) {
		return "", false
	}
	if q = q[:end]; strings.IndexByte(q, '{') >= 0 || strings.IndexByte(q, 0) >= 0 {
		return "", false
	}
	return key[:len(basePrefix)+end+len(baseEnd)], true
}

// layout checks that each argument that names a key, and each that names the queue's base, is the exact name of one
// and the same queue, and that the row's ends in the id (WIRE6 §2.4). It reports the first argument that is not.
func (c *Command) layout(r *Request) (arg int, queue string, ok bool) {
	for i := range c.Args {
		a := &c.Args[i]
		if a.Role != RoleKey && a.Role != RoleBase && a.Role != RoleRowPrefix {
			continue
		}
		name := r.Args[i+1]
		if queue == "" {
			if queue, ok = base(name); !ok {
				return i, "", false
			}
		}
		rest, same := strings.CutPrefix(name, queue)
		switch {
		case !same:
			return i, queue, false
		case a.Role == RoleBase:
			ok = rest == ""
		case a.Role == RoleRowPrefix:
			ok = rest == keySuffix[KeyRow]
		case a.Key == KeyRow:
			id, isRow := strings.CutPrefix(rest, keySuffix[KeyRow])
			ok = isRow && id == r.Args[c.id]
		default:
			ok = rest == keySuffix[a.Key]
		}
		if !ok {
			return i, queue, false
		}
	}
	return 0, queue, true
}
