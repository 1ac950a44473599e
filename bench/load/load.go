// Package load answers one question: how is a server kept busy by a client that costs next to nothing?
//
// A generator holds some connections to one queue and carries jobs through the verbs that it is told. Every request is
// formatted once, before the clock starts; only the job's id is written into it afterwards. Every reply is compared
// with the bytes that it must have, so that an executor that answers something else is an error and no result. One
// thread drives all connections, without the runtime's scheduler in between.
package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Verb is a kind of request.
type Verb int

// The verbs. Fail asks for another try in a minute, Bury is FAIL at its last failure. Drop removes the row that a
// failed job left behind; it is no job's verb but the plain command.
const (
	Enqueue Verb = iota
	Claim
	Complete
	Fail
	Bury
	Drop
	NumVerbs
)

var verbNames = [NumVerbs]string{"enqueue", "claim", "complete", "fail", "bury", "drop"}

func (v Verb) String() string { return verbNames[v] }

// Opening is how an executor is addressed: the words of a request that stand before its number of keys, by the verb's
// name.
type Opening func(name string) []string

// Options describe a generator.
type Options struct {
	Socket  string  // the server's unix socket
	DB      int     // the logical database
	Queue   string  // the queue's name
	Opening Opening // the executor
	Payload int     // bytes in a job
	Conns   int     // connections
	Depth   int     // requests that a connection sends before it reads a reply
	Batch   int     // jobs in a request; 0 = the verbs that take one job
	Minted  int64   // jobs that others have enqueued: the ids of these are not used again
}

// Result is what one run took.
type Result struct {
	Took time.Duration
	// Latency is from the moment when a pipeline is sent to its last reply, in nanoseconds.
	Latency *hdrhistogram.Histogram
}

const (
	minReadBuffer = 64 << 10
	stallLimit    = 30 * time.Second
	maxLatency    = int64(time.Minute)
	digits        = 3 // of the histogram
)

// Generator is a client. It is not safe for concurrent use.
type Generator struct {
	depth int // requests in a pipeline
	jobs  int // jobs in a pipeline
	poll  *poller
	conns []conn
	form  [NumVerbs]form

	minted int64
	held   fifo // claimed and not settled
	failed fifo // failed, the row still there
	stop   atomic.Bool
}

// id is a job's id, of the length that a canonical one has.
type id [14]byte

// A form is a request and the reply that it must get, and where in them the ids go.
type form struct {
	request []byte
	jobs    [][]int // where in request the id of each job goes
	reply   []byte
	ids     []int // where in reply
}

const (
	mark  = "JOB-the-id-14-" // stands where an id goes
	lease = "3600000"
)

// newForm is the form of a request for so many jobs that has marks in it, and of its reply.
func newForm(request []byte, reply string, jobs int) form {
	f := form{request: request, reply: []byte(reply), ids: indexes([]byte(reply), mark)}
	if at := indexes(request, mark); len(at) > 0 {
		f.jobs = slices.Collect(slices.Chunk(at, len(at)/jobs))
	}
	return f
}

// matches tells whether what has come of a reply is as it must be, but for the ids.
func (f *form) matches(got []byte) bool {
	got = got[:min(len(got), len(f.reply))]
	from := 0
	for _, at := range f.ids {
		if at >= len(got) {
			break
		}
		if string(got[from:at]) != string(f.reply[from:at]) {
			return false
		}
		from = min(at+len(id{}), len(got))
	}
	return string(got[from:]) == string(f.reply[from:len(got)])
}

// Dial connects a generator.
func Dial(o Options) (*Generator, error) {
	g := &Generator{depth: o.Depth, jobs: o.Depth * max(o.Batch, 1), form: forms(o), minted: o.Minted}
	var err error
	if g.poll, err = newPoller(); err != nil {
		return nil, err
	}
	g.conns = make([]conn, o.Conns)
	for i := range g.conns {
		if err := g.conns[i].dial(g, i, o); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	return g, nil
}

// Close ends the connections.
func (g *Generator) Close() error {
	for i := range g.conns {
		g.conns[i].close()
	}
	return g.poll.close()
}

// Run carries a number of jobs, so many pipelines of them, through the verbs: each connection takes a pipeline of jobs
// through all of them before it takes the next. It ends early, with the context's error, when the context does.
func (g *Generator) Run(ctx context.Context, jobs int, verbs ...Verb) (Result, error) {
	if jobs%g.jobs != 0 {
		return Result{}, fmt.Errorf("%d jobs can't be sent %d at a time", jobs, g.jobs)
	}
	defer context.AfterFunc(ctx, func() { g.stop.Store(true) })()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	r := run{g: g, verbs: verbs, left: jobs / g.jobs}
	r.latency = hdrhistogram.New(1, maxLatency, digits)
	began := time.Now()
	for i := range g.conns {
		if err := r.next(&g.conns[i]); err != nil {
			return Result{}, err
		}
	}
	for r.busy > 0 {
		ready, err := g.poll.wait(stallLimit)
		if err != nil {
			return Result{}, err
		}
		if g.stop.Load() {
			return Result{}, context.Cause(ctx)
		}
		for _, e := range ready {
			if err := r.serve(&g.conns[e.conn], e); err != nil {
				return Result{}, err
			}
		}
	}
	return Result{time.Since(began), r.latency}, nil
}

// run is one Run in progress.
type run struct {
	g       *Generator
	verbs   []Verb
	left    int // pipelines that no connection has taken yet
	busy    int // connections that have one
	latency *hdrhistogram.Histogram
}

// next gives an idle connection a pipeline of jobs, if there is one left.
func (r *run) next(c *conn) error {
	if r.left == 0 {
		return nil
	}
	r.left--
	r.busy++
	c.at = 0
	c.began = time.Now()
	return r.send(c)
}

func (r *run) send(c *conn) error {
	v := r.verbs[c.at]
	g := r.g
	switch v {
	case Enqueue:
		c.fill(v, g.mint)
	case Complete, Fail, Bury:
		if g.held.len() < g.jobs {
			return fmt.Errorf("%s: no job is held", v)
		}
		c.fill(v, g.held.pop)
	case Drop:
		if g.failed.len() < g.jobs {
			return fmt.Errorf("%s: no job has failed", v)
		}
		c.fill(v, g.failed.pop)
	default:
		c.fill(v, nil)
	}
	c.left = g.depth
	return c.write()
}

func (r *run) serve(c *conn, e event) error {
	if e.writable {
		if err := c.write(); err != nil {
			return err
		}
	}
	if !e.readable {
		return nil
	}
	v := r.verbs[c.at]
	if err := c.read(v, &r.g.held); err != nil || c.left > 0 {
		return err
	}
	if v == Fail || v == Bury {
		for _, at := range c.out[v].jobs {
			r.g.failed.push(id(c.out[v].bytes[at[0]:]))
		}
	}
	now := time.Now()
	if err := r.latency.RecordValue(int64(now.Sub(c.began))); err != nil {
		return err
	}
	c.began = now
	if c.at++; c.at < len(r.verbs) {
		return r.send(c)
	}
	r.busy--
	return r.next(c)
}

// mint is the id of a new job. Like canonical ids, these sort by the time they were minted.
func (g *Generator) mint() id {
	g.minted++
	return idOf(g.minted)
}

func idOf(n int64) id {
	i := id([]byte("JOB00000000000"))
	for at := len(i) - 1; n > 0; n, at = n/10, at-1 {
		i[at] = byte('0' + n%10)
	}
	return i
}

// fifo is a first-in-first-out of ids that does not allocate once it is as large as it gets.
type fifo struct {
	ids  []id
	head int
}

func (f *fifo) len() int  { return len(f.ids) - f.head }
func (f *fifo) push(i id) { f.ids = append(f.ids, i) }
func (f *fifo) pop() id {
	i := f.ids[f.head]
	if f.head++; 2*f.head > len(f.ids) {
		f.ids = f.ids[:copy(f.ids, f.ids[f.head:])]
		f.head = 0
	}
	return i
}

// forms formats every request and reply.
func forms(o Options) (all [NumVerbs]form) {
	const delay, reason = "60000", "the mail server did not answer"
	payload := strings.Repeat("x", o.Payload)
	base := "emq:{" + o.Queue + "}:"
	pending, active, row := base+"pending", base+"active", base+"job:"
	claimed := "*3\r\n" + bulk(mark) + bulk(payload) + ":1\r\n"
	add := func(v Verb, name string, reply string, args ...string) {
		if name != "" {
			args = append(slices.Clone(o.Opening(name)), args...)
		}
		all[v] = newForm(Command(args...), reply, max(o.Batch, 1))
	}
	if n := o.Batch; n > 0 {
		each := func(before []string, job ...string) []string { return append(before, slices.Repeat(job, n)...) }
		array := func(one string) string { return "*" + strconv.Itoa(n) + "\r\n" + strings.Repeat(one, n) }
		add(Enqueue, "MENQUEUE", array(":1\r\n"), each([]string{base}, mark, payload)...)
		add(Claim, "MCLAIM", array(claimed), base, lease, strconv.Itoa(n))
		add(Complete, "MCOMPLETE", array(":1\r\n"), each([]string{base}, mark, "1")...)
		add(Fail, "MFAIL", array(":1\r\n"), each([]string{base, "25"}, mark, "1", delay, reason)...)
		add(Bury, "MFAIL", array(":2\r\n"), each([]string{base, "1"}, mark, "1", delay, reason)...)
		add(Drop, "", ":"+strconv.Itoa(n)+"\r\n", each([]string{"DEL"}, row+mark)...)
		return all
	}
	fail := func(max string) []string {
		return []string{"4", active, base + "schedule", base + "dead", row + mark, mark, "1", delay, max, reason, base}
	}
	add(Enqueue, "ENQUEUE", ":1\r\n", "2", row+mark, pending, mark, payload)
	add(Claim, "CLAIM", claimed, "2", pending, active, row, lease)
	add(Complete, "COMPLETE", ":1\r\n", "2", active, row+mark, mark, "1", base)
	add(Fail, "FAIL", bulk("scheduled"), fail("25")...)
	add(Bury, "FAIL", bulk("dead"), fail("1")...)
	add(Drop, "", ":1\r\n", "DEL", row+mark)
	return all
}

// indexes are the places where a text has a mark.
func indexes(text []byte, mark string) (all []int) {
	for at := 0; ; at += len(mark) {
		i := bytes.Index(text[at:], []byte(mark))
		if i < 0 {
			return all
		}
		at += i
		all = append(all, at)
	}
}

// Command is a request in the protocol's form.
func Command(words ...string) []byte {
	b := []byte("*" + strconv.Itoa(len(words)) + "\r\n")
	for _, w := range words {
		b = append(b, bulk(w)...)
	}
	return b
}

func bulk(s string) string { return "$" + strconv.Itoa(len(s)) + "\r\n" + s + "\r\n" }
