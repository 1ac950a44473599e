package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	emq "emq/clients/go"
	"emq/tools/spawn"
)

// The exit codes of a job's command, as in sysexits.h, that mean more than done or failed.
const (
	exDataErr  = 65
	exTempFail = 75
)

func newWork(a *app) *cobra.Command {
	w := work{app: a}
	var concurrency, maxFailures int
	var lease, grace time.Duration
	var untilEmpty bool
	cmd := &cobra.Command{
		Use:   "work QUEUE… -- COMMAND [ARGUMENT…]",
		Short: "run a command for each job",
		Long: `Works on queues: runs the command for each job, with the payload on its standard input, and $EMQ_ID, $EMQ_QUEUE,
$EMQ_TOKEN (which claim this is) and $EMQ_FAILURES (how often it failed before). How the command ends says what becomes of
the job:

  0      done
  75     later: it comes again after --later, and that is no failure
  65     dead at once: no retry would help
  other  failed: it comes again, later each time, and is dead after --max-failures

The error of a failed job is the end of what the command wrote to its standard error, 1 KiB at most. A command may take as
long as it likes: its lease is extended. If the lease is lost all the same, or --job-timeout is over, its process group
gets SIGTERM, and SIGKILL five seconds later.

On SIGTERM or Ctrl-C no more jobs are claimed. Commands have --grace to end; then they are killed, and their jobs given back,
uncounted. A second signal kills at once. If this program itself is killed, so are its commands, on Linux, though not what
they have started, and the server gives their jobs to others when the leases end. If the command can't be started, the job
is given back and this program ends.

With --until-empty it ends when there is nothing to do: no job is pending, or the queue is paused, and none is in its hands. It
does not wait for jobs that are due later, failed ones among them, nor for those of other workers.`,
		Example: `  emq work mails -c 4 -- /usr/local/bin/send-mail
  emq work reports --until-empty --quiet -- /usr/local/bin/report     from cron
  emq work thumbnails --job-timeout 2m -- sh -c 'read -r file; convert "$file" -resize 200 "$file.small"'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if dash := cmd.ArgsLenAtDash(); dash < 1 || dash == len(args) {
				return errors.New("give the queues, then --, then the command")
			}
			return nil
		},
		ValidArgsFunction: a.completeQueues(-1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			queues := args[:dash]
			w.command = args[dash:]
			switch {
			case concurrency < 1:
				return usage("-c is at least 1")
			case maxFailures < 1:
				return usage("--max-failures is at least 1")
			case w.timeout < 0 || w.later < 0 || grace < 0:
				return usage("--job-timeout, --later and --grace are not less than 0")
			}
			if err := possible(queues...); err != nil {
				return err
			}
			path, err := exec.LookPath(w.command[0])
			if err != nil {
				return usage("the command can't be run: %w", err)
			}
			w.command[0] = path
			ctx := cmd.Context()
			w.waits = true
			if w.client, err = a.client(ctx); err != nil {
				return err
			}
			log := emq.Log(slog.New(w.logger()))
			worker := emq.NewWorker(w.client, log, emq.Grace(grace), emq.Slots(concurrency))
			for _, name := range queues {
				q := emq.NewQueue[[]byte](w.client, name, emq.Encoding(emq.Raw), emq.Lease(lease),
					emq.Failures(maxFailures, emq.Exponential(time.Second, time.Hour)))
				emq.Handle(worker, q, w.do, emq.Concurrency(concurrency))
			}
			signals := make(chan os.Signal, 4)
			signal.Notify(signals, os.Interrupt, syscall.SIGTERM) // to the end: another signal must not change the exit code
			go func() {
				<-signals
				for first := time.Now(); ; {
					<-signals
					if time.Since(first) < twice {
						continue
					}
					w.killed.Store(true)
					if w.kill() > 0 {
						w.cut.Store(true)
					}
				}
			}()
			ctx, w.stop = context.WithCancelCause(ctx)
			if untilEmpty {
				go w.whenEmpty(ctx, queues)
			}
			err = worker.Run(ctx)
			w.kill() // the commands that did not end in time
			switch unable := (*exit)(nil); {
			case err != nil:
				return err
			case errors.As(context.Cause(ctx), &unable):
				return unable
			case w.cut.Load():
				return failure(exitInterrupted, "commands were killed, and their jobs given back")
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.IntVarP(&concurrency, "concurrency", "c", 1, "how many commands run at a time")
	f.DurationVar(&lease, "lease", 30*time.Second, "after so long without a sign of life, a job is another worker's")
	f.DurationVar(&grace, "grace", 20*time.Second, "how long commands may go on when this program is stopped")
	f.DurationVar(&w.timeout, "job-timeout", 0, "how long a command may take; 0 is as long as it likes")
	f.DurationVar(&w.later, "later", time.Minute, "when a job comes again whose command ended with 75")
	f.IntVar(&maxFailures, "max-failures", 25, "how often a job may fail before it is dead")
	f.BoolVar(&untilEmpty, "until-empty", false, "end when there is nothing to do")
	f.BoolVarP(&w.silent, "quiet", "q", false, "log nothing but what is wrong")
	return cmd
}

// work runs commands for jobs.
type work struct {
	*app
	client         *emq.Client
	command        []string
	timeout, later time.Duration
	silent         bool

	busy atomic.Int64            // jobs in hand
	stop context.CancelCauseFunc // no more jobs are claimed

	mu      sync.Mutex
	running map[int]bool // process groups
	killed  atomic.Bool  // there was a second signal
	cut     atomic.Bool  // and it has killed a command
}

func (w *work) logger() slog.Handler {
	var o slog.HandlerOptions
	if w.silent {
		o.Level = slog.LevelWarn
	}
	if w.json {
		return slog.NewJSONHandler(w.err, &o)
	}
	return slog.NewTextHandler(w.err, &o)
}

// whenEmpty ends the work when none of its queues has anything to do. It looks twice, since the first time a claimed
// job may not have reached this program yet.
func (w *work) whenEmpty(ctx context.Context, queues []string) {
	for seen := 0; seen < 2; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(glances):
		}
		seen++
		for _, name := range queues {
			s, err := emq.NewQueue[[]byte](w.client, name).Stats(ctx)
			if isClass(err, "NOPERM") {
				w.stop(refused("--until-empty: %w", err))
				return
			}
			if err != nil || s.Pending > 0 && !s.Paused {
				seen = 0
			}
		}
		if w.busy.Load() > 0 {
			seen = 0
		}
	}
	w.stop(nil)
}

const (
	// patience is how long a command may run after SIGTERM.
	patience = 5 * time.Second
	// twice is how long a repeated signal counts as the same: timeout(1), for example, signals a process and then its group.
	twice = 50 * time.Millisecond
	// glances is the interval between two looks at the queues.
	glances = 200 * time.Millisecond
)

// do runs the command for a job.
func (w *work) do(ctx context.Context, job *emq.Job[[]byte]) error {
	w.busy.Add(1)
	defer w.busy.Add(-1)
	tail := &tail{to: w.err}
	cmd := exec.Command(w.command[0], w.command[1:]...)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(job.Value), tail
	cmd.Stdout, _ = bare(w.out).(io.Writer) // directly, without a copy
	cmd.Env = append(os.Environ(), "EMQ_ID="+string(job.ID), "EMQ_QUEUE="+job.Queue, "EMQ_TOKEN="+strconv.FormatInt(job.Token, 10))
	if n, known := w.failures(ctx, job); known {
		cmd.Env = append(cmd.Env, "EMQ_FAILURES="+n)
	}
	cmd.WaitDelay = patience // in case its children keep its streams open
	if strings.Contains(string(job.ID), "\x00") {
		return emq.Dead(errors.New("the job's id has a NUL, which no environment can have"))
	}
	switch err := w.start(cmd); {
	case errors.Is(err, syscall.E2BIG) && len(job.ID) > 100<<10:
		return emq.Dead(fmt.Errorf("the command can't be started for this job: %w", err))
	case err != nil:
		if !w.killed.Load() {
			w.stop(refused("the command can't be started: %w", err))
		}
		return emq.Snooze(0)
	}
	if w.timeout > 0 { // not the worker's own timeout, which waits only a second
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, w.timeout, emq.ErrTimeout)
		defer cancel()
	}
	group := cmd.Process.Pid
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		wait := patience
		if context.Cause(ctx) == emq.ErrStopping {
			wait = 500 * time.Millisecond // the grace period is over, and the worker waits only a second
		}
		_ = syscall.Kill(-group, syscall.SIGTERM)
		select {
		case err = <-ended:
		case <-time.After(wait):
			_ = syscall.Kill(-group, syscall.SIGKILL)
			err = <-ended
		}
	}
	w.mu.Lock()
	delete(w.running, group)
	w.mu.Unlock()
	if cmd.ProcessState == nil {
		return err
	}
	switch code := cmd.ProcessState.ExitCode(); {
	case code == 0:
		return nil
	case code == exTempFail:
		return emq.Snooze(w.later)
	case code == exDataErr:
		return emq.Dead(tail.error(cmd.ProcessState))
	case w.killed.Load():
		return emq.Snooze(0)
	case context.Cause(ctx) == emq.ErrTimeout:
		return fmt.Errorf("the command took too long, more than %s: %w", w.timeout, tail.error(cmd.ProcessState))
	}
	return tail.error(cmd.ProcessState)
}

// start starts a command in a process group of its own, which the terminal's signals do not reach.
func (w *work) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = spawn.Attributes()
	cmd.SysProcAttr.Setpgid = true
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.killed.Load() {
		return errors.New("interrupted")
	}
	if err := spawn.Start(cmd); err != nil {
		return err
	}
	if w.running == nil {
		w.running = map[int]bool{}
	}
	w.running[cmd.Process.Pid] = true
	return nil
}

// kill kills the running commands, and returns their number.
func (w *work) kill() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for group := range w.running {
		_ = syscall.Kill(-group, syscall.SIGKILL)
	}
	return len(w.running)
}

// failures is how often a job has failed before, if the user may read that.
func (w *work) failures(ctx context.Context, job *emq.Job[[]byte]) (string, bool) {
	r, _, err := w.client.Do(ctx, job.Queue, "HGET", "emq:{"+job.Queue+"}:job:"+string(job.ID), "failures")
	if err != nil {
		return "", false
	}
	if r.Null {
		return "0", true
	}
	return r.Str, true
}

// tail passes on what is written, and keeps its end.
type tail struct {
	to   io.Writer
	mu   sync.Mutex // children of a command may still write
	kept []byte
}

const tailBytes = 1024

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept = append(t.kept, b...); len(t.kept) > 2*tailBytes {
		t.kept = bytes.Clone(t.kept[len(t.kept)-tailBytes-4:])
	}
	_, _ = t.to.Write(b) // a failed write to the log is no failure of the job
	return len(b), nil
}

// error is the error of a failure: the last output, or how the command ended.
func (t *tail) error(state *os.ProcessState) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := t.kept[max(0, len(t.kept)-tailBytes):]
	if len(end) < len(t.kept) {
		for len(end) > 0 && end[0]&0xC0 == 0x80 { // not from the middle of a character
			end = end[1:]
		}
	}
	text := strings.TrimSpace(strings.ToValidUTF8(string(end), "\uFFFD"))
	if text == "" {
		return fmt.Errorf("the command ended with %s", state)
	}
	return errors.New(text)
}
