package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/spf13/cobra"

	emq "emq/clients/go"
	"emq/operator"
)

// movable are the states whose jobs can move; active jobs have holders.
var movable = []emq.State{emq.StatePending, emq.StateScheduled, emq.StateDead}

func newMove(a *app) *cobra.Command {
	var names []string
	var match string
	var to connection
	var back, gone bool
	cmd := &cobra.Command{
		Use:   "move FROM TO | --back FROM",
		Short: "move jobs to another queue, of this server or another",
		Long: `Moves the jobs of a queue to another, of the same server or of the one that --to-url or --to-context names, with their
failures, errors and times. Both queues can be worked on meanwhile. Jobs in hand stay, and so do those whose id the other
queue has already.

At no time are both queues able to hand out a job, and none gets lost. If the command is broken off, up to a hundred jobs are
on their way: the same command again has them arrive, and goes on.

--back takes jobs back that a move, or the Drain of a program, has left on their way. The other queue is asked which of them it
has got, or had: those stay there. If its server has moved or is known by a program's name for it, --to-url says where it is; if
it is gone for good, --gone takes all jobs back, and what had arrived and was done there is done again.`,
		Example: `  emq move mails mails-old --state dead
  emq move mails mails --to-url valkey://10.0.0.2:6379
  emq move mails mails-big --match '"size":"big"'
  emq move --back mails`,
		Args: func(cmd *cobra.Command, args []string) error {
			if back {
				return cobra.ExactArgs(1)(cmd, args)
			}
			return cobra.ExactArgs(2)(cmd, args)
		},
		ValidArgsFunction: a.completeQueues(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var of []emq.State
			for _, name := range names {
				s, err := stateOf(name, movable...)
				if err != nil {
					return err
				}
				of = append(of, s)
			}
			if len(of) == 0 {
				of = movable
			}
			if err := possible(args...); err != nil {
				return err
			}
			switch {
			case back && (names != nil || match != ""):
				return usage("--back takes all back that is on its way: give no --state and no --match")
			case back:
				return a.back(cmd.Context(), &to, args[0], gone)
			case gone:
				return usage("--gone goes with --back")
			}
			return a.move(cmd.Context(), &to, args[0], args[1], of, operator.Filter{Match: match})
		},
	}
	f := cmd.Flags()
	f.StringSliceVarP(&names, "state", "s", nil, "which jobs: pending, scheduled, dead; all of them, if not given")
	f.StringVar(&match, "match", "", "those with this in their payload or last error, whatever the case of its letters")
	f.StringVar(&to.URL, "to-url", "", "the other server; its password is in $EMQ_TO_PASSWORD, a file, or asked for")
	f.StringVar(&to.context, "to-context", "", "the other server, as one of \"emq context\"")
	f.StringVar(&to.PasswordFile, "to-password-file", "", "a file with its password")
	f.BoolVar(&back, "back", false, "take back what a move that was broken off has left on its way")
	f.BoolVar(&gone, "gone", false, "with --back: also if the other server is gone for good, and can't say what arrived")
	cmd.MarkFlagsMutuallyExclusive("to-url", "to-context")
	_ = cmd.RegisterFlagCompletionFunc("to-context", completeContexts)
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions([]string{"pending", "scheduled", "dead"}, cobra.ShellCompDirectiveNoFileComp))
	return a.bulk(cmd)
}

// named is the client of a server, with a name made from its address, which marks the destination of moving jobs.
func (a *app) named(ctx context.Context) (*emq.Client, error) {
	c, err := a.conn(ctx)
	if err != nil {
		return nil, err
	}
	p, err := a.resolve()
	return emq.UseAll(map[string]emq.Conn{p.String(): c}), err
}

// other is the app for the other server.
func (a *app) other(to *connection) *app {
	other := *a
	other.link, other.connection, other.passwordFrom = nil, *to, "EMQ_TO_PASSWORD"
	return &other
}

func (a *app) move(ctx context.Context, to *connection, from, queue string, of []emq.State, filter operator.Filter) error {
	s, err := a.server(ctx)
	if err != nil {
		return err
	}
	here, err := a.named(ctx)
	if err != nil {
		return err
	}
	there := here
	if to.URL != "" || to.context != "" {
		other := a.other(to)
		defer other.close()
		if there, err = other.named(ctx); err != nil {
			return err
		}
	}
	// The source may be empty because its last jobs are on their way.
	found, err := s.Queues(ctx, from)
	if err != nil {
		return err
	}
	if err := found[0].Err; err != nil {
		return err
	}
	sizes := map[emq.State]int64{emq.StatePending: found[0].Pending, emq.StateScheduled: found[0].Scheduled, emq.StateDead: found[0].Dead}
	var total int64
	var what string
	for i, state := range of {
		total += sizes[state]
		if i > 0 {
			what += ", "
		}
		what += letters(sizes[state], state)
	}
	place := printable(queue)
	if there != here {
		place += " at " + there.Server(queue)
	}
	if filter.Match != "" {
		what = fmt.Sprintf("those of %s with %q in them", what, filter.Match)
	}
	if a.dryRun {
		return a.wouldMove(ctx, s, from, place, of, filter)
	}
	if total > 0 {
		if err := a.confirm(ctx, "Move %s from %s to %s", what, printable(from), place); err != nil {
			return err
		}
	}
	source := emq.NewQueue[[]byte](here, from, emq.Encoding(emq.Raw))
	target := emq.NewQueue[[]byte](there, queue, emq.Encoding(emq.Raw))
	step, done := a.progress("moved")
	defer done()
	var p operator.Progress
	p.Total = total
	moved, _, err := source.MoveTo(ctx, target, movable[0]) // those that were on their way
	if err == nil && moved == 0 && blank(found[0]) {
		return absent("there is no queue %s; \"emq ls\" lists them", shell(from))
	}
	p.Changed = int64(moved)
	for _, state := range of {
		if err != nil {
			break
		}
		before := p.Seen
		ids := chosen(ctx, s, from, state, filter, func(o operator.Progress) { step(operator.Progress{Seen: before + o.Seen, Total: total}) })
		for some, failed := range hundreds(ids, 500) {
			if err = failed; err != nil {
				break
			}
			call, cancel := lingering(ctx)
			moved, exist, failed := source.MoveTo(call, target, state, some...)
			cancel()
			p.Changed, p.Refused = p.Changed+int64(moved), p.Refused+int64(exist)
			if err = cmp.Or(failed, ctx.Err()); err != nil {
				break
			}
		}
		p.Seen += sizes[state]
	}
	done()
	if a.json {
		err = errors.Join(err, a.emit(new(record).bytes("queue", from).bytes("to", queue).set("moved", p.Changed).set("there", p.Refused)))
	}
	switch {
	case err != nil:
		return stopped(ctx, err, "%s moved until then; the same command goes on", many(p.Changed, "job"))
	case !a.json:
		fmt.Fprintf(a.out, "%s moved from %s to %s.\n", many(p.Changed, "job"), printable(from), place)
	}
	if p.Refused > 0 {
		return refused("%s stayed: %s has jobs of their ids already", many(p.Refused, "job"), place)
	}
	return nil
}

// back takes back the jobs that are on their way from a queue.
func (a *app) back(ctx context.Context, to *connection, from string, gone bool) error {
	s, err := a.server(ctx)
	if err != nil {
		return err
	}
	here, err := a.client(ctx)
	if err != nil {
		return err
	}
	source := emq.NewQueue[[]byte](here, from, emq.Encoding(emq.Raw))
	m, err := source.Moving(ctx)
	if err != nil {
		return err
	}
	told := func(back, arrived int) error {
		if a.json {
			return a.emit(new(record).bytes("queue", from).bytes("to", m.Queue).set("back", back).set("arrived", arrived).set("dry_run", a.dryRun))
		}
		return nil
	}
	if m.Jobs == 0 {
		if err := a.present(ctx, s, from); err != nil {
			return err
		}
		if !a.json {
			fmt.Fprintf(a.err, "No job of %s is on its way: nothing was changed.\n", printable(from))
		}
		return told(0, 0)
	}
	there, lost, err := a.askable(ctx, to, here, m)
	if there != here && there != nil {
		defer there.Close()
	}
	switch {
	case err != nil && !lost:
		return err
	case err != nil && !gone:
		return failure(exitCode(ctx, err), "%w. Nothing was changed: if it is elsewhere, --to-url says where; if it is gone for good, --gone takes all %s back, and what "+
			"had arrived there and was done is done again", err, many(m.Jobs, "job"))
	}
	if a.dryRun {
		if !a.json {
			fmt.Fprintf(a.out, "Would be taken back, but for those that arrived: %s of %s, on their way to %s. Nothing was changed.\n",
				many(m.Jobs, "job"), printable(from), printable(m.String()))
		}
		return told(0, 0)
	}
	ask := "Take back %s of %s, on their way to %s"
	if err != nil {
		ask = "Take back %s of %s, on their way to %s, though what arrived there is done again"
	}
	if err := a.confirm(ctx, ask, many(m.Jobs, "job"), printable(from), printable(m.String())); err != nil {
		return err
	}
	call, cancel := lingering(ctx)
	defer cancel()
	var back, arrived int
	if err != nil {
		back, err = source.MoveBackUnasked(call)
	} else {
		back, arrived, err = source.MoveBack(call, emq.NewQueue[[]byte](there, m.Queue, emq.Encoding(emq.Raw)))
	}
	if err != nil {
		return errors.Join(told(back, arrived), stopped(ctx, err, "%s taken back until then, %s had arrived", many(back, "job"), count(arrived)))
	}
	if !a.json {
		fmt.Fprintf(a.out, "%s of %s taken back", many(back, "job"), printable(from))
		if arrived > 0 {
			fmt.Fprintf(a.out, ", %s had arrived", count(arrived))
		}
		fmt.Fprintln(a.out, ".")
	}
	return told(back, arrived)
}

// askable returns a client of the server to which jobs are on their way, under the name that the move uses for it. lost
// reports whether the error may mean that the server is gone; one that refuses is not.
func (a *app) askable(ctx context.Context, to *connection, here *emq.Client, m emq.Moving) (c *emq.Client, lost bool, err error) {
	named := to.URL != "" || to.context != ""
	switch {
	case m.Here && named:
		return nil, false, usage("the jobs are on their way to %s of the same server: give no --to-url and no --to-context", printable(m.Queue))
	case m.Here:
		return here, false, nil
	case m.Queue == "" || !named && !strings.Contains(m.Server, "://"):
		return nil, true, refused("which server a program calls %q is not known", m.Server)
	case !named:
		to.URL = m.Server
	}
	conn, err := a.other(to).conn(ctx)
	if err != nil {
		return nil, exitCode(ctx, err) == exitUnreachable && !errors.As(err, new(*emq.Error)), err
	}
	return emq.UseAll(map[string]emq.Conn{m.Server: conn}), false, nil
}

// tellMoves reports which jobs of the queues are on their way to others, because no list contains them.
func (a *app) tellMoves(ctx context.Context, s *operator.Server, queues ...string) {
	moves, err := s.Moves(ctx, queues...)
	if err != nil {
		return // only an extra: the command itself has succeeded
	}
	for _, m := range moves {
		line := "Drain or MoveTo of the program"
		if queues, flags := m.Again(); queues != nil {
			line = a.line("move", queues, flags...)
		}
		fmt.Fprintf(a.err, "%s. If they stay there, the move was broken off, and goes on by: %s\n", printable(m.String()), line)
	}
}

func (a *app) wouldMove(ctx context.Context, s *operator.Server, from, place string, of []emq.State, filter operator.Filter) error {
	step, done := a.progress("looked at")
	defer done()
	var n int64
	for _, state := range of {
		for _, err := range chosen(ctx, s, from, state, filter, step) {
			if err != nil {
				return err
			}
			n++
		}
	}
	done()
	if a.json {
		return a.emit(new(record).bytes("queue", from).set("chosen", n).set("dry_run", true))
	}
	fmt.Fprintf(a.out, "Would be moved: %s of %s to %s. Nothing was changed.\n", many(n, "job"), printable(from), place)
	return nil
}

// chosen are the ids of the jobs that a filter chooses.
func chosen(ctx context.Context, s *operator.Server, queue string, state emq.State, f operator.Filter, step func(operator.Progress)) iter.Seq2[emq.ID, error] {
	return func(yield func(emq.ID, error) bool) {
		for j, err := range s.Select(ctx, queue, state, "", 0, f, step) {
			if !yield(emq.ID(j.ID), err) || err != nil {
				return
			}
		}
	}
}

// hundreds splits a sequence into slices of up to n; an error that ends it is yielded alone, after all before it.
func hundreds[T any](all iter.Seq2[T, error], n int) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		var some []T
		for v, err := range all {
			if err != nil {
				if len(some) == 0 || yield(some, nil) {
					yield(nil, err)
				}
				return
			}
			if some = append(some, v); len(some) == n {
				if !yield(some, nil) {
					return
				}
				some = nil
			}
		}
		if len(some) > 0 {
			yield(some, nil)
		}
	}
}
