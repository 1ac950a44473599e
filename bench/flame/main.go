// Command flame draws what `perf script` tells of the server as a flame graph: where the time of the commands goes.
//
//	make bench ARGS='-axis base -only native'     # prints the server's process id
//	perf record -e cpu-clock -F 997 --call-graph dwarf,12288 -p <pid> -o perf.data
//	perf script -i perf.data | go -C bench run ./flame >docs/flame.svg
package main

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"log"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// root is the server's function that hands a command to a module; what is above it in a stack is left out.
const root = "ValkeyModuleCommandDispatcher"

// The picture's measures, in pixels.
const (
	width, rowHeight = 1200, 17
	minWidth         = 0.4 // narrower boxes are left out
	charWidth        = 6.6
)

type node struct {
	name     string
	samples  int
	children map[string]*node
}

func (n *node) child(name string) *node {
	if n.children == nil {
		n.children = map[string]*node{}
	}
	if n.children[name] == nil {
		n.children[name] = &node{name: name}
	}
	return n.children[name]
}

func (n *node) depth() int {
	deepest := 0
	for _, c := range n.children {
		deepest = max(deepest, c.depth())
	}
	return deepest + 1
}

func main() {
	if err := flame(os.Stdin, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func flame(from io.Reader, to io.Writer) error {
	top := &node{name: root}
	if err := read(from, top); err != nil {
		return err
	}
	if top.samples == 0 {
		return fmt.Errorf("no sample passes through %s: is this `perf script` of a server at work?", root)
	}
	height := (top.depth() + 1) * rowHeight
	out := bufio.NewWriter(to)
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="monospace" font-size="11">`+"\n", width, height)
	fmt.Fprintf(out, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	draw(out, top, top.samples, 0, height-rowHeight)
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

var (
	frame  = regexp.MustCompile(`^\s+[0-9a-f]+ (.*) \((.*)\)$`)
	offset = regexp.MustCompile(`(\.(isra|part|constprop)\.\d+)*(\+0x[0-9a-f]+)?$`)
)

// read adds the stacks of the samples to the tree.
func read(from io.Reader, top *node) error {
	var stack []string // the innermost first
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if m := frame.FindStringSubmatch(lines.Text()); m != nil {
			stack = append(stack, nameOf(m[1], m[2]))
		} else if lines.Text() == "" {
			add(top, stack)
			stack = stack[:0]
		}
	}
	add(top, stack)
	return lines.Err()
}

func nameOf(symbol, file string) string {
	switch symbol = offset.ReplaceAllString(symbol, ""); {
	case strings.Contains(file, "kernel"):
		return "[kernel]"
	case symbol == "[unknown]":
		return "[" + file[strings.LastIndexByte(file, '/')+1:] + "]"
	}
	return symbol
}

func add(top *node, stack []string) {
	at := slices.Index(stack, root)
	if at < 0 {
		// Where C's stack can't be followed beyond Go's, it is known all the same: there is one way in.
		if at = slices.IndexFunc(stack, func(s string) bool { return strings.HasPrefix(s, "runtime.cgocallback") || s == "crosscall2" }); at < 0 {
			return
		}
		stack = append(slices.Clone(stack[:at+1]), "emqDecide", "prepare", "run", root)
		at = len(stack) - 1
	}
	n := top
	n.samples++
	for i := at - 1; i >= 0; i-- {
		if stack[i] == stack[i+1] {
			continue
		}
		n = n.child(stack[i])
		n.samples++
	}
}

// draw draws a function and, above it, those that it called.
func draw(to io.Writer, n *node, all int, x float64, y int) {
	w := float64(n.samples) / float64(all) * width
	if w < minWidth {
		return
	}
	name := html.EscapeString(n.name)
	fmt.Fprintf(to, `<g><title>%s %.1f %%</title><rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s" stroke="#fff" stroke-width="0.5"/>`,
		name, 100*float64(n.samples)/float64(all), x, y, w, rowHeight, colour(n.name))
	if room := int(w/charWidth) - 1; room > 2 {
		if len(n.name) > room {
			name = html.EscapeString(n.name[:room-1]) + "…"
		}
		fmt.Fprintf(to, `<text x="%.1f" y="%d">%s</text>`, x+3, y+12, name)
	}
	fmt.Fprintln(to, "</g>")
	for _, key := range slices.Sorted(maps.Keys(n.children)) {
		draw(to, n.children[key], all, x, y-rowHeight)
		x += float64(n.children[key].samples) / float64(all) * width
	}
}

// colour tells whose a function is.
func colour(name string) string {
	switch {
	case strings.HasPrefix(name, "emq/"), strings.HasPrefix(name, "runtime."), strings.HasPrefix(name, "main."),
		name == "crosscall2", name == "emqDecide", strings.HasPrefix(name, "_cgoexp"):
		return "#7fb8e6" // Go
	case strings.HasPrefix(name, "VM_"):
		return "#f2b866" // the module API
	case strings.HasPrefix(name, "emq_"), slices.Contains(ours, name):
		return "#8fcf8f" // the module's C
	}
	return "#dddddd" // the server and its libraries
}

var ours = []string{"run", "prepare", "decide", "read_plan", "read_row", "read_entry", "read_identity", "read_count", "apply",
	"hset", "hdel", "zadd", "zrem", "zrem_from", "del", "hincrby", "propagate", "free_frame", "open_or_make", "derived_name"}
