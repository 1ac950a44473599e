package test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const goldenFile = "testdata/wire.golden"

// goldenCase is one case of the golden file; the file's head says how it is read.
type goldenCase struct {
	name  string
	lines []goldenLine
}

type goldenLine struct {
	at        int // the line's index in the file
	verb, arg string
}

// TestGolden replays the golden file: each request must get exactly the recorded bytes, under both versions of the protocol.
func TestGolden(t *testing.T) {
	file, cases := readGolden(t)
	s := start(t, withModule())
	for _, proto := range []string{"resp2", "resp3"} {
		for _, c := range cases {
			t.Run(proto+"/"+c.name, func(t *testing.T) { c.replay(t, s, proto, file) })
		}
	}
	if *update {
		require.NoError(t, os.WriteFile(goldenFile, []byte(strings.Join(file, "\n")), 0o644))
	}
}

func (c goldenCase) replay(t *testing.T, s *server, proto string, file []string) {
	st := s.fresh(t)
	client := s.dial(t)
	if proto == "resp3" {
		client = s.dial3(t)
	}
	var reply string
	for _, line := range c.lines {
		switch line.verb {
		case "given":
			st.Must(line.arg)
		case "after":
			t.Cleanup(func() { st.Must(line.arg) })
		case "broken":
			st.damaged(line.arg)
		case "as":
			require.Equal(t, "+OK\r\n", client.Do("AUTH", line.arg, "secret"))
		case "send":
			reply = client.Do(words(line.arg)...)
			st.Heard(words(line.arg), reply)
		case proto:
			if *update {
				file[line.at] = fmt.Sprintf("%-6s %s", proto, escape(reply))
			} else {
				require.Equal(t, unescape(t, line.arg), reply, "%s:%d", goldenFile, line.at+1)
			}
		}
	}
}

// readGolden returns the file's lines and its cases, and checks that each request has a reply for both versions.
func readGolden(t *testing.T) ([]string, []goldenCase) {
	t.Helper()
	text, err := os.ReadFile(goldenFile)
	require.NoError(t, err)
	file := strings.Split(string(text), "\n")
	var cases []goldenCase
	names := map[string]bool{}
	want := "" // the kind of line that must follow
	for i, line := range file {
		verb, arg, _ := strings.Cut(line, " ")
		arg = strings.TrimLeft(arg, " ")
		switch verb {
		case "", "#":
			require.Empty(t, want, "%s:%d: a reply is missing", goldenFile, i+1)
			continue
		case "==":
			require.Empty(t, want, "%s:%d: a reply is missing", goldenFile, i+1)
			require.False(t, names[arg], "%s:%d: the name is taken", goldenFile, i+1)
			names[arg] = true
			cases = append(cases, goldenCase{name: arg})
			continue
		case "send":
			require.Empty(t, want, "%s:%d: a reply is missing", goldenFile, i+1)
			want = "resp2"
		case "resp2", "resp3":
			require.Equal(t, want, verb, "%s:%d", goldenFile, i+1)
			want = map[string]string{"resp2": "resp3"}[verb]
		case "given", "after", "as", "broken":
			require.Empty(t, want, "%s:%d: a reply is missing", goldenFile, i+1)
		default:
			require.Fail(t, "unknown line", "%s:%d: %s", goldenFile, i+1, line)
		}
		last := &cases[len(cases)-1]
		last.lines = append(last.lines, goldenLine{i, verb, arg})
	}
	require.Empty(t, want, "%s: a reply is missing at the end", goldenFile)
	return file, cases
}

func unescape(t *testing.T, s string) string {
	t.Helper()
	text, err := strconv.Unquote(`"` + s + `"`)
	require.NoError(t, err, "bad escape in %s", s)
	return text
}
