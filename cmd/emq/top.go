package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"emq/operator"
)

func newTop(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "top [QUEUE…]",
		Short: "the queues on a full screen, those that need a hand first",
		Long: `top shows the queues that need a hand first, then those with the longest backlog, and what comes in and goes out a
second. q ends it.`,
		Example: `  emq top
  emq ls --watch --json    the same figures for programs`,
		ValidArgsFunction: a.completeQueues(-1),
		RunE: func(cmd *cobra.Command, names []string) error {
			in, ok := a.in.(*os.File)
			if a.json || !ok || !terminal(in) || !terminal(a.out) {
				return usage("top is for a terminal: \"emq ls --watch\" also prints into pipes, with --json for programs")
			}
			if err := possible(names...); err != nil {
				return err
			}
			s, err := a.server(cmd.Context())
			if err != nil {
				return err
			}
			ctx, stop := context.WithCancel(cmd.Context())
			defer stop()
			old, err := term.MakeRaw(int(in.Fd()))
			if err != nil {
				return err
			}
			_, _ = io.WriteString(a.out, "\x1b[?1049h\x1b[?25l") // another screen, without a cursor
			defer func() {
				_, _ = io.WriteString(a.out, "\x1b[?25h\x1b[?1049l")
				_ = term.Restore(int(in.Fd()), old)
			}()
			go func() {
				for key := make([]byte, 1); ; {
					if _, err := in.Read(key); err != nil || key[0] == 'q' || key[0] == 'Q' || key[0] == 3 { // Ctrl-C, which is an ordinary key in this mode
						stop()
						return
					}
				}
			}()
			err = a.samples(ctx, s, names, func(sample *operator.Sample) error {
				lines := fitting(a.ranked(sample), a.out)
				_, err := io.WriteString(a.out, "\x1b[H"+strings.Join(lines, "\x1b[K\r\n")+"\x1b[K\x1b[J")
				return err
			})
			if ctx.Err() != nil {
				return nil
			}
			return err
		},
	}
}

// ranked is a frame of top.
func (a *app) ranked(s *operator.Sample) []string {
	p := a.colours(a.out)
	var jobs, dead int64
	var in, out float64
	t := columns("QUEUE", ">PENDING", ">IN/S", ">OUT/S", ">ACTIVE", ">SCHEDULED", ">DEAD", ">OLDEST", ">IDLE WORKERS", "")
	for _, q := range s.Queues {
		jobs, dead, in, out = jobs+q.Pending+q.Active+q.Scheduled, dead+q.Dead, in+q.In, out+q.Out
		why := q.Why
		if q.Err != nil {
			why = strings.TrimPrefix(q.Err.Error(), "emq: ")
		}
		why = p.status(q.Trouble, printable(why))
		if why == "" {
			why = held(q.Queue)
		}
		t.add(printable(q.Name), count(q.Pending), pace(q.In), pace(q.Out), count(q.Active), count(q.Scheduled), count(q.Dead), age(q.Queue),
			count(q.Waiting), why)
	}
	head := fmt.Sprintf("%s  %s, %s, %s dead, %s in and %s out a second", s.At.Local().Format("15:04:05"), many(len(s.Queues), "queue"),
		many(jobs, "job"), count(dead), pace(in), pace(out))
	if s.Err != nil {
		head = p.red(printable(strings.TrimPrefix(s.Err.Error(), "emq: ")))
	}
	lines := []string{head}
	for _, c := range s.Checks {
		if c.Status != operator.OK {
			lines = append(lines, p.status(c.Status, c.Name+": "+printable(c.Text)))
		}
	}
	return append(append(lines, ""), t.lines(p)...)
}

// pace formats a rate per second.
func pace(f float64) string {
	if f > 0 && f < 10 {
		return fmt.Sprintf("%.1f", f)
	}
	return count(int64(f + 0.5))
}
