// Package docs_test holds the pages to the code: what stands between the markers of a page is made from the command
// table, the error catalogue or an example, and every name of the contract is mentioned. `go test ./docs -update`
// writes the made parts anew.
package docs_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"emq/commands"
	"emq/fence"
)

var update = flag.Bool("update", false, "write the generated parts of the pages anew")

const (
	readme    = "../README.md"
	protocol  = "protocol.md"
	operation = "operations.md"
	changelog = "../CHANGELOG.md"
	example   = "../examples/goredis/main.go"
)

// generated finds a part that is made: its name and what stands between the markers.
var generated = regexp.MustCompile(`(?s)<!-- generated: (.+?) -->\n(.*?)<!-- end -->`)

// TestGenerated makes each generated part of each page anew and compares.
func TestGenerated(t *testing.T) {
	made := map[string]func() string{"errors": catalogue, "goredis": func() string { return excerpt(t) },
		"info": counted, "results": results}
	for v := range commands.Table {
		made[commands.Table[v].Name] = func() string { return reference(t, commands.Verb(v)) }
	}
	used := map[string]bool{}
	for _, page := range []string{readme, protocol, operation} {
		old := read(t, page)
		now := generated.ReplaceAllStringFunc(old, func(part string) string {
			name := generated.FindStringSubmatch(part)[1]
			require.Contains(t, made, name, "%s: nothing makes this part", page)
			used[name] = true
			return fmt.Sprintf("<!-- generated: %s -->\n\n%s\n<!-- end -->", name, made[name]())
		})
		if *update {
			require.NoError(t, os.WriteFile(page, []byte(now), 0o644))
			continue
		}
		assert.Equal(t, now, old, "%s is out of date: go test ./docs -update", page)
	}
	for name := range made {
		assert.True(t, used[name], "no page has the generated part %q", name)
	}
}

// TestNames asserts that the pages mention every verb, key, field, refusal and constant of the contract.
func TestNames(t *testing.T) {
	for v := range commands.Table {
		c := &commands.Table[v]
		mentions(t, protocol, syntax(c))
		mentions(t, readme, syntax(c))
	}
	for _, name := range []string{fence.Key, fence.Identity} {
		mentions(t, protocol, "`"+name+"`")
		mentions(t, readme, "`"+name+"`")
	}
	for k := range commands.NumKeys {
		mentions(t, protocol, "`emq:{q}:"+k.Suffix()+"`")
	}
	for _, name := range commands.FieldName {
		mentions(t, protocol, "`"+name+"`")
	}
	for _, text := range commands.ConstText {
		mentions(t, protocol, text)
	}
	for _, name := range commands.Table[commands.Stats].Fields {
		mentions(t, protocol, "`"+name+"`")
	}
	for _, word := range commands.WordText[commands.NoWord+1:] {
		mentions(t, protocol, "`"+word+"`")
	}
	mentions(t, changelog, "## ["+commands.Version+"]")
}

// TestTexts asserts that the protocol page shows the text of each refusal as the verbs give it, for cases that stand
// for all of its class.
func TestTexts(t *testing.T) {
	for _, c := range []struct {
		verb   commands.Verb
		change func(*commands.Request)
	}{
		{commands.Claim, func(r *commands.Request) { r.Args[1] = "02" }},
		{commands.Claim, func(r *commands.Request) { r.Args[3] = "emq:{other}:active" }},
		{commands.Claim, func(r *commands.Request) { r.Args[5] = "0" }},
		{commands.Claim, func(r *commands.Request) { r.Replica = true }},
		{commands.Claim, func(r *commands.Request) { r.Identity = "echomq:4.0.0" }},
		{commands.Claim, func(r *commands.Request) { r.IdentityType = commands.List }},
		{commands.Claim, func(r *commands.Request) {
			r.IdentityType, r.Types[commands.KeyPending] = commands.None, commands.SortedSet
		}},
		{commands.Claim, func(r *commands.Request) { r.Types[commands.KeyPending] = commands.List }},
		{commands.Complete, func(r *commands.Request) { r.IdentityType = commands.None }},
		{commands.Complete, func(r *commands.Request) { r.Args[2], r.Args[3], r.Args[4] = "", "", "" }},
		{commands.Complete, func(r *commands.Request) { r.Args[2] = "emq:{}:active" }},
		{commands.Complete, func(*commands.Request) {}},
		{commands.Complete, func(r *commands.Request) { r.Present |= 1 << commands.FieldGroup }},
		{commands.Complete, func(r *commands.Request) { r.Present |= 1 << commands.FieldParent }},
		{commands.Fail, func(*commands.Request) {}},
		{commands.Fail, func(r *commands.Request) { r.Types[commands.KeyRow] = commands.None }},
		{commands.Schedule, func(r *commands.Request) { r.Args[6] = "IN" }},
		{commands.Extend, func(*commands.Request) {}},
		{commands.Audit, func(r *commands.Request) { r.Args[2] = "1" }},
		{commands.Audit, func(r *commands.Request) { r.Args[4] = "fix" }},
		{commands.Promote, func(r *commands.Request) {
			r.IdentityType, r.Types[commands.KeySchedule] = commands.None, commands.SortedSet
		}},
		{commands.Reap, func(r *commands.Request) {
			r.IdentityType, r.Types[commands.KeyActive] = commands.None, commands.SortedSet
		}},
	} {
		r := request(t, c.verb)
		c.change(r)
		text := decide(c.verb, r)
		require.NotEmpty(t, text, "%s was not refused", commands.Table[c.verb].Name)
		mentions(t, protocol, text)
	}
	for _, text := range commands.HostTexts {
		mentions(t, protocol, text)
	}
}

func mentions(t *testing.T, page, text string) {
	t.Helper()
	if !strings.Contains(read(t, page), text) {
		t.Errorf("%s does not mention: %s", page, text)
	}
}

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	return string(text)
}

// syntax is a verb's wire form.
func syntax(c *commands.Command) string {
	words := []string{c.Name}
	for _, a := range c.Args {
		switch a.Role {
		case commands.RoleNumkeys:
			words = append(words, c.Numkeys())
		case commands.RoleOption:
			words = append(words, "["+a.Words[0]+"]")
		default:
			words = append(words, a.Name)
		}
	}
	return strings.Join(words, " ")
}

// reference is what the table knows of a verb, for the protocol page.
func reference(t *testing.T, v commands.Verb) string {
	c := &commands.Table[v]
	var b strings.Builder
	fmt.Fprintf(&b, "```\n%s\n```\n\n%s\n\n| argument | what it must be |\n| --- | --- |\n", syntax(c), c.Summary)
	for i, a := range c.Args {
		name, must := "`"+a.Name+"`", ""
		switch a.Role {
		case commands.RoleNumkeys:
			must = "`" + c.Numkeys() + "`, byte for byte"
		case commands.RoleKey:
			must = "key `emq:{q}:" + a.Key.Suffix() + "`"
			if a.Key == commands.KeyRow {
				must += " + id"
			}
		case commands.RoleID:
			must = "the job's id, `JOB…`"
		case commands.RoleBase:
			must = "`emq:{q}:`"
			if a.Access != 0 {
				must += ", which the ACL takes for a key"
			}
		case commands.RoleRowPrefix:
			must = "`emq:{q}:" + commands.KeyRow.Suffix() + "`"
		case commands.RoleWord:
			must = "`" + a.Words[0] + "` or `" + a.Words[1] + "`"
		case commands.RoleOption:
			must = "`" + a.Words[0] + "`, or left out"
		case commands.RoleCursor:
			must = "`0`, or what the last call gave"
		case commands.RoleNumber:
			must = "integer, " + bounds(t, v, i+1)
		case commands.RoleToken:
			must = "the token, as CLAIM gave it"
		case commands.RoleBytes:
			must = "any bytes"
		}
		fmt.Fprintf(&b, "| %s | %s |\n", name, must)
	}
	flags := strings.ReplaceAll(strings.TrimSuffix(c.Flags, " getkeys-api"), " ", ", ")
	categories := "@" + strings.ReplaceAll(c.Categories, " ", ", @")
	fmt.Fprintf(&b, "\nFlags: %s. ACL categories: %s.\nComplexity: %s\n", flags, categories, c.Complexity)
	return b.String()
}

// bounds are the ends of a number's range, as the refusal of a word that is no number names them.
func bounds(t *testing.T, v commands.Verb, arg int) string {
	r := request(t, v)
	r.Args[arg] = "x"
	var from, to string
	_, rest, _ := strings.Cut(decide(v, r), "integer ")
	_, err := fmt.Sscanf(rest, "from %s to %s got", &from, &to)
	require.NoError(t, err, rest)
	return from + " … " + strings.TrimSuffix(to, ",")
}

// request is a call of a verb that holds up to the token, which is not the holder's.
func request(t *testing.T, v commands.Verb) *commands.Request {
	t.Helper()
	c := &commands.Table[v]
	r := &commands.Request{Identity: fence.Identity, IdentityType: commands.String}
	r.Args[0], r.Argc, r.Figures = c.Name, int32(len(c.Args))+1, &commands.Figures{}
	for i, a := range c.Args {
		r.Args[i+1] = map[commands.Role]string{
			commands.RoleNumkeys:   c.Numkeys(),
			commands.RoleKey:       "emq:{q}:" + a.Key.Suffix(),
			commands.RoleID:        "JOB1",
			commands.RoleBase:      "emq:{q}:",
			commands.RoleRowPrefix: "emq:{q}:job:",
			commands.RoleWord:      a.Words[0],
			commands.RoleOption:    a.Words[0],
			commands.RoleCursor:    "0",
			commands.RoleNumber:    "1",
			commands.RoleToken:     "x",
			commands.RoleBytes:     "x",
		}[a.Role]
		if a.Role == commands.RoleKey && a.Key == commands.KeyRow {
			r.Args[i+1] += "JOB1"
		}
	}
	for _, k := range c.Plan.Keys {
		r.Types[k] = commands.None
	}
	r.Types[commands.KeyRow] = commands.Hash
	return r
}

// decide has a request decided and returns the refusal's text.
func decide(v commands.Verb, r *commands.Request) string {
	var o commands.Outcome
	commands.Decide(v, r, &o)
	return string(o.Text[:o.TextLen])
}

// catalogue is the error catalogue as a table.
func catalogue() string {
	var b strings.Builder
	b.WriteString("| class | when | what to do |\n| --- | --- | --- |\n")
	for _, e := range commands.Catalogue[commands.NotRefused+1:] {
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.Class, e.When, e.Then)
	}
	return b.String()
}

// counted is what INFO counts of each verb, as a table.
func counted() string {
	var b strings.Builder
	b.WriteString("| fields | |\n| --- | --- |\n")
	for v := range commands.Table {
		c := &commands.Table[v]
		names := []string{"calls"}
		for _, r := range slices.Sorted(slices.Values(c.Results)) {
			names = append(names, commands.Results[r].Name)
		}
		for _, name := range c.Fates {
			if name != "" {
				names = append(names, name)
			}
		}
		fmt.Fprintf(&b, "| `emq_%s…` | `%s` |\n", c.InfoName(""), strings.Join(names, "`, `"))
	}
	return b.String()
}

// results is what the results mean, as a table.
func results() string {
	var b strings.Builder
	b.WriteString("| result | when |\n| --- | --- |\n")
	for _, r := range commands.Results[commands.NoResult+1:] {
		fmt.Fprintf(&b, "| `%s` | %s |\n", r.Name, r.When)
	}
	return b.String()
}

// excerpt is the part of the go-redis example that talks to the server.
func excerpt(t *testing.T) string {
	_, rest, ok := strings.Cut(read(t, example), "\tctx := context.Background()\n")
	require.True(t, ok)
	body, _, ok := strings.Cut(rest, "\n}\n")
	require.True(t, ok)
	lines := strings.Split(body, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "\t")
	}
	return "```go\n" + strings.Join(lines, "\n") + "\n```\n"
}
