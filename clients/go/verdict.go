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

// PanicError is the panic of a handler, or of what else the program has given, as middleware and the log see it. It is a failure like others.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// protect calls what the program has given, and turns its panic into an error.
func protect(call func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{v, string(debug.Stack())}
		}
	}()
	return call()
}

// read asks a program's error for all that is asked of it here: what is to become of the job, whether it is an [ErrTimeout], and its
// text. One that panics then, as a nil pointer may, is replaced by one that says so; what is known of the rest stays.
func read(err error) (v *verdict, late bool, legible error) {
	if err == nil {
		return nil, false, nil
	}
	failed := protect(func() error {
		_ = errors.As(err, &v)
		late = errors.Is(err, ErrTimeout)
		_ = err.Error()
		return nil
	})
	if failed == nil {
		return v, late, err
	}
	failed = fmt.Errorf("emq: the handler's error, of type %T, can't be read: %w", err, failed)
	if v != nil {
		v = &verdict{v.what, v.delay, failed}
		return v, late, v
	}
	return nil, late, failed
}

// maxErrorText bounds what is kept of an error in a job's row, in bytes.
const maxErrorText = 4096

func errorText(err error) (text string) {
	if err == nil {
		return ""
	}
	if failed := protect(func() error { text = err.Error(); return nil }); failed != nil {
		text = failed.Error()
	}
	return text[:min(len(text), maxErrorText)]
}
