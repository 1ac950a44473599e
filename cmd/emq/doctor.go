package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"emq/operator"
)

var statusNames = [...]string{operator.OK: "ok", operator.Warning: "warning", operator.Critical: "critical", operator.Unknown: "unknown"}

func (p palette) status(s operator.Status, text string) string {
	switch s {
	case operator.Critical:
		return p.red(text)
	case operator.OK:
		return text
	}
	return p.yellow(text)
}

func newDoctor(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "whether the server is fit to keep jobs, and what to do if not",
		Long: `doctor looks at the module and its wire, the database's identity, memory, persistence, replicas, the pump, panics, broken
gates, and queues with work and no worker. The first line says it all; the others give each check, what it found and what to
do.

The exit codes are those of Nagios: 0 well, 1 warning, 2 critical or out of reach, 3 unknown.`,
		Example: `  emq doctor
  emq doctor --json | jq -r 'select(.status != "ok") | .advice'
  emq --context prod doctor`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{usageExit: "3"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			p := a.colours(a.out)
			s, err := a.server(cmd.Context())
			var checks []operator.Check
			switch code := exitCode(cmd.Context(), err); code {
			case exitDone:
				checks = s.Doctor(cmd.Context())
			case exitUnreachable:
				checks = []operator.Check{{Name: "server", Status: operator.Critical, Text: complaint(code, err)}}
			case exitInterrupted:
				return err
			default:
				return &exit{int(operator.Unknown), err}
			}
			worst := operator.Check{Text: "no check was made", Status: operator.Unknown}
			if len(checks) > 0 {
				worst = slices.MinFunc(checks, operator.WorstFirst)
			}
			done := error(nil)
			if worst.Status != operator.OK {
				done = &exit{code: int(worst.Status)}
			}
			if a.json {
				for _, c := range checks {
					if err := a.emit(new(record).set("check", c.Name).set("status", statusNames[c.Status]).bytes("text", c.Text).bytes("advice", c.Advice)); err != nil {
						return err
					}
				}
				return done
			}
			var bad []string
			for _, c := range checks {
				if c.Status != operator.OK {
					bad = append(bad, c.Name)
				}
			}
			first := fmt.Sprintf("EMQ %s - ", strings.ToUpper(statusNames[worst.Status]))
			if len(bad) == 0 {
				first += many(len(checks), "check")
			} else {
				first += worst.Name + ": " + printable(worst.Text)
				if len(bad) > 1 {
					first += fmt.Sprintf(" (and %s)", strings.Join(slices.DeleteFunc(bad, func(name string) bool { return name == worst.Name }), ", "))
				}
			}
			fmt.Fprintln(a.out, p.status(worst.Status, first))
			slices.SortStableFunc(checks, operator.WorstFirst)
			for _, c := range checks {
				fmt.Fprintf(a.out, "%s  %s: %s\n", p.status(c.Status, fmt.Sprintf("%-8s", statusNames[c.Status])), c.Name, printable(c.Text))
				if c.Advice != "" && c.Status != operator.OK {
					fmt.Fprintf(a.out, "          %s\n", printable(c.Advice))
				}
			}
			return done
		},
	}
}
