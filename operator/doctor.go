package operator

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Status is the result of a check, numbered as Nagios' exit codes.
type Status int

// The statuses.
const (
	OK Status = iota
	Warning
	Critical
	Unknown
)

func (s Status) String() string {
	return [...]string{"ok", "warning", "critical", "unknown"}[s]
}

// Check is one of Doctor's checks.
type Check struct {
	Name   string // short and stable: "module", "fence", "persistence", …
	Status Status
	Text   string // what was found
	Advice string // what to do, if anything; a page of docs/ where there is more
}

// WorstFirst orders checks by gravity, where Unknown is less grave than a warning.
func WorstFirst(x, y Check) int {
	grave := [...]int{OK: 0, Unknown: 1, Warning: 2, Critical: 3}
	return cmp.Compare(grave[y.Status], grave[x.Status])
}

// Doctor checks whether the server is fit to keep jobs: module and wire, the fence, memory policy and room,
// persistence, replicas, the pump's lag, panics, broken gates, jobs that a move left on their way, and queues with work
// and no worker. What the user may not read is Unknown.
func (s *Server) Doctor(ctx context.Context) []Check {
	queues, err := s.Queues(ctx)
	return s.checks(ctx, queues, err)
}

const (
	identity = "echomq:6.0.0"
	// audited is the number of queues whose gates are checked.
	audited = 100
	// late is how many ms the pump may be late, and stuck how long work may wait without a worker.
	late  = 5000
	stuck = time.Minute
)

// exam has what the checks look at. Each part may be replaced by an error.
type exam struct {
	s      *Server
	info   map[string]string
	config map[string]string
	queues []Queue

	infoErr, configErr, queuesErr error
}

// checks are all checks by their names, in the order in which they are shown.
var checks = []struct {
	name string
	look func(*exam, context.Context) Check
}{
	{"module", (*exam).module}, {"wire", (*exam).wire}, {"fence", (*exam).fence}, {"role", (*exam).role},
	{"memory-policy", (*exam).policy}, {"memory", (*exam).memory}, {"persistence", (*exam).persistence}, {"replicas", (*exam).replicas},
	{"pump", (*exam).pump}, {"panics", (*exam).panics}, {"queues", (*exam).readable}, {"gates", (*exam).gates},
	{"moves", (*exam).moves}, {"workers", (*exam).workers}, {"dead", (*exam).dead},
}

// checks looks at a server whose queues have been asked for.
func (s *Server) checks(ctx context.Context, queues []Queue, err error) []Check {
	reachable := s.reachable(ctx)
	reachable.Name = "reachable"
	list := []Check{reachable}
	e := &exam{s: s, queues: queues, queuesErr: err}
	if reachable.Status == OK {
		e.ask(ctx)
	}
	for _, c := range checks {
		found := Check{Status: Unknown, Text: "the server was not asked"}
		if reachable.Status == OK {
			found = c.look(e, ctx)
		}
		found.Name = c.name
		list = append(list, found)
	}
	return list
}

// Answers reports, by the error of a PING, whether a server can be asked. NOPERM concerns only the user. While its disk
// is full or its primary is gone, a server refuses even PING, but it still replies to other questions.
func Answers(ping error) bool {
	return ping == nil || slices.Contains([]string{"NOPERM", "MISCONF", "MASTERDOWN"}, class(ping))
}

func (s *Server) reachable(ctx context.Context) Check {
	began := time.Now()
	_, err := s.conn.Do(ctx, "PING")
	switch class := class(err); {
	case Answers(err):
		return Check{Text: fmt.Sprintf("it answered within %s", max(time.Since(began).Round(100*time.Microsecond), 100*time.Microsecond))}
	case class == "NOAUTH" || class == "WRONGPASS":
		return Check{Status: Critical, Text: err.Error(), Advice: "Give the user and the password in the URL"}
	default:
		return Check{Status: Critical, Text: err.Error(), Advice: "See docs/trouble.md"}
	}
}

// ask reads what several checks look at.
func (e *exam) ask(ctx context.Context) {
	e.info, e.config = map[string]string{}, map[string]string{}
	for _, section := range []string{"server", "memory", "persistence", "replication", "emq"} {
		r, err := e.s.conn.Do(ctx, "INFO", section)
		if err != nil {
			e.infoErr = err
			break
		}
		maps.Copy(e.info, Info(r.Str))
	}
	r, err := e.s.conn.Do(ctx, "CONFIG", "GET", "save", "min-replicas-to-write", "stop-writes-on-bgsave-error", "appendfsync", "emq.pump-interval-ms")
	if e.configErr = err; err != nil {
		return
	}
	for i := 0; i+1 < len(r.List); i += 2 {
		e.config[r.List[i].Str] = r.List[i+1].Str
	}
}

// unknown is a check that could not be made.
func unknown(err error) Check {
	c := Check{Status: Unknown, Text: err.Error()}
	if class(err) == "NOPERM" {
		c.Advice = "The user needs the rights of docs/operations.md, Rights"
	}
	return c
}

// with makes a check of INFO, if that could be read.
func (e *exam) with(look func() Check) Check {
	if e.infoErr != nil {
		return unknown(e.infoErr)
	}
	return look()
}

// withModule makes a check of the module's fields of INFO.
func (e *exam) withModule(look func() Check) Check {
	return e.with(func() Check {
		if e.info["emq_version"] == "" {
			return Check{Status: Unknown, Text: "the module is not loaded"}
		}
		return look()
	})
}

func (e *exam) number(name string) int64 {
	n, _ := strconv.ParseInt(e.info[name], 10, 64)
	return n
}

func (e *exam) module(context.Context) Check {
	return e.with(func() Check {
		if e.info["emq_version"] == "" {
			return Check{Status: Critical, Text: "the module is not loaded", Advice: "Add a line loadmodule …/emq.so to the configuration: README.md, Install"}
		}
		version := e.info["valkey_version"]
		return Check{Text: fmt.Sprintf("emq %s, build %s, on Valkey %s", e.info["emq_version"], e.info["emq_build"], version)}
	})
}

func (e *exam) wire(context.Context) Check {
	return e.withModule(func() Check {
		if found := e.info["emq_identity"]; found != identity {
			return Check{Status: Critical, Text: fmt.Sprintf("the module speaks %s, this program %s", found, identity), Advice: "Use the program of the module's release"}
		}
		return Check{Text: identity}
	})
}

func (e *exam) fence(ctx context.Context) Check {
	r, err := e.s.conn.Do(ctx, "GET", "{emq}:version")
	switch {
	case class(err) == "WRONGTYPE":
		return Check{Status: Critical, Text: "{emq}:version is no string: every verb is refused", Advice: "See docs/protocol.md, The fence"}
	case err != nil:
		return unknown(err)
	case r.Null:
		return Check{Text: "the database is empty: the first job claims it"}
	case r.Str != identity:
		return Check{Status: Critical, Text: fmt.Sprintf("the database is of the wire %.64q: every verb is refused", r.Str), Advice: "See docs/operations.md, Between wire 4 and wire 6"}
	}
	return Check{Text: identity}
}

func (e *exam) role(context.Context) Check {
	return e.with(func() Check {
		switch {
		case e.info["role"] == "master":
			return Check{Text: "primary"}
		case e.info["master_sync_in_progress"] == "1":
			return Check{Status: Warning, Text: fmt.Sprintf("a replica, which copies its primary %s:%s anew", e.info["master_host"], e.info["master_port"]), Advice: "Wait until it has all"}
		case e.info["master_link_status"] != "up":
			return Check{Status: Critical, Text: fmt.Sprintf("a replica without a link to its primary %s:%s", e.info["master_host"], e.info["master_port"]), Advice: "See docs/operations.md, A replica and Sentinel"}
		}
		return Check{Status: Warning, Text: fmt.Sprintf("a replica of %s:%s: changes are refused", e.info["master_host"], e.info["master_port"]), Advice: "Ask the primary"}
	})
}

func (e *exam) policy(context.Context) Check {
	return e.with(func() Check {
		found := e.info["maxmemory_policy"]
		switch {
		case found == "noeviction":
			return Check{Text: found}
		case e.number("maxmemory") == 0:
			return Check{Status: Warning, Text: found + ", though without maxmemory", Advice: "Set maxmemory-policy noeviction"}
		}
		return Check{Status: Critical, Text: found + ": under memory pressure jobs are lost", Advice: "Set maxmemory-policy noeviction"}
	})
}

func (e *exam) memory(context.Context) Check {
	return e.with(func() Check {
		used, most, of := e.number("used_memory"), e.number("maxmemory"), "maxmemory"
		c := Check{}
		if most == 0 {
			most, of = e.number("total_system_memory"), "the machine's memory; maxmemory is not set"
			if most == 0 {
				return Check{Status: Unknown, Text: "the server tells no bound"}
			}
		}
		part := used * 100 / most
		c.Text = fmt.Sprintf("%s MiB, %d %% of %s", Count(used>>20), part, of)
		switch {
		case part >= 98:
			c.Status = Critical
		case part >= 85:
			c.Status = Warning
		}
		if c.Status != OK {
			c.Advice = "A full server refuses new jobs, and drains: see docs/operations.md, Memory"
		}
		return c
	})
}

func (e *exam) persistence(context.Context) Check {
	return e.with(func() Check {
		c := Check{Advice: "See docs/operations.md, What is kept"}
		aof, saves := e.info["aof_enabled"] == "1", e.config["save"] != ""
		failed := e.info["rdb_last_bgsave_status"] != "ok"
		switch {
		case aof && e.info["aof_last_write_status"] != "ok":
			c.Status, c.Text = Critical, "the append-only file can't be written: writes are refused"
		case failed && saves && e.config["stop-writes-on-bgsave-error"] != "no":
			c.Status, c.Text = Critical, "the last snapshot failed: writes are refused"
		case failed:
			c.Status, c.Text = Warning, "the last snapshot failed"
		case aof && e.info["aof_last_bgrewrite_status"] != "ok":
			c.Status, c.Text = Warning, "the append-only file could not be rewritten: it grows"
		case aof && e.configErr != nil:
			return Check{Text: "append-only file"}
		case aof:
			return Check{Text: "append-only file, appendfsync " + e.config["appendfsync"]}
		case e.configErr != nil:
			return unknown(e.configErr)
		case saves:
			c.Status, c.Text = Warning, "snapshots alone: a crash costs all since the last one"
		default:
			c.Status, c.Text = Critical, "nothing is kept: a crash costs all jobs"
		}
		return c
	})
}

func (e *exam) replicas(context.Context) Check {
	return e.with(func() Check {
		if e.info["role"] != "master" {
			return Check{Text: "a replica has none to look at"}
		}
		n := e.number("connected_slaves")
		c := Check{Text: Count(n) + " connected", Advice: "See docs/operations.md, A replica and Sentinel"}
		var behind []string
		for i := range n {
			fields := map[string]string{}
			for pair := range strings.SplitSeq(e.info["slave"+strconv.FormatInt(i, 10)], ",") {
				name, value, _ := strings.Cut(pair, "=")
				fields[name] = value
			}
			lag, _ := strconv.Atoi(fields["lag"])
			if fields["state"] != "online" || lag > 10 {
				behind = append(behind, fmt.Sprintf("%s:%s is %s, its last sign of life %s s ago", fields["ip"], fields["port"], fields["state"], Count(lag)))
			}
		}
		good, needed := n-int64(len(behind)), int64(0)
		if text, ok := e.info["min_slaves_good_slaves"]; ok { // only there if some are required
			good, _ = strconv.ParseInt(text, 10, 64)
			needed, _ = strconv.ParseInt(e.config["min-replicas-to-write"], 10, 64)
		}
		switch {
		case good < needed:
			c.Status, c.Text = Critical, fmt.Sprintf("%d in step, and min-replicas-to-write is %d: writes are refused", good, needed)
		case len(behind) > 0:
			c.Status, c.Text = Warning, strings.Join(behind, "; ")
		default:
			c.Advice = ""
		}
		return c
	})
}

func (e *exam) pump(context.Context) Check {
	return e.withModule(func() Check {
		lag := e.number("emq_pump_lag_ms")
		c := Check{Text: Count(lag) + " ms behind", Advice: "See docs/operations.md, The pump's settings"}
		switch {
		case e.config["emq.pump-interval-ms"] == "0":
			c.Status, c.Text = Warning, "off: nothing is promoted or taken back but by PROMOTE and REAP"
		case lag > 12*late:
			c.Status = Critical
		case lag > late:
			c.Status = Warning
		default:
			c.Advice = ""
		}
		return c
	})
}

func (e *exam) panics(context.Context) Check {
	return e.withModule(func() Check {
		if n := e.number("emq_panics"); n > 0 {
			return Check{Status: Critical, Text: Many(n, "fault") + " of the module caught; no job was changed", Advice: "Report the stack from the server's log"}
		}
		return Check{Text: "none"}
	})
}

// some is the beginning of a list, and the number of further entries.
func some(list []string) string {
	const most = 5
	if len(list) <= most {
		return strings.Join(list, "; ")
	}
	return strings.Join(list[:most], "; ") + "; and " + Count(len(list)-most) + " more"
}

func (e *exam) readable(context.Context) Check {
	if e.queuesErr != nil {
		return unknown(e.queuesErr)
	}
	var broken []string
	var refused error
	for _, q := range e.queues {
		switch {
		case class(q.Err) == "NOPERM":
			refused = q.Err
		case q.Err != nil:
			broken = append(broken, fmt.Sprintf("%q: %s", q.Name, q.Err))
		}
	}
	switch {
	case len(broken) > 0:
		return Check{Status: Critical, Text: some(broken), Advice: "Find who wrote a key of a wrong type: docs/protocol.md, Broken stores"}
	case refused != nil:
		return unknown(refused)
	}
	return Check{Text: Count(len(e.queues)) + " can be read"}
}

func (e *exam) gates(ctx context.Context) Check {
	if e.queuesErr != nil {
		return unknown(e.queuesErr)
	}
	queues := e.queues[:min(audited, len(e.queues))]
	broken := make([]string, len(queues))
	err := parallel(len(queues), func(i int) error {
		r, err := e.s.conn.Do(ctx, "EMQ.AUDIT", "emq:{"+queues[i].Name+"}:", "0", "1")
		if class(err) == "WRONGTYPE" {
			return nil // the check of the queues shows that
		}
		if err != nil || len(r.List) != 2 {
			return err
		}
		for _, finding := range r.List[1].List {
			if f := finding.List; len(f) == 5 && f[2].Str == "meta" {
				broken[i] = strings.TrimSpace(fmt.Sprintf("%q: %s %s", queues[i].Name, f[0].Str, f[1].Str))
			}
		}
		return nil
	})
	if err != nil {
		return unknown(err)
	}
	var found []string
	for _, text := range broken {
		if text != "" {
			found = append(found, text)
		}
	}
	if len(found) > 0 {
		return Check{Status: Warning, Text: some(found), Advice: "A broken gate is none; `emq audit QUEUE --fix` takes it away"}
	}
	return Check{Text: fmt.Sprintf("those of %s are in order", Many(len(queues), "queue"))}
}

// idle reports whether a queue has work and no worker.
func idle(q Queue) bool {
	return q.Err == nil && q.Pending > 0 && q.Active == 0 && q.Waiting == 0 && !q.Paused
}

// figures are the queues that have figures; the error says why there are none.
func (e *exam) figures() (list []Queue, err error) {
	err = e.queuesErr
	for _, q := range e.queues {
		if q.Err == nil {
			list = append(list, q)
		} else if err == nil {
			err = q.Err
		}
	}
	if len(list) > 0 {
		err = nil
	}
	return list, err
}

func (e *exam) workers(context.Context) Check {
	queues, err := e.figures()
	if err != nil {
		return unknown(err)
	}
	var lying []string
	for _, q := range queues {
		if idle(q) && q.OldestPending > stuck {
			lying = append(lying, fmt.Sprintf("%q has %s", q.Name, waiting(q, q.OldestPending)))
		}
	}
	return workers(lying, len(queues))
}

// workers is the check for work without workers.
func workers(lying []string, queues int) Check {
	if len(lying) == 0 {
		return Check{Name: "workers", Text: fmt.Sprintf("none of %s has old work and no worker", Many(queues, "queue"))}
	}
	return Check{Name: "workers", Status: Critical, Text: some(lying), Advice: "Start a worker; or see docs/trouble.md"}
}

func waiting(q Queue, since time.Duration) string {
	return fmt.Sprintf("%s to do, the oldest for %s, and no worker", Many(q.Pending, "job"), rounded(since))
}

func (e *exam) dead(context.Context) Check {
	queues, err := e.figures()
	if err != nil {
		return unknown(err)
	}
	jobs, in := int64(0), int64(0)
	for _, q := range queues {
		if jobs += q.Dead; q.Dead > 0 {
			in++
		}
	}
	return Check{Text: fmt.Sprintf("%s in %s", Many(jobs, "dead letter"), Many(in, "queue"))}
}

// rounded is a duration for people.
func rounded(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d >= time.Hour:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	case d >= time.Minute:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return d.Round(time.Second).String()
}
