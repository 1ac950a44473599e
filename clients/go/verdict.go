package emq

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// Causes of the end of a handler's context: context.Cause tells which.
var (
	// ErrLeaseLost: the job is no longer this worker's: another has it, somebody removed it, or the server could not be
	// reached in time. What the handler returns is not told to the server.
	ErrLeaseLost = errors.New("emq: the lease was lost")
	// ErrStopping: the worker stops, and [Grace] is over. The job goes back, uncounted, unless the handler succeeds.
	ErrStopping = errors.New("emq: the worker stops")
	// ErrTimeout: the handler took longer than [Timeout]. That is a failure, also if it does not return.
	ErrTimeout = errors.New("emq: the handler took too long")
)

// verdict is an error that says what is to become of a job.
type verdict struct {
	what  settlement
	delay time.Duration
	err   error
}

func (v *verdict) Error() string {
	switch {
	case v.err != nil:
		return v.err.Error()
	case v.what == toRelease:
		return "emq: snoozed for " + v.delay.String()
	}
	return "emq: the job is settled by its handler"
}

func (v *verdict) Unwrap() error { return v.err }

// Dead, returned by a handler, sends the job to the dead letters at once: no retry would help.
func Dead(err error) error { return &verdict{what: toBury, err: err} }

// RetryIn, returned by a handler, is a failure after which the job waits so long, whatever the queue's [Backoff] says.
func RetryIn(d time.Duration, err error) error { return &verdict{what: toRetry, delay: d, err: err} }

// Snooze, returned by a handler, puts the job off; that is no failure and is not counted.
func Snooze(d time.Duration) error { return &verdict{what: toRelease, delay: d} }

// Drop, returned by a handler, completes a job although it was not done: it is not worth a retry, nor a dead letter. The
// reason goes to the log.
func Drop(err error) error { return &verdict{what: toDrop, err: err} }

// PanicError is a handler's panic, as middleware and the log see it. It is a failure like others.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// protect calls a handler and turns its panic into an error.
func protect(call func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, string(debug.Stack())}
		}
	}()
	return call()
}

// maxErrorText bounds what is kept of an error in a job's row, in bytes.
const maxErrorText = 4096

func errorText(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	return text[:min(len(text), maxErrorText)]
}
