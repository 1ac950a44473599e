package main

import (
	"github.com/spf13/cobra"

	emq "emq/clients/go"
	"emq/operator"
)

func newRelease(a *app) *cobra.Command {
	return a.bulk(&cobra.Command{
		Use:   "release QUEUE ID…",
		Short: "take active jobs from their workers; they can be claimed at once",
		Long: `release takes jobs from the workers that have them, as if they had given them back: nothing is counted. A worker learns so
when it extends the lease or is done. It is for a worker that hangs or is known to be dead, whose lease is long. "-" reads
ids from standard input, one a line.`,
		Example: `  emq peek mails --state active
  emq release mails JOB0H6vWbn0000`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: a.completeQueues(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.byIDs(cmd.Context(), operator.Release, args[0], emq.StateActive, args[1:])
		},
	})
}
