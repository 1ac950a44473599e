package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	emq "emq/clients/go"
)

const identityKey = "{emq}:version"

// wires are the known wires, by their short names.
var wires = map[string]string{"4": "echomq:4.0.0", "6": "echomq:6.0.0"}

// rename writes the identity unless somebody else has written it meanwhile.
const rename = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1`

func newRewire(a *app) *cobra.Command {
	var to string
	var apply bool
	cmd := &cobra.Command{
		Use:   "rewire",
		Short: "move a database between the wires of scripts and module",
		Long: `Moves a database between the wires echomq:4.0.0 (scripts) and echomq:6.0.0 (the module), by rewriting {emq}:version. Without
--apply it looks and changes nothing.

Both wires keep a job in the same keys and fields, so nothing else is rewritten. What the other wire can't go on with is
reported, and stops the move; gates (emq:{q}:meta) are reported and do not, though the module keeps to them and scripts
may not. Stop every speaker of the old wire first, producers and workers: those that look at the identity will be
refused, those that don't would damage the store.`,
		Example: `  emq rewire --to 6
  emq rewire --to 6 --apply`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wires[to] == "" {
				return usage("--to must be 4 or 6, got %q", to)
			}
			c, err := a.conn(cmd.Context())
			if err != nil {
				return err
			}
			return a.rewire(cmd.Context(), c, wires[to], apply)
		},
	}
	cmd.Flags().StringVar(&to, "to", "6", "the wire to move to: 4 or 6")
	cmd.Flags().BoolVar(&apply, "apply", false, "move, if nothing stands in the way")
	return cmd
}

func (a *app) rewire(ctx context.Context, c emq.Conn, to string, apply bool) error {
	from, err := c.Do(ctx, "GET", identityKey)
	switch {
	case err != nil:
		return err
	case from.Null:
		return refused("%s is absent: nothing speaks here yet, and the first job will claim the database", identityKey)
	case from.Str == to:
		fmt.Fprintf(a.out, "the database speaks %s already\n", to)
		return nil
	case !slices.Contains(slices.Collect(maps.Values(wires)), from.Str):
		return refused("%s is %q, a wire that this program does not know", identityKey, from.Str)
	}
	found, err := look(ctx, c)
	if err != nil {
		return err
	}
	if err := found.lookAtGates(ctx, c); err != nil {
		return err
	}
	fmt.Fprint(a.out, found)
	if found.stops() {
		return refused("not moved: see above")
	}
	if !apply {
		fmt.Fprintf(a.out, "nothing stands in the way from %s to %s; nothing was changed, --apply moves it\n", from.Str, to)
		return nil
	}
	moved, err := c.Do(ctx, "EVAL", rename, "1", identityKey, from.Str, to)
	if err != nil {
		return err
	}
	if moved.Int != 1 {
		return refused("somebody else wrote %s meanwhile: nothing was changed", identityKey)
	}
	fmt.Fprintf(a.out, "the database speaks %s\n", to)
	return nil
}

// wireReport describes the contents of a database.
type wireReport struct {
	states                    map[string]int // number of rows by state
	lanes, flows, bad, noHash []string
	gated, noGates            []string // queues that are paused or limited, and those whose meta is no hash
}

// scan finds the keys that match a pattern, some hundred at a time, without blocking the server.
func scan(ctx context.Context, c emq.Conn, pattern string, some func(keys []emq.Reply) error) error {
	for cursor := "0"; ; {
		r, err := c.Do(ctx, "SCAN", cursor, "MATCH", pattern, "COUNT", "500")
		if err != nil {
			return err
		}
		if len(r.List) != 2 {
			return errors.New("SCAN was answered with something else")
		}
		if err := some(r.List[1].List); err != nil {
			return err
		}
		if cursor = r.List[0].Str; cursor == "0" {
			return nil
		}
	}
}

// look reads every row.
func look(ctx context.Context, c emq.Conn) (*wireReport, error) {
	r := &wireReport{states: map[string]int{}}
	return r, scan(ctx, c, "emq:{*}:job:*", func(keys []emq.Reply) error {
		rows := make([]emq.Reply, len(keys))
		errs := make([]error, len(keys))
		var all sync.WaitGroup // concurrent calls share the connection's pipeline
		for i, key := range keys {
			all.Go(func() { rows[i], errs[i] = c.Do(ctx, "HMGET", key.Str, "state", "attempts", "group", "parent") })
		}
		all.Wait()
		for i, key := range keys {
			switch {
			case isClass(errs[i], "WRONGTYPE"):
				if !isSubKey(key.Str) {
					r.noHash = append(r.noHash, key.Str)
				}
			case errs[i] != nil:
				return errs[i]
			case slices.ContainsFunc(rows[i].List, func(field emq.Reply) bool { return !field.Null }):
				r.row(key.Str, rows[i].List)
			default:
				// Without the fields of a row: either it is gone meanwhile, or it is a hash of another kind.
				if n, err := c.Do(ctx, "EXISTS", key.Str); err != nil {
					return err
				} else if n.Int == 1 {
					r.row(key.Str, rows[i].List)
				}
			}
		}
		return nil
	})
}

func isClass(err error, class string) bool {
	refusal := new(emq.Error)
	return errors.As(err, &refusal) && refusal.Class() == class
}

// lookAtGates reads which queues have gates.
func (r *wireReport) lookAtGates(ctx context.Context, c emq.Conn) error {
	return scan(ctx, c, "emq:{*}:meta", func(keys []emq.Reply) error {
		for _, key := range keys {
			gates, err := c.Do(ctx, "HMGET", key.Str, "paused", "concurrency", "max")
			switch {
			case isClass(err, "WRONGTYPE"):
				r.noGates = append(r.noGates, key.Str)
			case err != nil:
				return err
			case slices.ContainsFunc(gates.List, func(gate emq.Reply) bool { return !gate.Null }):
				r.gated = append(r.gated, key.Str)
			}
		}
		return nil
	})
}

// isSubKey reports whether a key is one that scripts keep under a row's name (`…:logs`, `…:lock`).
func isSubKey(key string) bool {
	_, id, _ := strings.Cut(key, "}:job:")
	return strings.Contains(id, ":")
}

func (r *wireReport) row(key string, fields []emq.Reply) {
	state := fields[0].Str
	if isSubKey(key) && state == "" {
		return
	}
	r.states[state]++
	if !fields[2].Null {
		r.lanes = append(r.lanes, key)
	}
	if !fields[3].Null {
		r.flows = append(r.flows, key)
	}
	if fields[1].Null {
		r.bad = append(r.bad, key)
	}
}

// stops reports whether the other wire can't continue with what is there. Held jobs are no obstacle: their leases expire.
func (r *wireReport) stops() bool { return len(r.lanes)+len(r.flows)+len(r.noHash) > 0 }

func (r *wireReport) String() string {
	var b strings.Builder
	for _, state := range slices.Sorted(maps.Keys(r.states)) {
		fmt.Fprintf(&b, "%8d rows %s\n", r.states[state], state)
	}
	line := func(keys []string, what string) {
		if len(keys) > 0 {
			fmt.Fprintf(&b, "%8d %s, such as %q\n", len(keys), what, keys[0])
		}
	}
	line(r.lanes, "rows of lanes, which only scripts can settle: drain them first")
	line(r.flows, "rows of flows, which only scripts can settle: drain them first")
	line(r.noHash, "rows that are no hash: find who wrote them")
	line(r.gated, "queues that are paused or limited, which the module keeps to, and scripts may not")
	line(r.noGates, "queues whose meta is no hash: EMQ.PAUSE and EMQ.LIMIT will be refused there")
	line(r.bad, "rows without attempts, which go to the dead letters when they are claimed")
	if n := r.states["active"]; n > 0 {
		fmt.Fprintf(&b, "%8d jobs are held: who holds them can't settle them any more, and they come back when their leases end\n", n)
	}
	return b.String()
}
