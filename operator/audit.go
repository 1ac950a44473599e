package operator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	emq "emq/clients/go"
)

// Finding is what EMQ.AUDIT finds wrong.
type Finding struct {
	Queue, What, ID, Part, To string
	Done                      bool
}

const (
	// few queues are each looked through by EMQ.AUDIT alone, which walks over all keys of the database for each. For more there is one walk
	// over them, and EMQ.AUDIT walks for those queues alone in which rows are in no set.
	few = 10
	// rowsPart is how EMQ.AUDIT's cursor begins when it is through with the sets, and walks over the keys. If it should not, it is gone on
	// with to the end.
	rowsPart = "rows:"
	// auditCount is how much a call looks at.
	auditCount = "1000"
)

// Audit looks through queues, and with fix puts right what is wrong. With all it looks at queues of which nothing but rows is left, too. A queue
// that is too broken for it keeps it from no other; broken says why. step is told how far it came with queues, then with keys.
func (s *Server) Audit(ctx context.Context, queues []string, all, fix bool, step func(of string, p Progress)) (found []Finding, broken []error, err error) {
	ask := s.patient()
	whole := len(queues) <= few
	pass := func(of string, queues []string, whole bool) error {
		p := Progress{Total: int64(len(queues))}
		for some := range slices.Chunk(queues, 100) {
			each, errs := make([][]Finding, len(some)), make([]error, len(some))
			err := parallel(len(some), func(i int) (err error) {
				each[i], err = s.audit(ctx, ask, some[i], whole, fix)
				if err != nil {
					err = fmt.Errorf("%s: %w", Printable(some[i]), err)
				}
				if class(err) == "WRONGTYPE" {
					errs[i], err = err, nil
				}
				return err
			})
			found = append(found, slices.Concat(each...)...)
			broken = append(broken, slices.DeleteFunc(errs, func(err error) bool { return err == nil })...)
			if err != nil {
				return err
			}
			if p.Seen += int64(len(some)); step != nil {
				step(of, p)
			}
		}
		return nil
	}
	if err := pass("queues", queues, whole); err != nil || whole && !all {
		return found, broken, err
	}
	listed := map[string]bool{}
	for _, queue := range queues {
		listed[queue] = true
	}
	strays, err := s.strays(ctx, ask, func(queue string) bool { return all && !listed[queue] || !whole && listed[queue] }, step)
	if err != nil {
		return found, broken, err
	}
	return found, broken, pass("queues with rows in no set", strays, true)
}

// audit looks through a queue's sets, or the whole of it.
func (s *Server) audit(ctx context.Context, ask asker, queue string, whole, fix bool) (found []Finding, err error) {
	for cursor := "0"; ; {
		args := []string{"EMQ.AUDIT", "emq:{" + queue + "}:", cursor, auditCount}
		if fix {
			args = append(args, "FIX")
		}
		r, err := ask(ctx, args...)
		if err != nil {
			return found, err
		}
		if len(r.List) != 2 {
			return found, errors.New("EMQ.AUDIT was answered with something else than the contract's reply")
		}
		for _, f := range r.List[1].List {
			if len(f.List) == 5 {
				found = append(found, Finding{queue, f.List[0].Str, f.List[1].Str, f.List[2].Str, f.List[3].Str, f.List[4].Int == 1})
			}
		}
		if cursor = r.List[0].Str; cursor == "0" || !whole && strings.HasPrefix(cursor, rowsPart) {
			return found, nil
		}
	}
}

// strays walks over all keys and has the queues of which a row is in no set, so that EMQ.AUDIT has something to say of it.
func (s *Server) strays(ctx context.Context, ask asker, wanted func(queue string) bool, step func(string, Progress)) ([]string, error) {
	var mu sync.Mutex
	found := map[string]bool{}
	p := Progress{Total: s.keys(ctx)}
	for cursor := "0"; ; {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		r, err := ask(ctx, "SCAN", cursor, "MATCH", "emq:{*}:job:*", "COUNT", auditCount)
		if err != nil {
			return nil, err
		}
		if len(r.List) != 2 {
			return nil, errors.New("SCAN was answered with something else")
		}
		keys := r.List[1].List
		err = parallel(len(keys), func(i int) error {
			queue, id, ok := strings.Cut(strings.TrimPrefix(keys[i].Str, "emq:{"), "}:job:")
			mu.Lock()
			known := !ok || found[queue] || !wanted(queue) || emq.NewQueue[[]byte](s.once, queue).Err() != nil // of no queue
			mu.Unlock()
			if known {
				return nil
			}
			stray, err := s.stray(ctx, ask, queue, id)
			if stray {
				mu.Lock()
				found[queue] = true
				mu.Unlock()
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if p.Seen += 1000; step != nil {
			step("keys", p)
		}
		if cursor = r.List[0].Str; cursor == "0" {
			break
		}
	}
	list := make([]string, 0, len(found))
	for queue := range found {
		list = append(list, queue)
	}
	slices.Sort(list)
	return list, nil
}

// stray reports whether a row is in no set, and is not one that is its scripts' own. It may just move: then it is looked at again.
func (s *Server) stray(ctx context.Context, ask asker, queue, id string) (bool, error) {
	base := "emq:{" + queue + "}:"
	sets := []emq.State{emq.StatePending, emq.StateActive, emq.StateScheduled, emq.StateDead}
	for range tries {
		row, err := ask(ctx, "HMGET", base+"job:"+id, "state", "group")
		other := class(err) == "WRONGTYPE"
		if err != nil && !other {
			return false, err
		}
		part := strings.Contains(id, ":") // a script's key below a row's name, perhaps
		if other && part || !other && (len(row.List) != 2 || !row.List[1].Null || row.List[0].Null && part) {
			return false, nil
		}
		named := emq.State("")
		if !other {
			named = emq.State(row.List[0].Str)
		}
		slices.SortStableFunc(sets, func(x, y emq.State) int { // that which the row names first
			switch named {
			case x:
				return -1
			case y:
				return 1
			}
			return 0
		})
		for _, set := range sets {
			r, err := ask(ctx, "ZSCORE", base+setOf[set], id)
			if class(err) == "WRONGTYPE" || err == nil && !r.Null {
				return false, nil // or nothing can be said
			}
			if err != nil {
				return false, err
			}
		}
		if r, err := ask(ctx, "EXISTS", base+"job:"+id); err != nil || r.Int == 0 {
			return false, err
		}
	}
	return true, nil
}

// keys is about how many keys there are, of all databases; 0 if that is not told.
func (s *Server) keys(ctx context.Context) (n int64) {
	r, err := s.conn.Do(ctx, "INFO", "keyspace")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(r.Str) {
		if _, rest, ok := strings.Cut(line, ":keys="); ok {
			digits, _, _ := strings.Cut(rest, ",")
			some, _ := strconv.ParseInt(digits, 10, 64)
			n += some
		}
	}
	return n
}
