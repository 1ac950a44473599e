package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"emq/operator"
)

// The exit codes. Only doctor has others: those of Nagios.
const (
	exitDone        = 0
	exitRefused     = 1
	exitUsage       = 2
	exitAbsent      = 3
	exitUnreachable = 4
	exitInterrupted = 130
)

func newExitCodes(*app) *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "what the exit codes mean",
		Long: `  0    done
  1    the server refused, something failed, or you answered no; what was done until then is told
  2    the command line is wrong, or lacks --yes where there is no terminal to ask on: nothing was changed
  3    there is no such queue, job, group or context
  4    the server can't be reached, or does not let you in
  130  interrupted; what was done until then is told

"emq doctor" has those of Nagios: 0 well, 1 warning, 2 critical, 3 unknown. "emq work" has its own for the commands
that it runs.`,
	}
}

// exit is an error that has an exit code.
type exit struct {
	code int
	err  error // nil if everything was printed
}

func (e *exit) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}
func (e *exit) Unwrap() error { return e.err }

func failure(code int, format string, args ...any) error {
	return &exit{code, fmt.Errorf(format, args...)}
}

// usage: the command line is wrong, and nothing was changed.
func usage(format string, args ...any) error { return failure(exitUsage, format, args...) }

// absent: the thing does not exist.
func absent(format string, args ...any) error { return failure(exitAbsent, format, args...) }

// refused: the action was not done, or not completely.
func refused(format string, args ...any) error { return failure(exitRefused, format, args...) }

// stopped reports the progress of work that ended early with an error. Its code is the error's.
func stopped(ctx context.Context, err error, format string, args ...any) error {
	code, why := exitCode(ctx, err), err.Error()
	if code == exitInterrupted {
		why = "interrupted"
	}
	return failure(code, "%s: %s", why, fmt.Sprintf(format, args...))
}

func exitCode(ctx context.Context, err error) int {
	var own *exit
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &own):
		return own.code
	case ctx.Err() != nil:
		return exitInterrupted
	case errors.Is(err, operator.ErrNoJob):
		return exitAbsent
	}
	return exitRefused
}
