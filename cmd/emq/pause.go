package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	emq "emq/clients/go"
	"emq/operator"
)

// gates calls do for each of the queues, with its previous figures.
func (a *app) gates(ctx context.Context, names []string, do func(q emq.Queue[[]byte], before operator.Queue) (told string, err error)) error {
	if err := possible(names...); err != nil {
		return err
	}
	client, err := a.client(ctx)
	if err != nil {
		return err
	}
	s, err := a.server(ctx)
	if err != nil {
		return err
	}
	queues, err := s.Queues(ctx, names...)
	if err != nil {
		return err
	}
	for _, before := range queues {
		if before.Err != nil {
			return before.Err
		}
		text, err := do(emq.NewQueue[[]byte](client, before.Name, emq.Encoding(emq.Raw)), before)
		if err != nil {
			return err
		}
		if a.json {
			after, err := s.Queues(ctx, before.Name)
			if err != nil {
				return err
			}
			if err := a.emit(figures(after[0])); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintln(a.out, text)
		if blank(before) {
			fmt.Fprintf(a.err, "There were no jobs in %s so far: is that its name?\n", printable(before.Name))
		}
	}
	return nil
}

func newPause(a *app) *cobra.Command {
	var d string
	cmd := &cobra.Command{
		Use:   "pause QUEUE…",
		Short: "hand out no more jobs of a queue",
		Long: `pause keeps jobs from being claimed, by whatever worker. What runs goes on running, and jobs can be enqueued. It lasts
until "emq resume", also over restarts, or as long as --for says.`,
		Example: `  emq pause mails --for 10m
  emq pause mails orders`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeQueues(-1),
		RunE: func(cmd *cobra.Command, names []string) error {
			var until time.Duration
			if cmd.Flags().Changed("for") {
				var err error
				if until, err = durationOf(d); err != nil || until < time.Millisecond {
					return usage("--for %q is no duration: 90s, 10m, 2h", d)
				}
			}
			return a.gates(cmd.Context(), names, func(q emq.Queue[[]byte], _ operator.Queue) (string, error) {
				if until == 0 {
					return fmt.Sprintf("%s is paused. To go on: %s", printable(q.Name()), a.line("resume", []string{q.Name()})), q.Pause(cmd.Context(), 0)
				}
				return fmt.Sprintf("%s is paused for %s.", printable(q.Name()), span(until)), q.Pause(cmd.Context(), until)
			})
		},
	}
	cmd.Flags().StringVar(&d, "for", "", "how long: 90s, 10m, 2h; without it until \"emq resume\"")
	return cmd
}

func newResume(a *app) *cobra.Command {
	return &cobra.Command{
		Use:               "resume QUEUE…",
		Short:             "end a pause",
		Long:              "resume has the jobs of a queue handed out again. It is no fault if the queue is not paused.",
		Example:           "  emq resume mails",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeQueues(-1),
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.gates(cmd.Context(), names, func(q emq.Queue[[]byte], before operator.Queue) (string, error) {
				if !before.Paused {
					return fmt.Sprintf("%s is not paused.", printable(q.Name())), nil
				}
				return fmt.Sprintf("%s goes on.", printable(q.Name())), q.Resume(cmd.Context())
			})
		},
	}
}
