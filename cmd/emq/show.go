package main

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	emq "emq/clients/go"
	"emq/operator"
)

const (
	shown   = 16 << 10 // of a payload without --all
	fetched = 32 << 20 // a longer payload is not fetched without --all
)

func newShow(a *app) *cobra.Command {
	var all, raw bool
	cmd := &cobra.Command{
		Use:   "show QUEUE ID",
		Short: "a job: where it is, what happened to it, its payload",
		Long: `show tells all about a job. Its payload is shown as JSON, as text, or in hex, whichever it is; of a long one the first
16 KiB.`,
		Example: `  emq show mails JOB0H6vWbn0000
  emq show mails JOB0H6vWbn0000 --raw > payload
  emq show mails JOB0H6vWbn0000 --json | jq -r .last_error`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: a.completeQueues(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := possible(args[0]); err != nil {
				return err
			}
			s, err := a.server(cmd.Context())
			if err != nil {
				return err
			}
			most := int64(fetched)
			if all || raw {
				most = -1
			}
			j, err := s.Job(cmd.Context(), args[0], args[1], most)
			if errors.Is(err, operator.ErrNoJob) {
				a.tellMoves(cmd.Context(), s, args[0])
			}
			if err != nil {
				return noJob(err, args[0], args[1])
			}
			switch {
			case raw:
				if terminal(a.out) && strings.IndexFunc(string(j.Payload), func(c rune) bool { return !unicode.IsPrint(c) && c != '\n' && c != '\t' }) >= 0 {
					return usage("the payload has bytes that might speak to the terminal: send it to a file or a pipe")
				}
				_, err := a.out.Write(j.Payload)
				return err
			case a.json:
				return a.emit(jobRecord(j).payload(j))
			}
			return a.tell(j, all)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "the whole payload, however long")
	cmd.Flags().BoolVar(&raw, "raw", false, "the payload alone, byte for byte")
	return cmd
}

// noJob names the job that does not exist.
func noJob(err error, queue, id string) error {
	if errors.Is(err, operator.ErrNoJob) {
		return absent("there is no job %s in %s; \"emq find %s\" looks in all queues", printable(id), printable(queue), shell(id))
	}
	return err
}

// tell shows a job to a person.
func (a *app) tell(j operator.Job, all bool) error {
	p := a.colours(a.out)
	var b strings.Builder
	field := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "%s  %s\n", p.faint(fmt.Sprintf("%-11s", name)), value)
		}
	}
	field("id", printable(j.ID))
	field("queue", printable(j.Queue))
	field("state", string(j.State))
	field("made", moment(j.Made))
	switch j.State {
	case emq.StateScheduled:
		field("due", moment(j.Due))
	case emq.StateActive:
		field("leased until", moment(j.Due))
	}
	field("claims", count(j.Claims))
	field("failures", count(j.Failures))
	field("lost leases", count(j.LostLeases))
	if j.LastError != "" {
		text := strings.ReplaceAll(block(strings.TrimRight(j.LastError, "\n")), "\n", "\n"+strings.Repeat(" ", 13))
		field("last error", p.red(text))
	}
	if j.Foreign {
		field("foreign", "of a lane or a flow: no command changes it")
	}
	if j.Err != nil {
		field("row", p.red(printable(j.Err.Error())))
	}
	text, kind := "", "not shown: --all shows it, --raw prints it byte for byte"
	if j.Payload != nil || j.PayloadBytes == 0 {
		most := shown
		if all {
			most = len(j.Payload)
		}
		if text, kind = readable(j.Payload, most); len(j.Payload) > most {
			kind += "; the first 16 KiB: --all shows it whole, --raw prints it byte for byte"
		}
	}
	field("payload", size(j.PayloadBytes)+", "+kind)
	if text != "" {
		b.WriteString("\n" + text + "\n")
	}
	_, err := fmt.Fprint(a.out, b.String())
	return err
}
