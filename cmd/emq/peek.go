package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"emq/operator"
)

// glance is how much of a payload a list reads.
const glance = 4 << 10

func newPeek(a *app) *cobra.Command {
	var state, after, since string
	n := 20
	cmd := &cobra.Command{
		Use:   "peek QUEUE",
		Short: "the jobs of a queue, in the order in which they are claimed or due",
		Long: `peek lists jobs of one state and changes nothing. Pending and dead jobs come in the order of their ids, scheduled ones
in that of their times, active ones in that of the ends of their leases. Where there are more, the last line says how
to go on.`,
		Example: `  emq peek mails                          the next 20 to be claimed
  emq peek mails --state active           who runs, and how long the leases last
  emq peek mails --state dead --since 2h  dead letters made in the last two hours
  emq peek mails -n 0 --json              all, for programs`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeQueues(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			s1, err := stateOf(state, states...)
			if err != nil {
				return err
			}
			if n < 0 {
				return usage("-n is 0, for all, or more")
			}
			if after != "" && since != "" {
				return usage("--after and --since both say where to begin: give one")
			}
			ctx, queue, place := cmd.Context(), args[0], operator.Cursor(after)
			began, err := timeOf(since)
			if since != "" && err != nil {
				return err
			}
			s, err := a.server(ctx)
			if err != nil {
				return err
			}
			if err := a.present(ctx, s, queue); err != nil {
				return err
			}
			if since != "" {
				if place, err = s.At(ctx, queue, s1, began); err != nil {
					return err
				}
			}
			table := a.jobTable()
			told, more := 0, true
			for more {
				some := jobPage
				if n > 0 {
					some = min(some, n-told)
				}
				page, err := s.Jobs(ctx, queue, s1, place, some, glance)
				if err != nil {
					return err
				}
				told, place = told+len(page.Jobs), page.Next
				more = place != "" && (n == 0 || told < n)
				if !a.json {
					if err := table.print(s1, page.Jobs, more); err != nil {
						return err
					}
					continue
				}
				for _, j := range page.Jobs {
					if err := a.emit(jobRecord(j).payload(j)); err != nil {
						return err
					}
				}
			}
			if a.json {
				return nil
			}
			if told == 0 {
				fmt.Fprintf(a.err, "No job of %s is %s.\n", printable(queue), state)
			}
			if place != "" {
				fmt.Fprintf(a.err, "More: %s\n", a.line("peek", []string{queue}, "--state", state, "-n", fmt.Sprint(n), "--after", string(place)))
			}
			a.tellMoves(ctx, s, queue)
			return nil
		},
	}
	stateFlag(cmd, &state, "pending", "which jobs", states...)
	cmd.Flags().StringVar(&after, "after", "", "behind this place, as the last line of a list has it")
	cmd.Flags().StringVar(&since, "since", "", "made, due or with a lease until then or later: 2h ago, 15:04, \"2006-01-02 15:04\"")
	cmd.Flags().IntVarP(&n, "number", "n", n, "how many, 0 for all")
	return cmd
}
