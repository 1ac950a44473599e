package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"
)

// report prints where the server has each job, and fails unless they are all there, and where the clients were told.
func report(ctx context.Context, q queue, seen *tally, took time.Duration) error {
	states := []struct {
		name  string
		count func(context.Context) (int64, error) // on the server
		told  int64                                // to the clients
		note  string
	}{
		{"completed", q.completed, seen.completed.Load(), "done; their rows are gone"},
		{"scheduled", q.size("schedule"), seen.scheduled.Load(), "failed once, to be tried again after " + retryDelay.String()},
		{"dead", q.size("dead"), seen.dead.Load(), "failed for good; kept to be looked at"},
		{"pending", q.size("pending"), 0, "not claimed"},
		{"active", q.size("active"), 0, "claimed and not settled"},
	}
	var total int64
	exact := true
	fmt.Println()
	for _, s := range states {
		count, err := s.count(ctx)
		if err != nil {
			return err
		}
		total += count
		exact = exact && count == s.told
		fmt.Printf("  %-10s %8d   %s\n", s.name, count, s.note)
	}
	enqueued := seen.enqueued.Load()
	fmt.Printf("  %-10s %8d   of %d enqueued\n\n", "in all", total, enqueued)

	if err := q.showScheduled(ctx); err != nil {
		return err
	}
	fmt.Printf("%.2f s: %.0f jobs a second were enqueued, claimed and settled.\n",
		took.Seconds(), float64(enqueued)/took.Seconds())
	if total != enqueued || !exact {
		return errors.New("the server does not have every job where the clients were told")
	}
	fmt.Println("Every job is accounted for.")
	return nil
}

// completed reads the queue's counter of completed jobs.
func (q queue) completed(ctx context.Context) (int64, error) {
	n, err := q.client.Do(ctx, q.client.B().Hget().Key(q.key("metrics:completed")).Field("count").Build()).AsInt64()
	if valkey.IsValkeyNil(err) {
		return 0, nil
	}
	return n, err
}

// size counts one of the queue's sets.
func (q queue) size(set string) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		return q.client.Do(ctx, q.client.B().Zcard().Key(q.key(set)).Build()).AsInt64()
	}
}

// showScheduled shows the job that is due next, as it stands in the store.
func (q queue) showScheduled(ctx context.Context) error {
	next, err := q.client.Do(ctx, q.client.B().Zrange().Key(q.key("schedule")).Min("0").Max("0").Withscores().Build()).AsZScores()
	if err != nil || len(next) == 0 {
		return err
	}
	row, err := q.client.Do(ctx, q.client.B().Hgetall().Key(q.row(next[0].Member)).Build()).AsStrMap()
	if err != nil {
		return err
	}
	due := time.UnixMilli(int64(next[0].Score))
	fmt.Printf("First in schedule, due in %s:\n  %s\n", time.Until(due).Round(time.Second), next[0].Member)
	for _, field := range []string{"state", "attempts", "failures", "last_error"} {
		fmt.Printf("    %-10s  %s\n", field, row[field])
	}
	fmt.Println()
	return nil
}
