package model

import (
	"slices"
	"strconv"
	"strings"

	"emq/test/store"
	"emq/test/wire"
)

// operator describes, by its form in the contract, a verb that declares the base and is about one job, listed jobs, or
// the gates.
type operator struct {
	form   string
	listed bool     // the last word of the form may come again
	states []string // the values of the word `state`
	looks  string   // the keys whose types are checked
	absent func(c *call, ids []string) (reply string, ok bool)
	do     func(c *call, ids []string) string
}

var operators = map[string]operator{
	"EMQ.RELEASE": {"base id token delay_ms", false, nil, "row active pending schedule", (*call).noRow, (*call).release},
	"EMQ.REQUEUE": {"base state id", true, []string{"dead", "scheduled"}, "pending active schedule dead", (*call).noSets, (*call).requeue},
	"EMQ.REMOVE": {"base state id", true, []string{"pending", "active", "scheduled", "dead", "any"}, "pending active schedule dead", (*call).noSets,
		(*call).removeJobs},
	"EMQ.PAUSE":  {"base ms", false, nil, "meta", nil, (*call).pause},
	"EMQ.RESUME": {"base", false, nil, "meta", nil, (*call).resume},
	"EMQ.LIMIT":  {"base concurrency rate_max duration_ms", false, nil, "meta", nil, (*call).limit},
}

// run makes the checks of such a verb, in their order.
func (v operator) run(c *call, args []string) string {
	form, words := strings.Fields(v.form), args[1:]
	if len(words) < len(form) || !v.listed && len(words) > len(form) {
		return "-ERR wrong number of arguments for '" + args[0] + "' command\r\n"
	}
	c.arg = map[string]string{}
	for i, word := range form {
		c.arg[word] = words[i]
	}
	var ids []string
	if at := slices.Index(form, "id"); v.listed {
		ids = words[at:]
	} else if at > 0 {
		ids = words[at : at+1]
	}
	for _, id := range ids {
		if !strings.HasPrefix(id, "JOB") {
			return wire.Kind
		}
	}
	q, rest, ok := wire.Split(c.arg["base"])
	if !ok || rest != "" {
		return "-EMQKEY base must be "
	}
	c.q = q
	if state, ok := c.arg["state"]; ok && !slices.Contains(v.states, state) {
		return "-ERR state must be "
	}
	for _, word := range form {
		if r, ok := ranges[word]; ok {
			if n, ok := integer(c.arg[word]); !ok || n < r[0] || n > r[1] {
				return "-ERR " + strings.TrimPrefix(word, "rate_") + " must be an integer from "
			}
		}
	}
	if args[0] == "EMQ.LIMIT" && (c.number("rate_max") == 0) != (c.number("duration_ms") == 0) {
		return "-ERR max and duration_ms must both be 0 or both be more\r\n"
	}
	if identity := c.db[wire.Identity]; identity == nil && v.absent != nil {
		if reply, ok := v.absent(c, ids); ok {
			return reply
		}
		return "-EMQFENCE {emq}:version is "
	} else if identity != nil && identity != any(store.String(wire.Wire6)) {
		return "-EMQFENCE {emq}:version is "
	}
	for _, word := range strings.Fields(v.looks) {
		if !c.fits(word) {
			return wire.WrongType
		}
	}
	return v.do(c, ids)
}

// fits reports whether a key is absent or of the right type.
func (c *call) fits(word string) bool {
	switch c.db[c.names()[word]].(type) {
	case nil:
		return true
	case store.Hash:
		return word == "row" || word == "meta"
	case store.ZSet:
		return word != "row" && word != "meta"
	}
	return false
}

func (c *call) noRow([]string) (string, bool) {
	return wire.Gone, c.db[c.q.Row(c.arg["id"])] == nil
}

func (c *call) noSets(ids []string) (string, bool) {
	for _, set := range wire.SetOf {
		if c.db[c.q.Base()+set] != nil {
			return "", false
		}
	}
	return wire.Statuses(make([]int64, len(ids))...), true
}

func (c *call) release([]string) string {
	id := c.arg["id"]
	row, refusal := c.handBack("release")
	if refusal != "" {
		return refusal
	}
	later := c.number("delay_ms") > 0
	if !remove(c.db, c.q.Active(), id) && later {
		remove(c.db, c.q.Pending(), id)
	}
	if later {
		row["state"] = "scheduled"
		c.due(c.q.Schedule(), id, c.number("delay_ms"))
	} else {
		row["state"] = "pending"
		add(c.db, c.q.Pending(), id, 0)
	}
	return wire.Bulk(row["state"])
}

// operate calls do for each listed job that is in the given state, and returns the statuses.
func (c *call) operate(ids []string, do func(id string, row store.Hash)) string {
	var statuses []int64
	for _, id := range ids {
		row, ok := c.db[c.q.Row(id)].(store.Hash)
		_, lane := row["group"]
		_, flow := row["parent"]
		switch state := c.arg["state"]; {
		case !ok:
			statuses = append(statuses, 0)
		case lane || flow:
			statuses = append(statuses, -2)
		case state != "any" && state != row["state"]:
			statuses = append(statuses, 0)
		default:
			statuses = append(statuses, 1)
			do(id, row)
		}
	}
	return wire.Statuses(statuses...)
}

func (c *call) requeue(ids []string) string {
	return c.operate(ids, func(id string, row store.Hash) {
		remove(c.db, c.q.Set(row["state"]), id)
		if row["state"] == "dead" {
			for _, field := range []string{"failures", "stalled", "last_error", "lease_epoch"} {
				delete(row, field)
			}
		}
		row["state"] = "pending"
		add(c.db, c.q.Pending(), id, 0)
	})
}

func (c *call) removeJobs(ids []string) string {
	return c.operate(ids, func(id string, _ store.Hash) {
		for _, set := range wire.SetOf {
			remove(c.db, c.q.Base()+set, id)
		}
		delete(c.db, c.q.Row(id))
	})
}

// ---- The gates ----

// gate is the value of a field of meta, if it is a number in its range.
func (c *call) gate(field string, least, most int64) (int64, bool) {
	meta, _ := c.db[c.q.Meta()].(store.Hash)
	n, ok := integer(meta[field])
	return n, ok && n >= least && n <= most
}

// isAfter reports whether a time is after now; if that is not known, the choice is by chance.
func (c *call) isAfter(at int64) bool {
	switch {
	case at > c.clock.To:
		return true
	case at <= c.clock.From:
		return false
	}
	return c.clock.choose(2) == 0
}

func (c *call) paused() bool {
	meta, _ := c.db[c.q.Meta()].(store.Hash)
	if meta["paused"] != "1" {
		return false
	}
	until, ok := c.gate("paused_until", 0, 1<<53-2)
	_, timed := meta["paused_until"]
	return !timed || ok && c.isAfter(until)
}

// room is the number of jobs that a claim may hand out, and whether there is a rate limit and a new window begins.
func (c *call) room() (n int64, rated, begins bool) {
	n = 1 << 53
	if c.paused() {
		return 0, false, false
	}
	if most, ok := c.gate("concurrency", 1, 1<<31-1); ok {
		active, _ := c.db[c.q.Active()].(store.ZSet)
		n = max(0, most-int64(len(active)))
	}
	most, hasMax := c.gate("max", 1, 1<<31-1)
	duration, hasDuration := c.gate("duration", 1, 1<<52-1)
	if !hasMax || !hasDuration {
		return n, false, false
	}
	window, ok := c.gate("window", 0, 1<<53-2)
	_, fresh := c.w.fresh[deadline{c.q.Meta(), "window", float64(window)}]
	used := int64(0)
	if begins = !ok || !fresh && c.isAfter(window) || !c.isAfter(window+duration); !begins {
		if n, ok := c.gate("used", 0, 1<<53-2); ok {
			used = n
		}
	}
	return min(n, max(0, most-used)), true, begins
}

// spend counts handed-out jobs against the rate limit.
func (c *call) spend(jobs int64, rated, begins bool) {
	if jobs == 0 || !rated {
		return
	}
	meta := c.db[c.q.Meta()].(store.Hash)
	used, ok := c.gate("used", 0, 1<<53-2)
	if begins || !ok {
		used = 0
	}
	if begins {
		c.stamp(meta, "window", 0)
	}
	meta["used"] = strconv.FormatInt(used+jobs, 10)
}

// stamp sets a field of meta to a time ms from now.
func (c *call) stamp(meta store.Hash, field string, ms int64) {
	at := c.clock.From + ms
	meta[field] = strconv.FormatInt(at, 10)
	c.w.fresh[deadline{c.q.Meta(), field, float64(at)}] = c.clock.To + ms
}

// change writes to meta. It claims the store if anything changes, and removes meta if no field is left.
func (c *call) change(do func(meta store.Hash)) {
	meta, there := c.db[c.q.Meta()].(store.Hash)
	if !there {
		meta = store.Hash{}
	}
	was := len(meta)
	before := map[string]string{}
	for field, value := range meta {
		before[field] = value
	}
	do(meta)
	changed := was != len(meta)
	for field, value := range meta {
		changed = changed || before[field] != value
	}
	if !changed {
		return
	}
	c.db[wire.Identity] = store.String(wire.Wire6)
	c.db[c.q.Meta()] = meta
	if len(meta) == 0 {
		delete(c.db, c.q.Meta())
	}
}

func (c *call) pause([]string) string {
	c.change(func(meta store.Hash) {
		meta["paused"] = "1"
		delete(meta, "paused_until")
		if ms := c.number("ms"); ms > 0 {
			c.stamp(meta, "paused_until", ms)
		}
	})
	return wire.OK
}

func (c *call) resume([]string) string {
	paused := c.paused()
	c.change(func(meta store.Hash) {
		delete(meta, "paused")
		delete(meta, "paused_until")
	})
	if paused {
		return wire.Integer(1)
	}
	return wire.Integer(0)
}

func (c *call) limit([]string) string {
	c.change(func(meta store.Hash) {
		delete(meta, "window")
		delete(meta, "used")
		for field, word := range map[string]string{"concurrency": "concurrency", "max": "rate_max", "duration": "duration_ms"} {
			if delete(meta, field); c.number(word) > 0 {
				meta[field] = c.arg[word]
			}
		}
	})
	return wire.OK
}
