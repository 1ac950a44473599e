// Package model answers one question: by the contract alone, what does a server store and reply after any history of
// calls? It is a server in Go, as simple as possible and written from the contract: the verbs, and the plain commands
// by which operators, scripts and vandals change the same keys.
package model

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"emq/test/store"
	"emq/test/wire"
)

// Clients is the number of clients of a World.
const Clients = 3

// World is the whole state of a server: what it stores, and which database each client has selected.
type World struct {
	store.Contents
	Selected [Clients]int
	RunID    string
	fresh    map[deadline]int64 // deadlines that were not read yet, and the latest that each can be
}

// deadline identifies the score of an entry. It has no database, because databases can be swapped.
type deadline struct {
	key, id string
	score   float64
}

// New returns an empty server with that run_id.
func New(runID string) *World {
	return &World{Contents: store.New(), RunID: runID, fresh: map[deadline]int64{}}
}

// Clone returns a copy that shares nothing.
func (w *World) Clone() *World {
	c := *w
	c.Contents = w.Contents.Clone()
	c.fresh = maps.Clone(w.fresh)
	return &c
}

// Clock is what is known about the server's clock during a call, in ms. If the result depends on what is not known,
// Chance chooses: it returns a number from 0 to n-1. Without it, the choice is always 0.
type Clock struct {
	From, To int64
	Chance   func(n int) int
}

func (c Clock) choose(n int) int {
	if n < 2 || c.Chance == nil {
		return 0
	}
	return c.Chance(n)
}

// See compares the world with what the server stores and returns the differences. The exact deadlines are not known
// before they are read: those that calls since the last See can have set are taken from the server.
func (w *World) See(seen store.Contents) []string {
	for db, keys := range w.Contents {
		for key, value := range keys {
			w.seeGates(db, key, value, seen)
			set, _ := value.(store.ZSet)
			other, _ := seen[db][key].(store.ZSet)
			for id, score := range set {
				if to, ok := w.fresh[deadline{key, id, score}]; ok && score <= other[id] && other[id] <= float64(to) {
					set[id] = other[id]
				}
			}
		}
	}
	clear(w.fresh)
	return store.Diff(w.Contents, seen)
}

// seeGates is See for the times in a queue's meta.
func (w *World) seeGates(db int, key string, value any, seen store.Contents) {
	meta, _ := value.(store.Hash)
	other, _ := seen[db][key].(store.Hash)
	for _, field := range []string{"paused_until", "window"} {
		at, ok := integer(meta[field])
		to, fresh := w.fresh[deadline{key, field, float64(at)}]
		is, told := integer(other[field])
		if ok && fresh && told && at <= is && is <= to {
			meta[field] = other[field]
		}
	}
}

// Do executes a client's call and returns the reply's bytes. A reply without an end of line is the beginning of an
// error, the rest of which quotes the caller's bytes.
func (w *World) Do(client int, args []string, clock Clock) string {
	db := w.Contents[w.Selected[client]]
	if v, ok := verbs[args[0]]; ok {
		return v.run(&call{w: w, db: db, clock: clock}, args)
	}
	if v, ok := batches[args[0]]; ok {
		return v.run(&call{w: w, db: db, clock: clock, counts: map[string]int64{}}, args)
	}
	if v, ok := operators[args[0]]; ok {
		return v.run(&call{w: w, db: db, clock: clock}, args)
	}
	switch args[0] {
	case "SELECT":
		w.Selected[client] = atoi(args[1])
	case "SWAPDB":
		a, b := atoi(args[1]), atoi(args[2])
		w.Contents[a], w.Contents[b] = w.Contents[b], w.Contents[a]
	case "FLUSHALL":
		w.Contents = store.New()
	case "FLUSHDB":
		clear(db)
	default:
		return plain(db, args)
	}
	return wire.OK
}

// Matches reports whether a reply is the one that Do returned.
func Matches(want, got string) bool {
	if strings.HasSuffix(want, "\r\n") {
		return want == got
	}
	return strings.HasPrefix(got, want)
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// verb describes a verb by its form in the contract.
type verb struct {
	form  string
	looks string // the keys whose types are checked
	about string // the key that must not be there under an absent identity
	empty string // the reply if it does not exist; "" for a verb that claims the store
	do    func(*call) string
}

var verbs = map[string]verb{
	"EMQ.ENQUEUE":  {"2 row pending id payload", "row pending", "", "", (*call).enqueue},
	"EMQ.CLAIM":    {"2 pending active rowprefix lease_ms", "pending active", "pending", wire.Empty, (*call).claim},
	"EMQ.COMPLETE": {"2 active row id token base", "row active pending", "row", wire.Integer(0), (*call).complete},
	"EMQ.FAIL": {"4 active schedule dead row id token delay_ms max error base", "row active pending schedule dead",
		"row", wire.Gone, (*call).fail},
	"EMQ.SCHEDULE": {"2 row schedule id payload mode ms", "row schedule", "", "", (*call).schedule},
	"EMQ.EXTEND":   {"2 active row id token lease_ms", "row active", "row", wire.Integer(-1), (*call).extend},
	"EMQ.PROMOTE":  {"2 schedule pending base limit", "schedule pending", "schedule", wire.Integer(0), (*call).promote},
	"EMQ.REAP": {"3 active pending dead base max_stalled limit", "active pending", "active", wire.Reaped(nil, nil),
		(*call).reap},
}

// ranges are the ranges of the numeric arguments.
var ranges = map[string][2]int64{
	"lease_ms": {1, 1<<52 - 1}, "delay_ms": {0, 1<<52 - 1}, "ms": {0, 1<<52 - 1},
	"max": {1, 1<<31 - 1}, "max_stalled": {0, 1<<31 - 1}, "limit": {1, 10000}, "count": {1, 1000},
	"concurrency": {0, 1<<31 - 1}, "rate_max": {0, 1<<31 - 1}, "duration_ms": {0, 1<<52 - 1},
}

// batch describes a verb for many jobs by its form in the contract. MCLAIM lists no jobs, but belongs here because of
// its reply.
type batch struct {
	form, list string
	looks      string // the sets whose types are checked
	creates    bool   // it may claim the store
	do         func(*call) string
}

var batches = map[string]batch{
	"EMQ.MENQUEUE":  {"base", "id payload", "pending", true, (*call).enqueue},
	"EMQ.MSCHEDULE": {"base mode", "id ms payload", "schedule", true, (*call).schedule},
	"EMQ.MCLAIM":    {"base lease_ms count", "", "pending active", false, (*call).claimMany},
	"EMQ.MCOMPLETE": {"base", "id token", "active pending", false, (*call).complete},
	"EMQ.MEXTEND":   {"base lease_ms", "id token", "active", false, (*call).extend},
	"EMQ.MFAIL":     {"base max", "id token delay_ms error", "active pending schedule dead", false, (*call).fail},
}

// run makes the checks of every batch, in their order, and then treats one job after the other like the verb for one.
func (v batch) run(c *call, args []string) string {
	form, list := strings.Fields(v.form), strings.Fields(v.list)
	words := args[1:]
	if len(words) < len(form)+len(list) || len(list) == 0 && len(words) > len(form) ||
		len(list) > 0 && (len(words)-len(form))%len(list) != 0 {
		return "-ERR wrong number of arguments for '" + args[0] + "' command\r\n"
	}
	c.arg = map[string]string{}
	for i, word := range form {
		c.arg[word] = words[i]
	}
	var jobs [][]string
	if len(list) > 0 {
		jobs = slices.Collect(slices.Chunk(words[len(form):], len(list)))
	}
	for _, job := range jobs {
		if !strings.HasPrefix(job[0], "JOB") {
			return wire.Kind
		}
	}
	q, rest, ok := wire.Split(c.arg["base"])
	if !ok || rest != "" || c.arg["base"] != q.Base() {
		return "-EMQKEY base must be "
	}
	c.q = q
	if len(jobs) > 1000 {
		return "-ERR id must be given 1 to 1000 times, got "
	}
	if mode, ok := c.arg["mode"]; ok && mode != "at" && mode != "in" {
		return "-ERR mode must be "
	}
	wrong := func(form, words []string) string {
		for i, word := range form {
			if r, ok := ranges[word]; ok {
				if n, ok := integer(words[i]); !ok || n < r[0] || n > r[1] {
					return "-ERR " + word + " must be an integer from "
				}
			}
		}
		return ""
	}
	if refusal := wrong(form, words); refusal != "" {
		return refusal
	}
	for _, job := range jobs {
		if refusal := wrong(list, job); refusal != "" {
			return refusal
		}
	}
	switch identity := c.db[wire.Identity]; {
	case identity == nil && v.creates:
	case identity == nil && len(list) == 0 && c.db[c.q.Pending()] == nil:
		return wire.Empty
	case identity == nil && len(list) > 0 && !slices.ContainsFunc(jobs, func(job []string) bool { return c.db[c.q.Row(job[0])] != nil }):
		return wire.Statuses(make([]int64, len(jobs))...)
	case identity != any(store.String(wire.Wire6)):
		return "-EMQFENCE {emq}:version is "
	}
	for _, word := range strings.Fields(v.looks) {
		if _, ok := c.db[c.names()[word]].(store.ZSet); !ok && c.db[c.names()[word]] != nil {
			return wire.WrongType
		}
	}
	if len(list) == 0 {
		return v.do(c)
	}
	var statuses []int64
	for _, job := range jobs {
		for i, word := range list {
			c.arg[word] = job[i]
		}
		statuses = append(statuses, status(args[0], v.do(c)))
	}
	for key, n := range c.counts {
		c.count(key, n)
	}
	return wire.Statuses(statuses...)
}

// status is the status in a batch for a reply of the verb for one job.
func status(verb, reply string) int64 {
	switch {
	case reply == wire.Gone, verb == "EMQ.MEXTEND" && reply == wire.Integer(-1):
		return 0
	case strings.HasPrefix(reply, "-EMQSTALE "):
		return -1
	case strings.HasPrefix(reply, "-EMQSCRIPT "):
		return -2
	case reply == wire.Bulk("dead"):
		return 2
	case reply == wire.Integer(0):
		return 0
	}
	return 1
}

// call is a verb in execution.
type call struct {
	w     *World
	db    store.Keyspace
	clock Clock
	arg   map[string]string // by the words of the form
	// counts are what a batch adds to the counters at its end, by key; nil in a verb for one job.
	counts map[string]int64
	q      wire.Queue
}

// run makes the checks of every verb, in their order, and then the verb.
func (v verb) run(c *call, args []string) string {
	form := strings.Fields(v.form)
	if len(args) != len(form)+1 {
		return "-ERR wrong number of arguments for '" + args[0] + "' command\r\n"
	}
	if args[1] != form[0] {
		return "-ERR numkeys must be " + form[0] + ", got "
	}
	c.arg = map[string]string{}
	for i, word := range form[1:] {
		c.arg[word] = args[i+2]
	}
	if id, ok := c.arg["id"]; ok && !strings.HasPrefix(id, "JOB") {
		return wire.Kind
	}
	q, _, ok := wire.Split(args[2])
	if !ok {
		return "-EMQKEY " + form[1] + " must be "
	}
	c.q = q
	for _, word := range form[1:] {
		if name, ok := c.names()[word]; ok && c.arg[word] != name {
			return "-EMQKEY " + word + " must be "
		}
	}
	if mode, ok := c.arg["mode"]; ok && mode != "at" && mode != "in" {
		return "-ERR mode must be "
	}
	for _, word := range form[1:] {
		if r, ok := ranges[word]; ok {
			if n, ok := integer(c.arg[word]); !ok || n < r[0] || n > r[1] {
				return "-ERR " + word + " must be an integer from "
			}
		}
	}
	switch identity := c.db[wire.Identity]; {
	case identity == nil && v.empty == "":
	case identity == nil && c.db[c.names()[v.about]] == nil:
		return v.empty
	case identity != any(store.String(wire.Wire6)):
		return "-EMQFENCE {emq}:version is "
	}
	for _, word := range strings.Fields(v.looks) {
		var ok bool
		switch value := c.db[c.names()[word]]; value.(type) {
		case nil:
			ok = true
		case store.Hash:
			ok = word == "row"
		case store.ZSet:
			ok = word != "row"
		}
		if !ok {
			return wire.WrongType
		}
	}
	return v.do(c)
}

// names are the exact names that the arguments must have, and those of the keys that a verb derives.
func (c *call) names() map[string]string {
	return map[string]string{
		"row": c.q.Row(c.arg["id"]), "pending": c.q.Pending(), "active": c.q.Active(), "schedule": c.q.Schedule(),
		"dead": c.q.Dead(), "rowprefix": c.q.RowPrefix(), "base": c.q.Base(), "meta": c.q.Meta(),
	}
}

func (c *call) number(word string) int64 {
	n, _ := integer(c.arg[word])
	return n
}

func (c *call) enqueue() string {
	if !c.create("pending") {
		return wire.Integer(0)
	}
	add(c.db, c.q.Pending(), c.arg["id"], 0)
	return wire.Integer(1)
}

func (c *call) schedule() string {
	if !c.create("scheduled") {
		return wire.Integer(0)
	}
	if c.arg["mode"] == "at" {
		add(c.db, c.q.Schedule(), c.arg["id"], float64(c.number("ms")))
	} else {
		c.due(c.q.Schedule(), c.arg["id"], c.number("ms"))
	}
	return wire.Integer(1)
}

// create writes the row of a new job and claims the store for it, unless the row exists.
func (c *call) create(state string) bool {
	row := c.q.Row(c.arg["id"])
	if c.db[row] != nil {
		return false
	}
	c.db[wire.Identity] = store.String(wire.Wire6)
	c.db[row] = store.Hash{"state": state, "attempts": "0", "payload": c.arg["payload"]}
	return true
}

func (c *call) claim() string {
	bad := 0
	room, rated, begins := c.room()
	if room == 0 {
		return wire.Empty
	}
	if job, ok := c.grant(&bad); ok {
		c.spend(1, rated, begins)
		return job
	}
	return wire.Empty
}

func (c *call) claimMany() string {
	var jobs []string
	room, rated, begins := c.room()
	for bad := 0; int64(len(jobs)) < min(room, c.number("count")); {
		job, ok := c.grant(&bad)
		if !ok {
			break
		}
		jobs = append(jobs, job)
	}
	c.spend(int64(len(jobs)), rated, begins)
	return wire.Array(jobs...)
}

// grant hands out the first job that can be handed out, unless the call has met a hundred bad entries.
func (c *call) grant(bad *int) (job string, ok bool) {
	for ; *bad < 100; *bad++ {
		id, ok := first(c.db, c.q.Pending())
		if !ok {
			return "", false
		}
		remove(c.db, c.q.Pending(), id)
		row, ok := c.db[c.q.Row(id)].(store.Hash)
		if !ok || !strings.HasPrefix(id, "JOB") || c.elsewhere("pending", id, row) {
			continue
		}
		attempts, ok := integer(row["attempts"])
		if !ok || attempts > 1<<53-2 {
			row["state"] = "dead"
			row["last_error"] = "bad row: attempts is missing or is no integer that can be counted up"
			if c.buries() {
				add(c.db, c.q.Dead(), id, 0)
			}
			continue
		}
		row["attempts"] = strconv.FormatInt(attempts+1, 10)
		row["state"] = "active"
		row["lease_epoch"] = c.w.RunID
		c.due(c.q.Active(), id, c.number("lease_ms"))
		payload, ok := row["payload"]
		if !ok {
			return wire.Array(wire.Bulk(id), wire.Nil, wire.Integer(attempts+1)), true
		}
		return wire.Claimed(id, payload, attempts+1), true
	}
	return "", false
}

// buries reports whether dead can take a job.
func (c *call) buries() bool {
	_, ok := c.db[c.q.Dead()].(store.ZSet)
	return ok || c.db[c.q.Dead()] == nil
}

// elsewhere reports whether the job, found in the set of the given state, is in the set of its row's state, which is
// another.
func (c *call) elsewhere(found, id string, row store.Hash) bool {
	if row["state"] == found || wire.SetOf[row["state"]] == "" {
		return false
	}
	set, ok := c.db[c.q.Set(row["state"])].(store.ZSet)
	_, in := set[id]
	return ok && in
}

func (c *call) complete() string {
	row, ok := c.db[c.q.Row(c.arg["id"])].(store.Hash)
	if !ok {
		return wire.Integer(0)
	}
	if refusal := c.holder(row, "complete"); refusal != "" {
		return refusal
	}
	c.leave()
	delete(c.db, c.q.Row(c.arg["id"]))
	c.tally(c.q.Completed())
	return wire.Integer(1)
}

func (c *call) fail() string {
	id := c.arg["id"]
	row, refusal := c.handBack("retry")
	if refusal != "" {
		return refusal
	}
	c.leave()
	failures := counted(row, "failures")
	row["last_error"] = c.arg["error"]
	if failures >= c.number("max") {
		row["state"] = "dead"
		add(c.db, c.q.Dead(), id, 0)
		c.tally(c.q.Failed())
	} else {
		row["state"] = "scheduled"
		c.due(c.q.Schedule(), id, c.number("delay_ms"))
	}
	return wire.Bulk(row["state"])
}

// counted adds 1 to a count in the row, which is 0 if it is not a number that can be incremented, and returns it.
func counted(row store.Hash, field string) int64 {
	n, ok := integer(row[field])
	if !ok || n > 1<<53-2 {
		n = 0
	}
	row[field] = strconv.FormatInt(n+1, 10)
	return n + 1
}

func (c *call) extend() string {
	id := c.arg["id"]
	row, ok := c.db[c.q.Row(id)].(store.Hash)
	if !ok {
		return wire.Integer(-1)
	}
	if refusal := c.holder(row, "extend"); refusal != "" {
		return refusal
	}
	set, _ := c.db[c.q.Active()].(store.ZSet)
	if _, ok := set[id]; !ok {
		return wire.Stale("extend")
	}
	row["lease_epoch"] = c.w.RunID
	c.due(c.q.Active(), id, c.number("lease_ms"))
	return wire.Integer(1)
}

func (c *call) promote() string {
	moved := int64(0)
	c.sweep("scheduled", false, func(id string, row store.Hash) {
		row["state"] = "pending"
		add(c.db, c.q.Pending(), id, 0)
		moved++
	})
	return wire.Integer(moved)
}

func (c *call) reap() string {
	var recovered, dead []string
	limit := c.number("max_stalled")
	c.sweep("active", true, func(id string, row store.Hash) {
		row["state"] = "pending"
		if epoch, leased := row["lease_epoch"]; !leased || epoch == c.w.RunID {
			_, flow := row["parent"]
			if n := counted(row, "stalled"); limit > 0 && n >= limit && !flow && c.buries() {
				row["state"] = "dead"
				row["last_error"] = "stalled"
				add(c.db, c.q.Dead(), id, 0)
				c.count(c.q.Failed(), 1)
				dead = append(dead, id)
				return
			}
		}
		add(c.db, c.q.Pending(), id, 0)
		recovered = append(recovered, id)
	})
	return wire.Reaped(recovered, dead)
}

// sweep goes through the due entries of a state's set in their order, removes up to limit of them, and calls move for
// those that are not dropped. told says that the reply shows their order.
func (c *call) sweep(state string, told bool, move func(id string, row store.Hash)) {
	key, limit := c.q.Set(state), c.number("limit")
	set, _ := c.db[key].(store.ZSet)
	left := maps.Clone(set)
	told = told || limit < int64(len(left))
	for range 10000 {
		id, ok := c.next(key, left, told)
		if !ok || limit == 0 {
			return
		}
		delete(left, id)
		row, ok := c.db[c.q.Row(id)].(store.Hash)
		drop := !ok || !strings.HasPrefix(id, "JOB") || c.elsewhere(state, id, row)
		if _, lane := row["group"]; lane && !drop {
			continue
		}
		remove(c.db, key, id)
		limit--
		if !drop {
			move(id, row)
		}
	}
}

// next is the first of a set's remaining entries, if it is due. The exact scores that calls since the last See have set
// are not known: if several entries can be the first and the order matters, or an entry may be due or not, the choice
// is by chance.
func (c *call) next(key string, left store.ZSet, ordered bool) (string, bool) {
	id, ok := lowest(left)
	if !ok {
		return "", false
	}
	if ordered {
		latest := maps.Clone(left)
		for other, score := range left {
			if to, ok := c.w.fresh[deadline{key, other, score}]; ok {
				latest[other] = float64(to)
			}
		}
		bound, _ := lowest(latest)
		var firsts []string
		for other, score := range left {
			if score < latest[bound] || score == latest[bound] && other <= bound {
				firsts = append(firsts, other)
			}
		}
		slices.Sort(firsts) // so that the same chance chooses the same entry
		id = firsts[c.clock.choose(len(firsts))]
	}
	switch score := left[id]; {
	case score <= float64(c.clock.From): // or it is the now of a call before this one
		return id, true
	case score > float64(c.clock.To):
		return "", false
	default:
		return id, c.clock.choose(2) == 0
	}
}

// due adds a job to a set with a deadline ms from now.
func (c *call) due(key, id string, ms int64) {
	d := deadline{key, id, float64(c.clock.From + ms)}
	add(c.db, key, id, d.score)
	c.w.fresh[d] = c.clock.To + ms
}

// holder returns the refusal if the caller does not hold the row's job, else "".
func (c *call) holder(row store.Hash, verb string) string {
	_, lane := row["group"]
	_, flow := row["parent"]
	if lane || flow {
		return "-EMQSCRIPT the row has a "
	}
	_, leased := row["lease_epoch"]
	kept := row["state"] == "active" || row["state"] == "pending" && leased
	if n, ok := integer(row["attempts"]); !ok || n < 1 || c.arg["token"] != row["attempts"] || !kept {
		return wire.Stale(verb)
	}
	return ""
}

// handBack ends the holder's lease of the job, or refuses.
func (c *call) handBack(verb string) (row store.Hash, refusal string) {
	row, ok := c.db[c.q.Row(c.arg["id"])].(store.Hash)
	if !ok {
		return nil, wire.Gone
	}
	if refusal := c.holder(row, verb); refusal != "" {
		return nil, refusal
	}
	delete(row, "lease_epoch")
	delete(row, "stalled")
	return row, ""
}

// leave removes the job from active, or else from pending.
func (c *call) leave() {
	if !remove(c.db, c.q.Active(), c.arg["id"]) {
		remove(c.db, c.q.Pending(), c.arg["id"])
	}
}

// tally counts a job; in a batch, together with the others.
func (c *call) tally(key string) {
	if c.counts == nil {
		c.count(key, 1)
	} else {
		c.counts[key]++
	}
}

// count adds to a counter, if it can be incremented by that much.
func (c *call) count(key string, by int64) {
	if c.db[key] == nil {
		c.db[key] = store.Hash{}
	}
	counter, ok := c.db[key].(store.Hash)
	if !ok {
		return
	}
	n, text := int64(0), counter["count"]
	if _, ok := counter["count"]; ok {
		var err error
		if n, err = strconv.ParseInt(text, 10, 64); err != nil || strconv.FormatInt(n, 10) != text || n > 1<<63-1-by {
			return
		}
	}
	counter["count"] = strconv.FormatInt(n+by, 10)
}

// integer parses a number in the contract's canonical form, up to the largest that is exact everywhere.
func integer(s string) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && strconv.FormatInt(n, 10) == s && n >= 0 && n <= 1<<53-1
}

// first is a set's lowest entry.
func first(db store.Keyspace, key string) (id string, ok bool) {
	set, _ := db[key].(store.ZSet)
	return lowest(set)
}

// lowest is the lowest entry, by score and then by bytes.
func lowest(set store.ZSet) (id string, ok bool) {
	for _, member := range slices.Sorted(maps.Keys(set)) {
		if !ok || set[member] < set[id] {
			id, ok = member, true
		}
	}
	return id, ok
}

func add(db store.Keyspace, key, id string, score float64) {
	if db[key] == nil {
		db[key] = store.ZSet{}
	}
	db[key].(store.ZSet)[id] = score
}

// remove removes an entry from a set, and with the last one the set.
func remove(db store.Keyspace, key, id string) bool {
	set, _ := db[key].(store.ZSet)
	if _, ok := set[id]; !ok {
		return false
	}
	if delete(set, id); len(set) == 0 {
		delete(db, key)
	}
	return true
}
