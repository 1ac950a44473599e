package test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"emq/test/store"
	"emq/test/wire"
)

// check inspects every database at the end of a test for damage in the key space, and for rows whose token is lower than one
// that was granted. It must find exactly what the test declared as damaged.
func (st *fixture) check() {
	st.t.Helper()
	if st.t.Failed() {
		return // one report is enough
	}
	assert.ElementsMatch(st.t, st.broken, inspect(st.t, wire.Dial(st.t, st.s.Socket), st.tokens), "the keyspace after the test")
}

// inspect returns everything that is wrong in any database of a server.
func inspect(t *testing.T, c *wire.Conn, granted tokens) []string {
	t.Helper()
	found := []string{}
	for db, keyspace := range store.Read(t, c) {
		where := ""
		if db != 0 {
			where = fmt.Sprintf("db %d: ", db)
		}
		for _, line := range append(keyspace.Check(wire6), granted.check(keyspace)...) {
			found = append(found, where+line)
		}
	}
	return found
}

// tokens remembers, by row key, the last token that was granted in the row's present life.
type tokens map[string]int64

// observe returns a listener for a connection: each claim must grant a higher token than the one before, and a row's
// life ends when it is completed or removed.
func (k tokens) observe(t *testing.T) func([]string, string) {
	return func(args []string, reply string) {
		t.Helper()
		switch verb := strings.ToUpper(args[0]); {
		case verb == "EMQ.CLAIM" && strings.HasPrefix(reply, "*3\r\n"):
			job := value(reply).([]any)
			key, token := args[4]+job[0].(string), job[2].(int64)
			require.Greater(t, token, k[key], "the token of %s", escape(key))
			k[key] = token
		case verb == "EMQ.MCLAIM" && reply[0] == '*':
			for _, job := range value(reply).([]any) {
				job := job.([]any)
				key, token := args[1]+"job:"+job[0].(string), job[2].(int64)
				require.Greater(t, token, k[key], "the token of %s", escape(key))
				k[key] = token
			}
		case verb == "EMQ.COMPLETE" && reply == integer(1):
			delete(k, args[3])
		case verb == "EMQ.MCOMPLETE" && reply[0] == '*':
			for i, status := range value(reply).([]any) {
				if status == int64(1) {
					delete(k, args[1]+"job:"+args[2+2*i])
				}
			}
		case verb == "DEL" || verb == "UNLINK":
			for _, key := range args[1:] {
				delete(k, key)
			}
		case verb == "FLUSHALL" || verb == "FLUSHDB" || verb == "SELECT" || verb == "SWAPDB":
			clear(k)
		}
	}
}

// check returns the rows of a keyspace whose token has decreased.
func (k tokens) check(keyspace store.Keyspace) []string {
	var found []string
	for key, last := range k {
		row, ok := keyspace[key].(store.Hash)
		if !ok || row["state"] == "dead" {
			continue // a row may be dead because its token is broken
		}
		if token, err := strconv.ParseInt(row["attempts"], 10, 64); err == nil && token < last {
			found = append(found, fmt.Sprintf("%s: attempts %d after the token %d", wire.Show(key), token, last))
		}
	}
	return found
}

// Tests that the check can fail, in every database and for the tokens. emq/test/store tests what it finds in a key space.
func TestKeyspaceCheckFindsDamage(t *testing.T) {
	s := start(t, withModule())
	tests := []struct {
		name  string
		lines []string
		want  []string
	}{
		{"entry without a row", []string{"ZADD emq:{q}:pending 0 JOB9"}, []string{"emq:{q}:pending: JOB9 has no row"}},
		{"in another database", []string{"SELECT 3", "ZADD emq:{q}:pending 0 JOB9"}, []string{"db 3: emq:{q}:pending: JOB9 has no row"}},
		{"two things", []string{"ZREM emq:{q}:active JOB1", "SET emq:{q}:dead x"}, []string{"emq:{q}:dead: is a string", "emq:{q}:job:JOB1: state active, in []"}},
		{"token went back", []string{"HSET emq:{q}:job:JOB1 attempts 1"}, []string{"emq:{q}:job:JOB1: attempts 1 after the token 8"}},
		{"another identity", []string{"SET {emq}:version x"}, []string{"emq:{q}:: rows under another identity"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			st := s.fresh(t)
			st.put(good, "JOB1", "pending", "attempts", "7")
			require.Equal(t, "8", st.take(good, "JOB1"))
			reader := wire.Dial(t, s.Socket)
			require.Empty(t, inspect(t, reader, st.tokens))
			kept := tokens{good.Row("JOB1"): 8} // SELECT makes the recorder forget
			st.Must(tt.lines...)
			require.ElementsMatch(t, tt.want, inspect(t, reader, kept))
			st.damaged(tt.want...)
		})
	}
	t.Run("a token twice", func(t *testing.T) {
		heard := tokens{}.observe
		recorder := &testing.T{}
		listen := heard(recorder)
		done := make(chan struct{})
		go func() { // a failed requirement ends its goroutine
			defer close(done)
			listen(good.Claim(1), claimed("JOB1", "x", 2))
			listen(good.Mclaim(1, 1), array(claimed("JOB1", "x", 2)))
		}()
		<-done
		require.True(t, recorder.Failed())
	})
}
