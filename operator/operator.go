// Package operator looks at the queues of a server, and puts their jobs in order, for people: the command emq and the page
// of package web are made of it. It asks the server for no more than what is shown, a page of jobs at a time, and changes
// jobs by the verbs alone, some hundred in a call. Its rights are those of the user "operator" in docs/operations.md.
package operator

import (
	"context"
	"errors"
	"iter"
	"time"

	emq "emq/clients/go"
)

// Server is a server with the module, as an operator sees it. It is safe for concurrent use.
type Server struct {
	conn   emq.Conn
	client *emq.Client
}

// New is the server at a connection, which stays the caller's to close.
func New(c emq.Conn) *Server { return &Server{c, emq.Use(c)} }

// Queue is a queue and its figures.
type Queue struct {
	Name string // its bytes, which need not be text
	emq.Stats
	// Err says why there are no figures: somebody broke one of its keys, or they may not be read.
	Err error
}

// Names lists the queues that the user may read, in the order of their bytes.
func (s *Server) Names(ctx context.Context) ([]string, error) { return s.client.Queues(ctx) }

// Queues has the figures of the named queues, in their order, or without any name of all. A queue without figures has an Err
// of its own, and takes no other's away.
func (s *Server) Queues(ctx context.Context, names ...string) ([]Queue, error) {
	return nil, errors.ErrUnsupported
}

// Job is a job as its row and its set have it.
type Job struct {
	ID, Queue string
	State     emq.State
	// Made is when the id was made, if it tells: the canonical form and a ULID do. Else it is zero.
	Made time.Time
	// Due is when a scheduled job can be claimed, and when an active one's lease ends; zero for the others.
	Due time.Time
	// Claims is how often it was claimed: the row's attempts, and its holder's token.
	Claims               int64
	Failures, LostLeases int
	LastError            string
	// Payload is nil if it is longer than the bytes that were asked for; PayloadBytes tells how long it is.
	Payload      []byte
	PayloadBytes int64
	// Foreign jobs belong to a lane or a flow of EchoMQ's scripts: no verb changes them.
	Foreign bool
	// Err says why the row can't be read.
	Err error
}

// ErrNoJob: there is no job of that id in the queue.
var ErrNoJob = errors.New("there is no such job")

// Cursor is a place in the jobs of a state; the empty one is before the first. A place stays good when the job that it names has
// gone. It is printable text, to be handed out and taken back.
type Cursor string

// Page is some jobs of a state, in the order in which they are claimed or due.
type Page struct {
	Jobs []Job
	// Next is behind the last of them, and empty if there are no more. Previous is where the page before begins, and empty on the
	// first.
	Next, Previous Cursor
	First          bool
}

// Jobs has up to n jobs of a state, 1 to 1000, behind a place. Payloads up to that many bytes come along.
func (s *Server) Jobs(ctx context.Context, queue string, state emq.State, after Cursor, n int, payload int64) (Page, error) {
	return Page{}, errors.ErrUnsupported
}

// At is the place before the jobs that are due, or whose leases end, at a time or later; of pending and dead ones, those made
// then or later, if their ids tell.
func (s *Server) At(ctx context.Context, queue string, state emq.State, t time.Time) (Cursor, error) {
	return "", errors.ErrUnsupported
}

// Job has one job, whatever its state, and its payload, if that has no more than so many bytes; -1 is no bound.
func (s *Server) Job(ctx context.Context, queue, id string, payload int64) (Job, error) {
	return Job{}, errors.ErrUnsupported
}

// Find tells which queues have a job of that id.
func (s *Server) Find(ctx context.Context, id string) ([]string, error) {
	return nil, errors.ErrUnsupported
}

// Filter chooses jobs; its zero value chooses all.
type Filter struct {
	Match     string        // in the payload or the last error, whatever the case of its letters
	Group     string        // the last error, normalised, is this: see [Normalise]
	OlderThan time.Duration // by the id; one that does not tell is not older
	MadeAfter time.Time     // likewise
}

// Progress is how far a walk has come. Total is about how many there are to walk.
type Progress struct {
	Seen, Chosen, Changed, Refused int64
	Total                          int64
}

// Select walks a state from a place on, at most `window` jobs, 0 being all, and yields those that the filter chooses. It reads
// only what the filter looks at; payloads of more than 1 MiB are not searched. step, if not nil, is called after each page.
func (s *Server) Select(ctx context.Context, queue string, state emq.State, after Cursor, window int64, f Filter, step func(Progress)) iter.Seq2[Job, error] {
	return func(yield func(Job, error) bool) { yield(Job{}, errors.ErrUnsupported) }
}

// Group is dead letters, or other jobs, whose last errors are alike.
type Group struct {
	Error   string // normalised: see [Normalise]
	Example Job    // the latest, with its error as it is
	Jobs    int64
	Oldest  time.Time // by the ids, zero if none tells
	Newest  time.Time
}

// Groups counts the jobs of a state by their last errors, normalised, the most frequent first.
func (s *Server) Groups(ctx context.Context, queue string, state emq.State, f Filter, step func(Progress)) ([]Group, error) {
	return nil, errors.ErrUnsupported
}

// Normalise takes out of an error what differs from job to job: numbers, ids, addresses, times, quoted texts. Errors that then
// are the same have the same cause, so far as a text can tell.
func Normalise(text string) string { return text }

// Action is what can be done with jobs.
type Action string

// The actions. A dead job that is requeued starts afresh; a scheduled one is run now; a released one is taken from its holder,
// uncounted, and can be claimed at once.
const (
	Requeue Action = "requeue"
	Remove  Action = "remove"
	Release Action = "release"
)

// Apply does it with all jobs of a sequence that are still of that state, 500 in a call, and tells how many were changed. It
// ends with the context, between two calls, and after the first refusal; what was changed until then stays changed.
func (s *Server) Apply(ctx context.Context, a Action, queue string, state emq.State, ids iter.Seq2[string, error], step func(Progress)) (Progress, error) {
	return Progress{}, errors.ErrUnsupported
}

// Status is how a check went, in the numbers of Nagios' exit codes.
type Status int

// The statuses.
const (
	OK Status = iota
	Warning
	Critical
	Unknown
)

// Check is one thing that Doctor looked at.
type Check struct {
	Name   string // short and stable: "module", "fence", "persistence", …
	Status Status
	Text   string // what was found
	Advice string // what to do, if anything; a page of docs/ where there is more
}

// Doctor looks whether the server is fit to keep jobs: module and wire, the fence, memory policy and room, persistence,
// replicas, the pump's lag, panics, broken gates, and queues with work and no worker. What may not be looked at is Unknown.
func (s *Server) Doctor(ctx context.Context) []Check { return nil }

// Sample is what a [Sampler] knows at a time.
type Sample struct {
	At     time.Time
	Err    error // the server could not be asked; the rest is then of the last time it could
	Queues []Sampled
	Checks []Check
}

// Sampled is a queue and how it moves.
type Sampled struct {
	Queue
	At        time.Time // when its figures were read
	In, Out   float64   // jobs per second, since the figures before: made, and completed or dead
	Hour      []Minute  // the last 60 minutes, the oldest first, as far as it was watched
	Trouble   Status    // whether it needs a hand
	Why       string
}

// Minute is a queue in one minute: its jobs at the end, and how many came and went.
type Minute struct{ Jobs, In, Out int64 }

// Sampler asks a server for its figures again and again, once for all who look: a process has one. It asks often for the
// queues that somebody looks at, and for the others in turn, so that the server spends no more on 10,000 queues than on some
// hundred.
type Sampler struct{}

// Sampler of a server; [Sampler.Run] has it work.
func (s *Server) Sampler() *Sampler { return &Sampler{} }

// Run samples until the context ends. While nobody watches it slows down.
func (p *Sampler) Run(ctx context.Context) error { return errors.ErrUnsupported }

// Latest is the last sample, whose queues are in the order of need: those in trouble first, then by their backlog. It is never
// changed.
func (p *Sampler) Latest() *Sample { return &Sample{} }

// Watch yields a sample whenever there is a new one, until the context ends. The named queues are asked for often while
// somebody watches them.
func (p *Sampler) Watch(ctx context.Context, queues ...string) iter.Seq[*Sample] {
	return func(yield func(*Sample) bool) {}
}
