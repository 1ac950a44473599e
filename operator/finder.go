package operator

import (
	"math/bits"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// finder applies a table of rules as one regular expression of them all, `(rule)|(rule)|…`, would, but much faster: at
// most bytes of a text no rule can begin, and many rules can't match anywhere in it, because a byte that they need is
// missing. Both are derived from the rules' own expressions.
type finder struct {
	rules []matcher
	// starts has, as bits, the rules that can begin with a byte, by what precedes it: nothing, a letter or digit,
	// another byte.
	starts [3][256]uint64
}

// matcher is a rule to try at a place. ^ and \b depend on what precedes it, so one expression is for the beginning of a
// text, and the others include the character before.
type matcher struct {
	rule
	first, next, later *regexp.Regexp
	needs              uint64 // kinds of bytes without which it can't match
}

// tried is how often in a text a rule may fail before it is searched for: each failure may have read the text to its end.
const tried = 8

func newFinder(table []rule) *finder {
	f := &finder{}
	for i, r := range table {
		tree, err := syntax.Parse(r.pattern, syntax.Perl)
		if err != nil || i == 64 {
			panic("a rule too many, or none: " + r.pattern)
		}
		f.rules = append(f.rules, matcher{r, regexp.MustCompile(`\A(?:` + r.pattern + `)`), regexp.MustCompile(`\A(?s:.)(?:` + r.pattern + `)`),
			regexp.MustCompile(`(?s:.)(?:` + r.pattern + `)`), required(tree)})
		prog, _ := syntax.Compile(tree.Simplify()) // it compiled above
		for before, r := range []rune{-1, 'a', ' '} {
			for c := range rune(256) {
				if can(prog, r, c) {
					f.starts[before][c] |= 1 << i
				}
			}
		}
	}
	return f
}

// put replaces what the rules find.
func (f *finder) put(text string) string {
	var has, able uint64
	for i := range len(text) {
		has |= kinds[text[i]]
	}
	for i := range f.rules {
		if f.rules[i].needs&^has == 0 {
			able |= 1 << i
		}
	}
	var failed [64]uint8
	var from [64]int // the earliest place where a rule can match next
	var b strings.Builder
	end, before := 0, 0
	for at := 0; at < len(text); {
		c, n := text[at], 0
		for may := f.starts[before][c] & able; may != 0 && n == 0; may &= may - 1 {
			i := bits.TrailingZeros64(may)
			if at < from[i] {
				continue
			}
			r := &f.rules[i]
			if n = r.at(text, at); n > 0 {
				b.WriteString(text[end:at])
				b.WriteString(r.put(text[at : at+n]))
				end = at + n
			} else if failed[i]++; failed[i] >= tried {
				if from[i] = r.search(text, at); from[i] < 0 {
					able &^= 1 << i
				}
				failed[i] = tried - 1
			}
		}
		at += max(n, 1)
		before = 2
		if word(text[at-1]) {
			before = 1
		}
	}
	b.WriteString(text[end:])
	return b.String()
}

// at is the length of the rule's match at a place; 0 if there is none.
func (m *matcher) at(text string, at int) int {
	re, width := m.first, 0
	if at > 0 {
		_, width = utf8.DecodeLastRuneInString(text[:at])
		re = m.next
	}
	found := re.FindStringIndex(text[at-width:])
	if found == nil {
		return 0
	}
	return found[1] - width
}

// search is where the rule's next match after a place begins; negative if there is none.
func (m *matcher) search(text string, at int) int {
	found := m.later.FindStringIndex(text[at:])
	if found == nil {
		return -1
	}
	_, width := utf8.DecodeRuneInString(text[at+found[0]:])
	return at + found[0] + width
}

func word(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
}

// kinds maps visible ASCII bytes to bits: small and capital letters have the same, and so have all digits.
var kinds = func() (kinds [256]uint64) {
	other := 27
	for c := byte(' '); c <= '~'; c++ {
		switch {
		case '0' <= c && c <= '9':
			kinds[c] = 1 << 26
		case word(c) && c != '_':
			kinds[c] = 1 << (c | ' ' - 'a')
		default:
			kinds[c] = 1 << other
			other++
		}
	}
	return kinds
}()

// required are the kinds of bytes that every match of an expression contains.
func required(tree *syntax.Regexp) (all uint64) {
	switch tree.Op {
	case syntax.OpLiteral:
		for _, r := range tree.Rune {
			// If case is ignored, k and s also match letters outside of ASCII.
			if r < utf8.RuneSelf && (tree.Flags&syntax.FoldCase == 0 || !strings.ContainsRune("KkSs", r)) {
				all |= kinds[r]
			}
		}
	case syntax.OpCharClass:
		if last := tree.Rune[len(tree.Rune)-1]; last >= utf8.RuneSelf {
			return 0
		}
		for i := 0; i < len(tree.Rune); i += 2 {
			for r := tree.Rune[i]; r <= tree.Rune[i+1]; r++ {
				if all |= kinds[r]; kinds[r] == 0 {
					return 0
				}
			}
		}
		if bits.OnesCount64(all) > 1 {
			return 0
		}
	case syntax.OpConcat:
		for _, sub := range tree.Sub {
			all |= required(sub)
		}
	case syntax.OpAlternate:
		all = ^uint64(0)
		for _, sub := range tree.Sub {
			all &= required(sub)
		}
	case syntax.OpCapture, syntax.OpPlus:
		all = required(tree.Sub[0])
	case syntax.OpRepeat:
		if tree.Min > 0 {
			all = required(tree.Sub[0])
		}
	}
	return all
}

// can reports whether a match of a program can begin with a byte, after a character or, with -1, at the beginning of a text.
func can(prog *syntax.Prog, before, c rune) bool {
	is := syntax.EmptyOpContext(before, c)
	seen := make([]bool, len(prog.Inst))
	var at func(pc uint32) bool
	at = func(pc uint32) bool {
		if seen[pc] {
			return false
		}
		seen[pc] = true
		switch i := &prog.Inst[pc]; i.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			return at(i.Out) || at(i.Arg)
		case syntax.InstCapture, syntax.InstNop:
			return at(i.Out)
		case syntax.InstEmptyWidth:
			return syntax.EmptyOp(i.Arg)&^is == 0 && at(i.Out)
		case syntax.InstMatch, syntax.InstFail:
			return false // an empty match changes nothing
		default:
			if c < utf8.RuneSelf {
				return i.MatchRune(c)
			}
			// The first byte of any other character.
			return c >= 0xC0 && (i.Op != syntax.InstRune1 && i.Op != syntax.InstRune || i.MatchRune('ſ') || i.MatchRune('K') ||
				i.Rune[len(i.Rune)-1] >= utf8.RuneSelf)
		}
	}
	return at(uint32(prog.Start))
}
