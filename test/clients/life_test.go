package clients

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	valkeygo "github.com/valkey-io/valkey-go"

	"emq/test/wire"
)

// Common Go client libraries, which do not know the verbs, carry a job through its life; go-redis with both protocols.

func TestGoRedis(t *testing.T) {
	s, c := serve(t, "")
	for _, protocol := range []int{2, 3} {
		ctx := context.Background()
		client := redis.NewClient(&redis.Options{Addr: s.Addr(), Protocol: protocol})
		t.Cleanup(func() { _ = client.Close() })
		do := func(args []string) (any, error) {
			list := make([]any, len(args))
			for i := range args {
				list[i] = args[i]
			}
			return client.Do(ctx, list...).Result()
		}
		want := func(wanted any, args []string) {
			t.Helper()
			got, err := do(args)
			require.NoError(t, err)
			require.Equal(t, wanted, got)
		}
		q, id := wire.Queue(fmt.Sprint("go-redis, protocol ", protocol)), first
		want(int64(1), q.Enqueue(id, "work"))
		want(int64(0), q.Enqueue(id, "work"))
		want([]any{id, "work", int64(1)}, q.Claim(30000))
		want([]any{}, q.Claim(30000))
		want("scheduled", q.Fail(id, "1", 0, 2, "why"))
		_, err := do(q.Complete(id, "1"))
		require.EqualError(t, err, "EMQSTALE complete token mismatch")
		want(int64(1), q.Promote(10))
		want([]any{id, "work", int64(2)}, q.Claim(30000))
		want(int64(1), q.Extend(id, "2", 60_000))
		want([]any{[]any{}, []any{}}, q.Reap(1, 10))
		require.Equal(t, wire.Integer(0), c.Do("ZADD", q.Active(), "XX", "1", id))
		want([]any{[]any{id}, []any{}}, q.Reap(2, 10))
		want(int64(1), q.Complete(id, "2"))
		_, err = do(q.Fail(id, "2", 0, 2, "why"))
		require.EqualError(t, err, "EMQSTALE job gone")
		want(int64(-1), q.Extend(id, "2", 60_000))
		want(int64(1), q.ScheduleIn(id, "work", 60_000))
	}
	require.Empty(t, s.Keyspace().Check(wire.Wire6))
}

func TestValkeyGo(t *testing.T) {
	s, c := serve(t, "")
	ctx := context.Background()
	client, err := valkeygo.NewClient(valkeygo.ClientOption{InitAddress: []string{s.Addr()}})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	do := func(args []string) valkeygo.ValkeyResult {
		return client.Do(ctx, client.B().Arbitrary(args[0], args[1]).Keys(args[2:4]...).Args(args[4:]...).Build())
	}
	number := func(want int64, args []string) {
		t.Helper()
		got, err := do(args).AsInt64()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	claim := func(q wire.Queue, id string, token int64) {
		t.Helper()
		job, err := do(q.Claim(30000)).ToArray()
		require.NoError(t, err)
		require.Len(t, job, 3)
		gotID, err := job[0].ToString()
		require.NoError(t, err)
		payload, err := job[1].ToString()
		require.NoError(t, err)
		gotToken, err := job[2].ToInt64()
		require.NoError(t, err)
		require.Equal(t, []any{id, "work", token}, []any{gotID, payload, gotToken})
	}
	q, id := wire.Queue("valkey-go"), first
	number(1, q.Enqueue(id, "work"))
	number(0, q.Enqueue(id, "work"))
	claim(q, id, 1)
	state, err := do(q.Fail(id, "1", 0, 2, "why")).ToString()
	require.NoError(t, err)
	require.Equal(t, "scheduled", state)
	require.EqualError(t, do(q.Complete(id, "1")).Error(), "EMQSTALE complete token mismatch")
	number(1, q.Promote(10))
	claim(q, id, 2)
	number(1, q.Extend(id, "2", 60_000))
	require.Equal(t, wire.Integer(0), c.Do("ZADD", q.Active(), "XX", "1", id))
	lost, err := do(q.Reap(2, 10)).ToArray()
	require.NoError(t, err)
	require.Len(t, lost, 2)
	returned, err := lost[0].AsStrSlice()
	require.NoError(t, err)
	require.Equal(t, []string{id}, returned)
	number(1, q.Complete(id, "2"))
	job, err := do(q.Claim(30000)).ToArray()
	require.NoError(t, err)
	require.Empty(t, job)
	number(-1, q.Extend(id, "2", 60_000))
	number(1, q.ScheduleIn(id, "work", 60_000))
	require.Empty(t, s.Keyspace().Check(wire.Wire6))
}
