// Command rewire moves a database between the wires echomq:4.0.0 (scripts) and echomq:6.0.0 (the module), by rewriting
// {emq}:version. Without -apply it looks and changes nothing.
//
// Both wires keep a job in the same keys and fields, so nothing else is rewritten. What the other wire can't go on with is
// reported, and stops the move; gates (emq:{q}:meta) are reported and do not, though the module keeps to them and scripts
// may not. Stop every speaker of the old wire first, producers and workers: those that look at the
// identity will be refused, those that don't would damage the store.
//
// It exits with 1 if something stands in the way.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

const identityKey = "{emq}:version"

// Wires are those that this program knows, by the number that is their short name.
var wires = map[string]string{"4": "echomq:4.0.0", "6": "echomq:6.0.0"}

func main() {
	addr := flag.String("addr", "127.0.0.1:6379", "the server, a primary")
	user := flag.String("user", "", "the user; the password is read from $REWIRE_PASSWORD")
	db := flag.Int("db", 0, "the database")
	to := flag.String("to", "6", "the wire to move to: 4 or 6")
	apply := flag.Bool("apply", false, "move, if nothing stands in the way")
	flag.Parse()
	if wires[*to] == "" {
		log.Fatalf("-to must be 4 or 6, got %q", *to)
	}
	client := redis.NewClient(&redis.Options{Addr: *addr, Username: *user, Password: os.Getenv("REWIRE_PASSWORD"), DB: *db})
	defer client.Close()
	ctx := context.Background()

	moved := fmt.Sprintf("database %d speaks %s", *db, wires[*to])
	err := client.Watch(ctx, func(tx *redis.Tx) error {
		from, err := tx.Get(ctx, identityKey).Result()
		switch {
		case errors.Is(err, redis.Nil):
			return fmt.Errorf("%s is absent: nothing speaks here yet, and the first job will claim the database", identityKey)
		case err != nil:
			return err
		case from == wires[*to]:
			moved += " already"
			return nil
		case !slices.Contains(slices.Collect(maps.Values(wires)), from):
			return fmt.Errorf("%s is %q, a wire that this program does not know", identityKey, from)
		}
		found, err := look(ctx, client)
		if err != nil {
			return err
		}
		if err := found.lookAtGates(ctx, client); err != nil {
			return err
		}
		fmt.Print(found)
		if found.stops() {
			return errors.New("not moved: see above")
		}
		if !*apply {
			moved = fmt.Sprintf("nothing stands in the way from %s to %s; nothing was changed, -apply moves it", from, wires[*to])
			return nil
		}
		// The transaction fails if anybody wrote the identity since it was read.
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Set(ctx, identityKey, wires[*to], 0).Err() })
		return err
	}, identityKey)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(moved)
}

// report is what is in a database.
type report struct {
	states                    map[string]int // rows by their state
	lanes, flows, bad, noHash []string
	gated, noGates            []string // queues that are paused or limited, and those whose meta is no hash
}

// look reads every row. It does not stop the server: rows are scanned some hundred at a time.
func look(ctx context.Context, client *redis.Client) (*report, error) {
	const batch = 500
	r := &report{states: map[string]int{}}
	for cursor := uint64(0); ; {
		keys, next, err := client.Scan(ctx, cursor, "emq:{*}:job:*", batch).Result()
		if err != nil {
			return nil, err
		}
		types := make([]*redis.StatusCmd, len(keys))
		rows := make([]*redis.SliceCmd, len(keys))
		// A key of another type makes its HMGET fail, and that alone.
		_, _ = client.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i, key := range keys {
				types[i] = p.Type(ctx, key)
				rows[i] = p.HMGet(ctx, key, "state", "attempts", "group", "parent")
			}
			return nil
		})
		for i, key := range keys {
			kind, err := types[i].Result()
			if err != nil {
				return nil, err
			}
			if kind == "hash" {
				if err := rows[i].Err(); err != nil {
					return nil, err
				}
				r.row(key, rows[i].Val())
			} else if kind != "none" && !isSubKey(key) {
				r.noHash = append(r.noHash, key)
			}
		}
		if cursor = next; cursor == 0 {
			return r, nil
		}
	}
}

// lookAtGates reads which queues have gates.
func (r *report) lookAtGates(ctx context.Context, client *redis.Client) error {
	keys := client.Scan(ctx, 0, "emq:{*}:meta", 500).Iterator()
	for keys.Next(ctx) {
		gates, err := client.HMGet(ctx, keys.Val(), "paused", "concurrency", "max").Result()
		switch {
		case redis.HasErrorPrefix(err, "WRONGTYPE"):
			r.noGates = append(r.noGates, keys.Val())
		case err != nil:
			return err
		case slices.ContainsFunc(gates, func(v any) bool { return v != nil }):
			r.gated = append(r.gated, keys.Val())
		}
	}
	return keys.Err()
}

// isSubKey tells the keys that scripts keep under a row's name (`…:logs`, `…:lock`).
func isSubKey(key string) bool {
	_, id, _ := strings.Cut(key, "}:job:")
	return strings.Contains(id, ":")
}

func (r *report) row(key string, fields []any) {
	state, _ := fields[0].(string)
	if isSubKey(key) && state == "" {
		return
	}
	r.states[state]++
	if fields[2] != nil {
		r.lanes = append(r.lanes, key)
	}
	if fields[3] != nil {
		r.flows = append(r.flows, key)
	}
	if fields[1] == nil {
		r.bad = append(r.bad, key)
	}
}

// stops tells that the other wire can't go on with what is there. Held jobs are no hindrance: their leases run out.
func (r *report) stops() bool { return len(r.lanes)+len(r.flows)+len(r.noHash) > 0 }

func (r *report) String() string {
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
