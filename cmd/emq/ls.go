package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"emq/operator"
)

func newLs(a *app) *cobra.Command {
	watch := false
	cmd := &cobra.Command{
		Use:   "ls [QUEUE…]",
		Short: "the queues, and how they are doing",
		Long: `ls lists the queues with their jobs by state, the age of the oldest pending job, the workers that wait for one,
and what holds a queue back. The queues are those that you may read.`,
		Example: `  emq ls
  emq ls --watch mails orders             two of them, again and again
  emq ls --json | jq 'select(.dead > 0)'  queues with dead letters`,
		ValidArgsFunction: a.completeQueues(-1),
		RunE: func(cmd *cobra.Command, names []string) error {
			if err := possible(names...); err != nil {
				return err
			}
			ctx := cmd.Context()
			s, err := a.server(ctx)
			if err != nil {
				return err
			}
			if watch {
				return a.watch(ctx, s, names, a.listed)
			}
			if len(names) > 0 {
				if err := a.present(ctx, s, names...); err != nil {
					return err
				}
			}
			queues, err := s.Queues(ctx, names...)
			if err != nil {
				return err
			}
			unread := 0
			for _, q := range queues {
				if q.Err != nil {
					unread++
				}
				if !a.json {
					continue
				}
				if err := a.emit(figures(q)); err != nil {
					return err
				}
			}
			switch {
			case a.json:
			case len(queues) == 0:
				fmt.Fprintln(a.err, "There are no queues that you may read.")
			default:
				if err := queueTable(a.colours(a.out), queues).print(a); err != nil {
					return err
				}
				names = names[:0]
				for _, q := range queues {
					names = append(names, q.Name)
				}
				a.tellMoves(ctx, s, names...)
			}
			if unread > 0 && unread == len(queues) {
				return refused("no figures can be read")
			}
			return nil
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on, until Ctrl-C: in place on a terminal, further records with --json")
	return cmd
}

// figures is a queue's record: the figures have the protocol's names, and are null if they could not be read.
func figures(q operator.Queue) *record {
	r := new(record).bytes("queue", q.Name)
	for _, name := range []string{"pending", "active", "scheduled", "dead", "completed", "failed", "oldest_pending_age_ms", "next_due_ms",
		"next_expiry_ms", "waiting"} {
		r.figure(name, q)
	}
	if q.Err != nil {
		r.set("paused", nil)
	} else {
		r.set("paused", q.Paused)
	}
	for _, name := range []string{"paused_until_ms", "concurrency", "rate_max", "rate_duration_ms"} {
		r.figure(name, q)
	}
	return r.fault(q.Err)
}

func (r *record) figure(name string, q operator.Queue) {
	if n, ok := q.All[name]; ok {
		r.set(name, n)
	} else {
		r.set(name, nil)
	}
}

// held describes the gates of a queue.
func held(q operator.Queue) string {
	var parts []string
	if q.Paused {
		if q.PausedUntil.IsZero() {
			parts = append(parts, "paused")
		} else {
			parts = append(parts, "paused until "+q.PausedUntil.Local().Format("15:04:05"))
		}
	}
	if n := q.Limits.Concurrency; n > 0 {
		parts = append(parts, fmt.Sprintf("%s at a time", count(n)))
	}
	if n := q.Limits.Max; n > 0 {
		parts = append(parts, fmt.Sprintf("%s in %s", count(n), q.Limits.Per))
	}
	return strings.Join(parts, ", ")
}

func queueTable(p palette, queues []operator.Queue) *table {
	t := columns("QUEUE", ">PENDING", ">ACTIVE", ">SCHEDULED", ">DEAD", ">OLDEST", ">IDLE WORKERS", "")
	for _, q := range queues {
		if q.Err != nil {
			t.add(printable(q.Name), "", "", "", "", "", "", p.red(printable(strings.TrimPrefix(q.Err.Error(), "emq: "))))
			continue
		}
		t.add(printable(q.Name), count(q.Pending), count(q.Active), count(q.Scheduled), count(q.Dead), age(q), count(q.Waiting), p.yellow(held(q)))
	}
	return t
}

// age is the age of a queue's oldest pending job, if its id contains the time.
func age(q operator.Queue) string {
	if _, ok := q.All["oldest_pending_age_ms"]; !ok {
		return ""
	}
	return span(q.OldestPending)
}

// listed is a frame of ls --watch: the queues in the order of their names.
func (a *app) listed(s *operator.Sample) []string {
	queues := make([]operator.Queue, 0, len(s.Queues))
	for _, q := range s.Queues {
		queues = append(queues, q.Queue)
	}
	slices.SortFunc(queues, func(x, y operator.Queue) int { return strings.Compare(x.Name, y.Name) })
	return queueTable(a.colours(a.out), queues).lines(a.colours(a.out))
}
