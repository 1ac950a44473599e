package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	emq "emq/clients/go"
	"emq/operator"
)

func newLimit(a *app) *cobra.Command {
	var concurrency, most int
	var per string
	var none bool
	cmd := &cobra.Command{
		Use:   "limit QUEUE…",
		Short: "bound how many jobs of a queue run at a time, or begin in a time",
		Long: `limit bounds what all workers together are handed out of a queue: so many jobs at a time, so many in a time, or both. What
is not named stays as it is; 0 takes a limit away, --none both. Without flags it tells the limits.`,
		Example: `  emq limit mails --concurrency 3
  emq limit mails --max 100 --per 1s
  emq limit mails --concurrency 0
  emq limit mails --none`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: a.completeQueues(-1),
		RunE: func(cmd *cobra.Command, names []string) error {
			changed := cmd.Flags().Changed
			window, err := durationOf(per)
			switch {
			case none && (changed("concurrency") || changed("max") || changed("per")):
				return usage("--none takes all limits away: give no other")
			case concurrency < 0 || most < 0:
				return usage("a limit is 0, for none, or more")
			case changed("per") && (err != nil || window < time.Millisecond):
				return usage("--per %q is no duration: 1s, 1m, 24h", per)
			case changed("max") && most == 0 && changed("per"):
				return usage("--max 0 takes the limit away: give no --per")
			}
			if !changed("concurrency") && !changed("max") && !changed("per") && !none {
				return a.gates(cmd.Context(), names, func(_ emq.Queue[[]byte], before operator.Queue) (string, error) {
					return limits(before), nil
				})
			}
			return a.gates(cmd.Context(), names, func(q emq.Queue[[]byte], before operator.Queue) (string, error) {
				l := before.Limits
				if changed("concurrency") {
					l.Concurrency = concurrency
				}
				if changed("max") {
					l.Max = most
				}
				if changed("per") {
					l.Per = window
				}
				switch {
				case none:
					l = emq.Limits{}
				case l.Max == 0 && changed("max"):
					l.Per = 0
				case l.Max == 0 && l.Per > 0:
					return "", usage("--per needs --max: how many in that time?")
				case l.Max > 0 && l.Per == 0:
					return "", usage("--max needs --per: in which time?")
				}
				before.Limits = l
				return limits(before), q.Limit(cmd.Context(), l)
			})
		},
	}
	f := cmd.Flags()
	f.IntVar(&concurrency, "concurrency", 0, "how many run at a time")
	f.IntVar(&most, "max", 0, "how many are handed out in the time of --per")
	f.StringVar(&per, "per", "", "the time of --max: 1s, 1m, 24h")
	f.BoolVar(&none, "none", false, "no limits")
	return cmd
}

func limits(q operator.Queue) string {
	q.Paused = false
	text := held(q)
	if text == "" {
		text = "no limits"
	}
	return fmt.Sprintf("%s: %s", printable(q.Name), text)
}
