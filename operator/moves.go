package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	emq "emq/clients/go"
)

// Move describes the jobs that a move has on their way out of a queue, or has left there.
type Move struct {
	From string
	emq.Moving
}

// Moves returns the queues whose jobs are on their way to another. Neither lists of jobs nor EMQ.AUDIT include those
// jobs.
func (s *Server) Moves(ctx context.Context, queues ...string) (list []Move, err error) {
	has, err := s.existing(ctx, queues, func(queue string) string { return "emq:{" + queue + "}:moving" })
	for i, queue := range queues {
		if err != nil {
			return nil, err
		}
		if !has[i] {
			continue
		}
		m := Move{From: queue}
		if m.Moving, err = emq.NewQueue[[]byte](s.once, queue).Moving(ctx); m.Jobs > 0 {
			list = append(list, m)
		}
	}
	return list, err
}

func (m Move) String() string {
	text := fmt.Sprintf("%q has %s on their way to %s", m.From, Many(m.Jobs, "job"), m.Moving)
	if !m.Since.IsZero() {
		text += ", for " + rounded(max(time.Since(m.Since), 0))
	}
	return text
}

// Again returns the arguments of `emq move` that complete the move, queues and flags. It returns nothing if the
// destination is known only by the name that a program has for the server.
func (m Move) Again() (queues, flags []string) {
	switch {
	case m.Here:
	case strings.Contains(m.Server, "://"):
		flags = []string{"--to-url", m.Server}
	default:
		return nil, nil
	}
	return []string{m.From, m.Queue}, flags
}

// line formats Again as a shell's command.
func (m Move) line() string {
	queues, flags := m.Again()
	if queues == nil {
		return "begin the program's Drain or MoveTo again"
	}
	words := append([]string{"emq", "move"}, flags...)
	if slices.ContainsFunc(queues, func(name string) bool { return name[0] == '-' }) {
		words = append(words, "--")
	}
	words = append(words, queues...)
	for i, w := range words {
		words[i] = Shell(w)
	}
	return strings.Join(words, " ")
}

// moving is how long jobs may be on their way before the doctor reports them. A move that is not broken off takes only
// a moment for each hundred.
const moving = time.Minute

func (e *exam) moves(ctx context.Context) Check {
	if e.queuesErr != nil {
		return unknown(e.queuesErr)
	}
	names := make([]string, len(e.queues))
	for i, q := range e.queues {
		names[i] = q.Name
	}
	list, err := e.s.Moves(ctx, names...)
	if err != nil {
		return unknown(err)
	}
	var left []string
	for _, m := range list {
		if m.Since.IsZero() || time.Since(m.Since) > moving {
			left = append(left, m.String()+": "+m.line())
		}
	}
	if len(left) == 0 {
		return Check{Text: "no job was left on its way to another queue"}
	}
	return Check{Status: Critical, Text: some(left),
		Advice: "The move was broken off: the same again has the jobs arrive. If their new place is gone for good, `emq move --back QUEUE` takes them back: docs/command.md, Moving jobs"}
}
