package operator

import (
	"cmp"
	"context"
	"slices"
	"time"

	emq "emq/clients/go"
)

// Group is a group of dead letters, or other jobs, whose normalised last errors are equal.
type Group struct {
	Error   string // normalised: see [Normalise]
	Example Job    // the latest, with its original error
	Jobs    int64
	Oldest  time.Time // by the ids; zero if none contains its time
	Newest  time.Time
}

const (
	// groupsKept bounds the number of groups, and others is the error of the group that has all further jobs.
	groupsKept = 1000
	others     = "{other}"
)

// Groups counts the jobs in a state by their normalised last errors, the most frequent first. Only the first 1000
// errors have groups of their own; all others are in one whose error is "{other}". Examples have no payload.
func (s *Server) Groups(ctx context.Context, queue string, state emq.State, f Filter, step func(Progress)) ([]Group, error) {
	f.Rows, f.Payload = true, 0
	found := map[string]*Group{}
	var n normaliser
	for j, err := range s.Select(ctx, queue, state, "", 0, f, step) {
		if err != nil {
			return nil, err
		}
		text := n.normalise(j.LastError)
		g := found[text]
		if g == nil && len(found) >= groupsKept {
			text = others
			g = found[text]
		}
		if g == nil {
			g = &Group{Error: text}
			found[text] = g
		}
		g.add(j)
	}
	list := make([]Group, 0, len(found))
	for _, g := range found {
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b Group) int { return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Error, b.Error)) })
	return list, nil
}

func (g *Group) add(j Job) {
	if g.Jobs++; g.Jobs == 1 || !j.Made.Before(g.Example.Made) {
		g.Example = j
		g.Example.Payload = nil
	}
	if j.Made.IsZero() {
		return
	}
	if g.Oldest.IsZero() || j.Made.Before(g.Oldest) {
		g.Oldest = j.Made
	}
	if j.Made.After(g.Newest) {
		g.Newest = j.Made
	}
}
