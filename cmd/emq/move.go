package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"

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
	cmd := &cobra.Command{
		Use:   "move FROM TO",
		Short: "move jobs to another queue, of this server or another",
		Long: `Moves the jobs of a queue to another, of the same server or of the one that --to-url or --to-context names, with their
failures, errors and times. Both queues can be worked on meanwhile. Jobs in hand stay, and so do those whose id the other
queue has already.

At no time are both queues able to hand out a job, and none gets lost. If the command is broken off, up to a few hundred jobs are
on their way: the same command again has them arrive, and goes on.`,
		Example: `  emq move mails mails-old --state dead
  emq move mails mails --to-url valkey://10.0.0.2:6379
  emq move mails mails-big --match '"size":"big"'`,
		Args:              cobra.ExactArgs(2),
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
			return a.move(cmd.Context(), &to, args[0], args[1], of, operator.Filter{Match: match})
		},
	}
	f := cmd.Flags()
	f.StringSliceVarP(&names, "state", "s", nil, "which jobs: pending, scheduled, dead; all of them, if not given")
	f.StringVar(&match, "match", "", "those with this in their payload or last error, whatever the case of its letters")
	f.StringVar(&to.URL, "to-url", "", "the other server; its password is in $EMQ_TO_PASSWORD, a file, or asked for")
	f.StringVar(&to.context, "to-context", "", "the other server, as one of \"emq context\"")
	f.StringVar(&to.PasswordFile, "to-password-file", "", "a file with its password")
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
		other := *a
		other.link, other.connection, other.passwordFrom = nil, *to, "EMQ_TO_PASSWORD"
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
