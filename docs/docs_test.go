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
	goPackage = "clients-go.md"
	example   = "../examples/goredis/main.go"
	hello     = "../clients/go/examples/hello/main.go"
)

// generated finds a part that is made: its name and what stands between the markers.
var generated = regexp.MustCompile(`(?s)<!-- generated: (.+?) -->\n(.*?)<!-- end -->`)

// TestGenerated makes each generated part of each page anew and compares.
func TestGenerated(t *testing.T) {
	made := map[string]func() string{"errors": catalogue, "goredis": func() string { return excerpt(t) },
		"hello": func() string { return "```go\n" + read(t, hello) + "```\n" },
		"info":  counted, "results": results}
	for v := range commands.Table {
		made[commands.Table[v].Name] = func() string { return reference(t, commands.Verb(v)) }
	}
	used := map[string]bool{}
	for _, page := range []string{readme, protocol, operation, goPackage} {
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
		mentions(t, readme, c.Name)
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
		change func(*commands.Call)
	}{
		{commands.Claim, func(c *commands.Call) { c.Args[1] = "02" }},
		{commands.Claim, func(c *commands.Call) { c.Args[3] = "emq:{other}:active" }},
		{commands.Claim, func(c *commands.Call) { c.Args[5] = "0" }},
		{commands.Claim, func(c *commands.Call) { c.Replica = true }},
		{commands.Claim, func(c *commands.Call) { c.Identity = "echomq:4.0.0" }},
		{commands.Claim, func(c *commands.Call) { c.IdentityType = commands.List }},
		{commands.Claim, func(c *commands.Call) {
			c.IdentityType, c.Types[commands.KeyPending] = commands.None, commands.SortedSet
		}},
		{commands.Claim, func(c *commands.Call) { c.Types[commands.KeyPending] = commands.List }},
		{commands.Complete, func(c *commands.Call) { c.IdentityType = commands.None }},
		{commands.Complete, func(c *commands.Call) { c.Args[2], c.Args[3], c.Args[4] = "", "", "" }},
		{commands.Complete, func(c *commands.Call) { c.Args[2] = "emq:{}:active" }},
		{commands.Complete, func(*commands.Call) {}},
		{commands.Complete, func(c *commands.Call) { c.Jobs[0].Present |= 1 << commands.FieldGroup }},
		{commands.Complete, func(c *commands.Call) { c.Jobs[0].Present |= 1 << commands.FieldParent }},
		{commands.Fail, func(*commands.Call) {}},
		{commands.Fail, func(c *commands.Call) { c.Jobs[0].Type = commands.None }},
		{commands.Schedule, func(c *commands.Call) { c.Args[6] = "IN" }},
		{commands.Extend, func(*commands.Call) {}},
		{commands.Audit, func(c *commands.Call) { c.Args[2] = "1" }},
		{commands.Audit, func(c *commands.Call) { c.Args[4] = "fix" }},
		{commands.Promote, func(c *commands.Call) {
			c.IdentityType, c.Types[commands.KeySchedule] = commands.None, commands.SortedSet
		}},
		{commands.Reap, func(c *commands.Call) {
			c.IdentityType, c.Types[commands.KeyActive] = commands.None, commands.SortedSet
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
	if c.List == nil {
		return strings.Join(words, " ")
	}
	job := []string{}
	for _, a := range c.List {
		job = append(job, a.Name)
	}
	one := strings.Join(job, " ")
	return strings.Join(append(words, one), " ") + " [" + one + " …]"
}

// reference is what the table knows of a verb, for the protocol page.
func reference(t *testing.T, v commands.Verb) string {
	c := &commands.Table[v]
	var b strings.Builder
	fmt.Fprintf(&b, "```\n%s\n```\n\n%s\n\n| argument | what it must be |\n| --- | --- |\n", syntax(c), c.Summary)
	for i, a := range append(slices.Clone(c.Args), c.List...) {
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
			must = "`" + strings.Join(a.Words, "` or `") + "`"
		case commands.RoleOption:
			must = "`" + a.Words[0] + "`, or left out"
		case commands.RoleCursor:
			must = "`0`, or what the last call gave"
		case commands.RoleToken:
			must = "the token, as CLAIM gave it"
		case commands.RolePayload, commands.RoleError, commands.RoleAfter:
			must = "any bytes"
		default:
			must = "integer, " + bounds(t, v, i+1)
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

func first(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

// request is a call of a verb that holds up to the token, which is not the holder's.
func request(t *testing.T, v commands.Verb) *commands.Call {
	t.Helper()
	verb := &commands.Table[v]
	c := &commands.Call{Args: []string{verb.Name}, Identity: fence.Identity, IdentityType: commands.String, Figures: &commands.Figures{}}
	for _, a := range append(slices.Clone(verb.Args), verb.List...) {
		arg := map[commands.Role]string{
			commands.RoleNumkeys:   verb.Numkeys(),
			commands.RoleKey:       "emq:{q}:" + a.Key.Suffix(),
			commands.RoleID:        "JOB1",
			commands.RoleBase:      "emq:{q}:",
			commands.RoleRowPrefix: "emq:{q}:job:",
			commands.RoleWord:      first(a.Words),
			commands.RoleOption:    first(a.Words),
			commands.RoleCursor:    "0",
			commands.RoleToken:     "x",
		}[a.Role]
		if a.Role == commands.RoleKey && a.Key == commands.KeyRow {
			arg += "JOB1"
		}
		if a.Role.IsNumber() {
			arg = "1"
		}
		c.Args = append(c.Args, arg)
	}
	for _, k := range verb.Plan.Keys {
		c.Types[k] = commands.None
	}
	if verb.Plan.Jobs == commands.NamedJob {
		c.Jobs = []commands.Job{{ID: "JOB1", Type: commands.Hash}}
	}
	c.Ended = true
	return c
}

// decide has a request decided and returns the refusal's text.
func decide(v commands.Verb, c *commands.Call) string {
	o := commands.Outcome{Effects: make([]commands.Effect, 0, commands.MaxEffects), Marks: make([]commands.Mark, 1)}
	commands.Decide(v, c, &o)
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
		for _, name := range c.Dispositions {
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
