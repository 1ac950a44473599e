package operator

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	emq "emq/clients/go"
)

// Sample is what a [Sampler] knows at one time.
type Sample struct {
	At     time.Time
	Err    error // why the server could not be asked; the rest is then from the last time that it could
	Queues []Sampled
	Checks []Check
}

// Sampled is a queue and its traffic.
type Sampled struct {
	Queue
	At      time.Time // when its figures were read
	In, Out float64   // jobs per second, since the figures before: made, and completed or dead
	Hour    []Minute  // the last 60 minutes that are over, the oldest first, as far as it was watched
	Trouble Status    // whether it needs attention
	Why     string
}

// Minute is a queue in one minute: its jobs at the end, and the numbers of jobs that came and went.
type Minute struct{ Jobs, In, Out int64 }

const (
	// often is how long the figures of a watched queue are valid, and patience how long the sampler waits for a reply.
	often    = 2 * time.Second
	patience = 10 * time.Second
	// round is the number of queues that a sample asks for, and beginning the number of new ones.
	round, beginning = 300, 20_000
	// The names are asked for in every fifth round, and while nobody watches, everything is slower by this factor.
	slower = 5
	hour   = 60
)

// Sampler polls a server's figures, once for all viewers: a process needs only one. It asks often for the queues that
// somebody watches, and for the others in turn, so that 10,000 queues cost the server no more than some hundred.
type Sampler struct {
	server *Server
	often  time.Duration
	wake   chan struct{} // somebody watches

	mu       sync.Mutex
	last     *Sample
	next     chan struct{} // closed when there is a new sample
	watched  map[string]int
	watchers int

	// Used by Run alone.
	queues       map[string]*track
	names, exams time.Time // when they were last asked for
	checks       []Check
}

// Sampler returns a sampler of the server. [Sampler.Run] runs it.
func (s *Server) Sampler() *Sampler {
	return &Sampler{server: s, often: often, wake: make(chan struct{}, 1), last: &Sample{}, next: make(chan struct{}),
		watched: map[string]int{}, queues: map[string]*track{}}
}

// Run samples until the context ends, and then returns nil. While nobody watches it slows down. Only one Run may run at
// a time.
func (p *Sampler) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		began := time.Now()
		p.sample(ctx, began)
		p.rest(ctx, began)
	}
	return nil
}

// rest waits for the next round, which comes earlier if somebody begins to watch.
func (p *Sampler) rest(ctx context.Context, began time.Time) {
	for {
		t := time.NewTimer(time.Until(began.Add(p.often * p.pace())))
		select {
		case <-t.C:
			return
		case <-p.wake:
			t.Stop()
		case <-ctx.Done():
			t.Stop()
			return
		}
	}
}

// pace is the factor by which the sampler is slowed down.
func (p *Sampler) pace() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watchers == 0 {
		return slower
	}
	return 1
}

// sample asks for what is due, and publishes a sample.
func (p *Sampler) sample(until context.Context, now time.Time) {
	ctx, cancel := context.WithTimeout(until, patience)
	defer cancel()
	due := p.often * p.pace() * slower
	err := p.list(ctx, now, due)
	if err == nil {
		err = p.read(ctx, p.turn())
	}
	if until.Err() != nil {
		return
	}
	if err != nil {
		p.publish(&Sample{now, err, p.Latest().Queues, p.server.checks(ctx, nil, err)})
		p.exams = time.Time{}
		return
	}
	queues := p.sampled(now)
	if now.Sub(p.exams) >= 3*due { // checking the gates of many queues is the most expensive part
		p.checks, p.exams = p.examined(ctx, queues), now
	}
	p.publish(&Sample{now, nil, queues, p.checks})
}

// list updates the names of the queues, if that is due. One that is gone is remembered for an hour: it may only be idle.
func (p *Sampler) list(ctx context.Context, now time.Time, due time.Duration) error {
	if now.Sub(p.names) < due {
		return nil
	}
	names, err := p.server.Names(ctx)
	if err != nil {
		return err
	}
	p.names = now
	for _, name := range names {
		t := p.queues[name]
		if t == nil {
			t = &track{}
			p.queues[name] = t
		}
		t.listed = now
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.queues, func(name string, t *track) bool { return now.Sub(t.listed) > hour*time.Minute && p.watched[name] == 0 })
	return nil
}

// turn chooses the queues to ask for now: watched ones, new ones, and of the others those that were not asked for the
// longest time.
func (p *Sampler) turn() (names []string) {
	p.mu.Lock()
	names = slices.Collect(maps.Keys(p.watched))
	p.mu.Unlock()
	for _, name := range names {
		if p.queues[name] == nil {
			p.queues[name] = &track{}
		}
	}
	watched := len(names)
	first := make(map[string]bool, watched)
	for _, name := range names {
		first[name] = true
	}
	for name := range p.queues {
		if !first[name] {
			names = append(names, name)
		}
	}
	others := names[watched:]
	slices.SortFunc(others, func(a, b string) int { return p.queues[a].at.Compare(p.queues[b].at) })
	n := 0
	for n < len(others) && (n < round-watched || n < beginning && p.queues[others[n]].at.IsZero()) {
		n++
	}
	return names[:watched+n]
}

func (p *Sampler) read(ctx context.Context, names []string) error {
	if len(names) == 0 {
		return nil
	}
	list, err := p.server.Queues(ctx, names...)
	if err != nil {
		return err
	}
	now := time.Now()
	for _, q := range list {
		p.queues[q.Name].read(q, now)
	}
	return nil
}

// sampled are the queues in the order of need.
func (p *Sampler) sampled(now time.Time) []Sampled {
	list := make([]Sampled, 0, len(p.queues))
	for _, t := range p.queues {
		if !t.at.IsZero() && !t.phantom() {
			list = append(list, t.sampled(now))
		}
	}
	need := map[Status]int{Critical: 0, Warning: 1, Unknown: 2, OK: 3}
	slices.SortFunc(list, func(a, b Sampled) int {
		return cmp.Or(cmp.Compare(need[a.Trouble], need[b.Trouble]), cmp.Compare(b.Pending+b.Dead, a.Pending+a.Dead), strings.Compare(a.Name, b.Name))
	})
	return list
}

// examined are the doctor's checks, and those that a sampler can make better: work without workers, and growing dead
// letters.
func (p *Sampler) examined(ctx context.Context, queues []Sampled) []Check {
	plain := make([]Queue, len(queues))
	var growing, lying []string
	for i, q := range queues {
		plain[i] = q.Queue
		switch why := fmt.Sprintf("%q has %s", q.Name, q.Why); {
		case q.Trouble == Warning:
			growing = append(growing, why)
		case q.Trouble == Critical && q.Err == nil:
			lying = append(lying, why)
		}
	}
	list := p.server.checks(ctx, plain, nil)
	for i, c := range list {
		switch {
		case c.Name == "dead" && len(growing) > 0:
			list[i] = Check{c.Name, Warning, some(growing), "`emq dead groups QUEUE` tells what they died of"}
		case c.Name == "workers" && c.Status != Unknown:
			list[i] = workers(lying, len(queues))
		}
	}
	return list
}

func (p *Sampler) publish(s *Sample) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = s
	close(p.next)
	p.next = make(chan struct{})
}

// Latest is the last sample. Its queues are in the order of need: those in trouble first, then by their backlog. A
// sample is never changed.
func (p *Sampler) Latest() *Sample {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last
}

// Watch yields each new sample until the context ends. Meanwhile the named queues are asked for often.
func (p *Sampler) Watch(ctx context.Context, queues ...string) iter.Seq[*Sample] {
	return func(yield func(*Sample) bool) {
		defer p.watch(queues, 1)()
		var shown *Sample
		for ctx.Err() == nil {
			p.mu.Lock()
			last, next := p.last, p.next
			p.mu.Unlock()
			if last != shown && !last.At.IsZero() {
				if shown = last; !yield(last) {
					return
				}
				continue
			}
			select {
			case <-next:
			case <-ctx.Done():
			}
		}
	}
}

// watch registers a viewer, and returns a function that ends this.
func (p *Sampler) watch(queues []string, n int) (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchers += n
	for _, name := range queues {
		if p.watched[name] += n; p.watched[name] == 0 {
			delete(p.watched, name)
		}
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return func() { p.watch(queues, -n) }
}

// track is what a sampler remembers about a queue.
type track struct {
	Queue
	at      time.Time // when it was last asked for
	listed  time.Time // when it was last listed
	good    emq.Stats // the last figures that could be read, and when
	goodAt  time.Time
	in, out float64
	hour    []Minute // those that are over; its elements never change, because samples share them
	open    Minute   // the one that is not, and which one that is
	minute  int64
	idle    time.Time // since when there is work and no worker
	grew    time.Time // when there were more dead letters than before
}

// read notes new figures.
func (t *track) read(q Queue, now time.Time) {
	t.Queue, t.at = q, now
	if q.Err != nil {
		t.in, t.out, t.idle = 0, 0, time.Time{}
		return
	}
	first := t.goodAt.IsZero()
	old, took := t.good, now.Sub(t.goodAt).Seconds()
	t.good, t.goodAt = q.Stats, now
	if first {
		old = q.Stats
	}
	// A counter that has decreased was reset, with the server or the queue.
	completed, failed := max(q.Completed-old.Completed, 0), max(q.Failed-old.Failed, 0)
	in, out := max(jobs(q.Stats)-jobs(old)+completed, 0), completed+failed
	if t.in, t.out = 0, 0; !first && took > 0 {
		t.in, t.out = float64(in)/took, float64(out)/took
	}
	t.pass(now.Unix()/60, Minute{jobs(q.Stats), in, out}, jobs(old))
	switch {
	case !idle(q) || completed > 0 || first: // a worker that asks again and again is seen by what it did alone
		t.idle = time.Time{}
	case t.idle.IsZero():
		t.idle = now
	}
	if q.Dead > old.Dead {
		t.grew = now
	}
}

func jobs(s emq.Stats) int64 { return s.Pending + s.Active + s.Scheduled + s.Dead }

// pass adds the jobs that came and went to the current minute. If minutes have passed since the last time, they are
// divided among these.
func (t *track) pass(minute int64, m Minute, before int64) {
	if t.minute == 0 {
		t.minute = minute
	}
	for left := min(max(minute-t.minute, 0), hour); left > 0; left-- {
		in, out := m.In/(left+1), m.Out/(left+1)
		m.In, m.Out = m.In-in, m.Out-out
		t.hour = append(t.hour, Minute{before, t.open.In + in, t.open.Out + out})
		t.open = Minute{}
	}
	if len(t.hour) > hour+20 {
		t.hour = slices.Clone(t.hour[len(t.hour)-hour:])
	}
	t.minute = max(minute, t.minute)
	t.open = Minute{m.Jobs, t.open.In + m.In, t.open.Out + m.Out}
}

// phantom reports whether a queue that somebody named does not exist.
func (t *track) phantom() bool {
	return t.listed.IsZero() && (t.Err != nil || jobs(t.Stats)+t.Completed+t.Failed+t.Waiting == 0)
}

func (t *track) sampled(now time.Time) Sampled {
	s := Sampled{Queue: t.Queue, At: t.at, In: t.in, Out: t.out, Hour: slices.Clip(t.hour[max(0, len(t.hour)-hour):])}
	since := time.Duration(0)
	if !t.idle.IsZero() {
		since = max(now.Sub(t.idle), t.OldestPending)
	}
	switch {
	case class(t.Err) == "NOPERM":
		s.Trouble, s.Why = Unknown, t.Err.Error()
	case t.Err != nil:
		s.Trouble, s.Why = Critical, t.Err.Error()
	case since > stuck:
		s.Trouble, s.Why = Critical, waiting(t.Queue, since)
	case !t.grew.IsZero() && now.Sub(t.grew) < hour*time.Minute && t.Dead > 0:
		s.Trouble, s.Why = Warning, fmt.Sprintf("%s, the latest within %s", Many(t.Dead, "dead letter"), rounded(max(now.Sub(t.grew), time.Second)))
	case t.Paused && t.PausedUntil.IsZero():
		s.Why = "paused"
	case t.Paused:
		s.Why = "paused until " + t.PausedUntil.UTC().Format(time.DateTime) + " UTC"
	case t.Limits.Concurrency > 0 && t.Pending > 0 && t.Active >= int64(t.Limits.Concurrency):
		s.Why = fmt.Sprintf("at its limit of %s at a time", Count(t.Limits.Concurrency))
	case t.Limits.Max > 0 && t.Pending > 0:
		s.Why = fmt.Sprintf("limited to %s in %s", Count(t.Limits.Max), t.Limits.Per)
	case t.Dead > 0:
		s.Why = Many(t.Dead, "dead letter")
	}
	return s
}
