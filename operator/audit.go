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

// Finding is a finding of EMQ.AUDIT.
type Finding struct {
	Queue, What, ID, Part, To string
	Done                      bool
}

const (
	// few is the largest number of queues that are audited one by one. EMQ.AUDIT scans all keys of the database for
	// each queue, so for more queues there is one scan of our own, and EMQ.AUDIT scans only for the queues that have
	// rows in no set.
	few = 10
	// rowsPart begins the cursor of EMQ.AUDIT once it is through with the sets and scans the keys. If it ever
	// begins otherwise, the audit is slower but still complete.
	rowsPart = "rows:"
	// auditCount is the COUNT of a call.
	auditCount = "1000"
)

// Audit audits queues, and with fix repairs them. With all it includes queues of which only rows are left. A queue that
// is too broken to audit does not stop it; broken has the reasons. step receives the progress, first over the queues,
// then over the keys.
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

// audit audits a queue: the whole of it, or only its sets.
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

// strays scans all keys, and returns the wanted queues that have a row in no set, for EMQ.AUDIT to report.
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
			known := !ok || found[queue] || !wanted(queue) || emq.NewQueue[[]byte](s.once, queue).Err() != nil // the key belongs to no valid queue
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

// stray reports whether a row is in no set. Rows of lanes don't count, since the scripts keep them elsewhere. A job may
// move between sets while they are read, so a row is read several times.
func (s *Server) stray(ctx context.Context, ask asker, queue, id string) (bool, error) {
	base := "emq:{" + queue + "}:"
	sets := []emq.State{emq.StatePending, emq.StateActive, emq.StateScheduled, emq.StateDead}
	for range tries {
		row, err := ask(ctx, "HMGET", base+"job:"+id, "state", "group")
		other := class(err) == "WRONGTYPE"
		if err != nil && !other {
			return false, err
		}
		part := strings.Contains(id, ":") // perhaps a key that scripts keep next to a row
		if other && part || !other && (len(row.List) != 2 || !row.List[1].Null || row.List[0].Null && part) {
			return false, nil
		}
		named := emq.State("")
		if !other {
			named = emq.State(row.List[0].Str)
		}
		slices.SortStableFunc(sets, func(x, y emq.State) int { // the set of the row's state first
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
				return false, nil // it is in a set, or the set can't be read
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

// keys returns the approximate number of keys in all databases, 0 if unknown.
func (s *Server) keys(ctx context.Context) (n int64) {
	r, err := s.conn.Do(ctx, "INFO", "keyspace")
	if err != nil {
		return 0
	}
	for _, db := range Info(r.Str) {
		if rest, ok := strings.CutPrefix(db, "keys="); ok {
			digits, _, _ := strings.Cut(rest, ",")
			some, _ := strconv.ParseInt(digits, 10, 64)
			n += some
		}
	}
	return n
}
