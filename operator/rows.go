package operator

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	emq "emq/clients/go"
)

// longest is the length of the longest last error that is read.
const longest = 64 << 10

// rows are those of a queue.
type rows struct {
	ask         asker
	queue, base string
}

func (s *Server) rows(ask asker, queue string) (rows, error) {
	return rows{ask, queue, "emq:{" + queue + "}:"}, emq.NewQueue[[]byte](s.once, queue).Err()
}

var (
	errNoRow = errors.New("the job has no row: `emq audit` puts that right")
	errSets  = errors.New("it is not where its row says: `emq audit` puts that right")
)

// row reads a job's row, with its payload if that has no more than so many bytes; -1 means any. The job's Err says what
// is wrong with the row.
func (r rows) row(ctx context.Context, id string, payload int64) (j Job, err error) {
	j = Job{ID: id, Queue: r.queue, Made: made(id)}
	key := r.base + "job:" + id
	broken := func(err error) (Job, error) {
		if class(err) != "WRONGTYPE" {
			return j, err
		}
		j.Err = errors.New("the row is of a wrong type: `emq audit` tells of it")
		return j, nil
	}
	length := func(field string) (int64, error) {
		n, err := r.ask(ctx, "HSTRLEN", key, field)
		return n.Int, err
	}
	if j.PayloadBytes, err = length("payload"); err != nil {
		return broken(err)
	}
	text, err := length("last_error")
	if err != nil {
		return broken(err)
	}
	fields := []string{"HMGET", key, "state", "attempts", "failures", "stalled", "group", "parent", "last_error"}
	if text > longest {
		fields = fields[:len(fields)-1]
	}
	reply, err := r.ask(ctx, fields...)
	if err != nil {
		return broken(err)
	}
	row := append(reply.List, emq.Reply{Str: fmt.Sprintf("an error of %s, too long to be shown", Many(text, "byte"))})
	if len(row) < 7 {
		return j, fmt.Errorf("HMGET was answered with %+v", reply)
	}
	j.State, j.LastError = emq.State(row[0].Str), row[6].Str
	j.Foreign = !row[4].Null || !row[5].Null
	j.Claims, err = strconv.ParseInt(row[1].Str, 10, 64)
	j.Failures, _ = strconv.Atoi(row[2].Str)
	j.LostLeases, _ = strconv.Atoi(row[3].Str)
	switch {
	case row[0].Null && row[1].Null && j.PayloadBytes == 0:
		j.Err = errNoRow
		return j, nil
	case setOf[j.State] == "":
		j.Err = fmt.Errorf("the row's state is %.64q, which is none: `emq audit` puts that right", row[0].Str)
	case err != nil && j.State != emq.StateDead:
		j.Err = fmt.Errorf("the row's attempts are %.64q, which is no number: `emq audit` puts that right", row[1].Str)
	}
	switch {
	case j.PayloadBytes == 0:
		j.Payload = []byte{}
	case payload < 0 || j.PayloadBytes <= payload:
		p, err := r.ask(ctx, "HGET", key, "payload")
		if err != nil {
			return broken(err)
		}
		if p.Null {
			j.Err = errNoRow
		} else {
			j.Payload = []byte(p.Str)
		}
	}
	return j, nil
}

// tries is how often a job is read that is not where its row says: it may be moving just then.
const tries = 3

// job reads the job of an entry; here is false if it has left the set meanwhile.
func (s *set) job(ctx context.Context, e entry, payload int64) (j Job, here bool, err error) {
	for range tries {
		if j, err = s.row(ctx, e.id, payload); err != nil {
			return j, false, err
		}
		if j = s.due(j, e); j.State == s.state && j.Err == nil {
			return j, true, nil
		}
		r, err := s.ask(ctx, "ZSCORE", s.key, e.id)
		if err != nil || r.Null {
			return j, false, err
		}
		e.score = scoreOf(r)
	}
	if j.Err == nil {
		j.Err = fmt.Errorf("the row's state is %s, yet it is among the %s ones: `emq audit` puts that right", j.State, s.state)
	}
	j.State = s.state
	return j, true, nil
}

// due sets the due time of a job, if the set's scores are times.
func (s *set) due(j Job, e entry) Job {
	if s.timed {
		j.Due = time.UnixMilli(int64(e.score))
	}
	return j
}

// jobs reads the jobs of some entries, except those that have left and those that keep rejects.
func (s *set) jobs(ctx context.Context, entries []entry, payload int64, keep func(*Job) bool) ([]Job, error) {
	found, here := make([]Job, len(entries)), make([]bool, len(entries))
	err := parallel(len(entries), func(i int) (err error) {
		if found[i], here[i], err = s.job(ctx, entries[i], payload); here[i] && !keep(&found[i]) {
			found[i], here[i] = Job{}, false
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	n := 0
	for i := range found {
		if here[i] {
			found[n] = found[i]
			n++
		}
	}
	return found[:n], nil
}
