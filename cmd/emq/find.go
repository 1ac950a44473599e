package main

import (
	"errors"

	"github.com/spf13/cobra"

	"emq/operator"
)

func newFind(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "find ID",
		Short:   "which queues have a job of that id",
		Long:    "find asks every queue that you may read for a job of that id. Exit code 3 says that none has it.",
		Example: "  emq find JOB0H6vWbn0000",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, id := cmd.Context(), args[0]
			s, err := a.server(ctx)
			if err != nil {
				return err
			}
			queues, err := s.Find(ctx, id)
			if err != nil {
				return err
			}
			t := columns("QUEUE", "STATE", "")
			for _, queue := range queues {
				j, err := s.Job(ctx, queue, id, 0)
				switch {
				case errors.Is(err, operator.ErrNoJob):
					continue // it was there a moment ago
				case err != nil:
					return err
				case a.json:
					if err := a.emit(jobRecord(j)); err != nil {
						return err
					}
				}
				t.add(printable(queue), string(j.State), a.line("show", []string{queue, id}))
			}
			if len(t.rows) == 0 {
				return absent("no queue that you may read has a job %s", printable(id))
			}
			if a.json {
				return nil
			}
			return t.print(a)
		},
	}
}
