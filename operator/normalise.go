package operator

import (
	"cmp"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

const (
	// none stands for a missing error.
	none = "{none}"
	// read is how many bytes of an error are looked at, and kept the largest length of the result, in runes.
	read, kept = 4096, 200
)

// Normalise removes from an error what differs from job to job: numbers, ids, addresses, times, quoted texts. Errors
// that are equal then have the same cause, as far as a text can show. Codes stay: those of HTTP and SMTP, of SQL, of
// exits, and other numbers after words such as status, code and errno. So do quoted texts that are errors themselves.
// The frames of a trace are left out. A missing error is "{none}".
func Normalise(text string) string {
	if len(text) > read {
		text = text[:read]
	}
	text = lines(strings.ToValidUTF8(text, "\uFFFD"))
	if !marks.MatchString(text) && len(text) <= kept {
		return cmp.Or(text, none)
	}
	for range 20 { // until nothing is left to remove: a removal may uncover more
		next := cut(strings.Join(strings.Fields(alike(text)), " "))
		if next == text {
			break
		}
		text = next
	}
	return cmp.Or(text, none)
}

// normaliser caches results, because the same error often occurs thousands of times.
type normaliser struct {
	mu   sync.Mutex
	seen map[string]string
}

func (n *normaliser) normalise(text string) string {
	n.mu.Lock()
	known, ok := n.seen[text]
	n.mu.Unlock()
	if ok {
		return known
	}
	found := Normalise(text)
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.seen) >= groupsKept || n.seen == nil {
		n.seen = map[string]string{}
	}
	n.seen[text] = found
	return found
}

// marks match in every text that has something to remove.
var marks = regexp.MustCompile("[0-9\"'`@:.]|ENOTFOUND|EAI_AGAIN|lookup")

// lines joins the lines of a text, without the indented ones, which are the frames of a trace or a place in a source.
func lines(text string) string {
	var keep []string
	for line := range strings.Lines(text) {
		frame := len(keep) > 0 && (line[0] == ' ' || line[0] == '\t')
		if words := strings.Join(strings.FieldsFunc(line, blank), " "); words != "" && !frame {
			keep = append(keep, words)
		}
	}
	if len(keep) > 1 && keep[0] == "Traceback (most recent call last):" {
		keep = keep[1:]
	}
	return strings.Join(keep, " ")
}

func blank(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }

// cut removes the middle of a text that is too long: the end often has the cause.
func cut(text string) string {
	if utf8.RuneCountInString(text) <= kept {
		return text
	}
	runes, end := []rune(text), kept/3
	return strings.TrimSpace(string(runes[:kept-end-3])) + " … " + strings.TrimSpace(string(runes[len(runes)-end:]))
}

// rule is an expression, and what replaces its matches. Of rules that match at the same byte the first counts.
type rule struct {
	pattern string
	put     func(found string) string
}

const (
	number = `\d+(?:[.,_]\d+)*(?:[eE][-+]?\d+)?`
	clock  = `\d\d?:\d\d(?::\d\d(?:[.,]\d+)?)?`
	zone   = `(?:\s?(?:Z|UTC|GMT|CES?T|[+-]\d\d:?\d\d)\b){0,2}`
	day    = `(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,?\s)?`
	month  = `(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*`
	reason = `(?:Continue|OK|Created|Accepted|No Content|Moved|Found|Not Modified|Temporary Redirect|Permanent Redirect|Bad Request|Unauthorized|` +
		`Payment Required|Forbidden|Not Found|Method Not Allowed|Not Acceptable|Request Timeout|Conflict|Gone|Length Required|Precondition Failed|` +
		`Payload Too Large|Request Entity|URI Too Long|Unsupported Media|Unprocessable|Locked|Too Many Requests|Internal Server Error|` +
		`Not Implemented|Bad Gateway|Service Unavailable|Gateway Time|HTTP Version|Insufficient Storage)`
	source = `(?:go|py|js|ts|mjs|java|kt|rb|rs|c|cc|cpp|h|php|ex|exs|erl|cs|scala|lua|sql)`
)

// table returns the rules. They refer to one another, so it can't be the initial value of a variable.
func table() []rule {
	return []rule{
		// Codes stay.
		{`[{,]\s?"(?i:status|code|errno|\w{1,20}_?(?:status|code))"\s?:\s?"?\d{1,5}\b`, itself},
		{`(?i)\bHTTP/\d(?:\.\d)?(?:\s\d{3})?\b`, itself},
		{`(?i)\bsqlstate\W{0,3}[0-9A-Z]{5}\b`, itself},
		{`(?i)\b(?:status|code|errno|sqlcode|exit|signal|http|smtp)(?:[ _-]?(?:code|status|error))?["']?\s?[:=#(\[]{0,2}\s?-?\d{1,5}\b`, itself},
		{`(?i)\berror\s?[#(\[]?\d{1,5}\b\)?(?:\s\([0-9A-Z]{5}\))?`, itself},
		{`\bORA-\d{5}\b`, itself},
		{`(?i)\b(?:responded|response|returned|answered|replied|got)(?:\swith)?:?\s[1-5]\d\d\b`, itself},
		{`\b[245]\d\d[ -][245]\.\d{1,3}\.\d{1,3}\b`, itself},
		{`^[1-5]\d\d(?:[ :-]|$)`, itself},
		{`\b[1-5]\d\d\s` + reason + `\b`, itself},
		{`(?i)\b(?:x509|utf-?(?:8|16|32)|sha-?(?:1|2|3|224|256|384|512)|md5|base(?:32|64)|ipv?[46]|http[23]|h2|oauth2|s3|ec2|u?int(?:8|16|32|64)|` +
			`float(?:32|64)|(?:tls|ssl)v?[123](?:\.\d)?|psycopg[23]|boto3|urllib3|log4j|latin1|iso-?8859-\d{1,2})\b`, itself},

		// Quoted texts are removed, except the names in JSON and texts that say what went wrong.
		{`[{,]\s?"(?:message|msg|error|reason|detail|title|type|code|name)"\s?:\s?"(?:\\.|[^"\\])*"`, spoken},
		{`[{,]\s?"[A-Za-z_][\w.-]*"\s?:`, itself},
		{`"(?:\\.|[^"\\])*"`, quoted},
		{"`[^`]*`", quoted},
		{`\B'.*?'\B`, quoted},

		{day + `\d{4}[-/]\d\d?[-/]\d\d?(?:[T\s]` + clock + zone + `)?`, as("TIME")},
		{day + `\d\d?[\s/-]` + month + `[\s/-]\d{4}(?:[:\s]` + clock + zone + `)?`, as("TIME")},
		{day + month + `\s\d\d?\s` + clock + zone + `(?:\s\d{4}\b)?`, as("TIME")},
		{`\b\d\d?:\d\d:\d\d(?:[.,]\d+)?` + zone, as("TIME")},

		{`\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s"'<>]*[^\s"'<>.,:;)\]]`, as("URL")},
		{`[\w.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*`, as("MAIL")},
		{`\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b`, as("ID")},
		{`\b0[xX][0-9a-fA-F]+\b`, as("ID")},
		{`\bJOB[0-9A-Za-z]*\d[0-9A-Za-z]*\b`, as("ID")},

		{`\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b(?:/\d\d?\b)?`, as("ADDR")},
		{`\[[0-9a-fA-F.]*:[0-9a-fA-F:.]*(?:%\w+)?\](?::\d{1,5}\b)?`, as("ADDR")},
		{`(?:\b[0-9a-fA-F]{1,4})?:(?::|(?:[0-9a-fA-F]{1,4}:)+)[0-9a-fA-F:]*[0-9a-fA-F]{1,4}\b`, address6},
		{`[\w./-]+\.` + source + `:\d+(?::\d+)?\b`, func(found string) string { return found[:strings.IndexByte(found, ':')+1] + "N" }},
		{`\b(?:localhost|[A-Za-z0-9][\w-]*(?:\.[\w-]+)+):\d{2,5}\b`, as("ADDR")},
		{`\b[a-z][a-z0-9-]*:\d{4,5}\b`, as("ADDR")},
		{`\b(?:lookup|ENOTFOUND|EAI_AGAIN)\s[A-Za-z0-9][\w.-]*(?::|\son\s|\s?$)`, lookup},
		{`\b(?:host|hostname|resolve|server):?\s[A-Za-z0-9][\w-]*(?:\.[\w-]*\w)+`, lookup},

		{`\b(?:\d+(?:\.\d+)?(?:ns|us|µs|μs|ms|s|m|h|d))+\b`, as("N")},
		{`\b[0-9A-Za-z]{8,}\b`, token},
		{`\b[a-z]{2,6}_[0-9A-Za-z]{8,}\b`, token},
		{number + `(?:,\s` + number + `)*`, as("N")},
		{`\bN(?:,\sN\b)+`, as("N")},
	}
}

func as(text string) func(string) string { return func(string) string { return text } }
func itself(found string) string         { return found }

// errorWords match a quoted text that is an error.
var errorWords = regexp.MustCompile(`(?i)error|errno|fail|refused|reset|denied|timed out|timeout|unreachable|exceeded|closed|exception|not found|no such|unable|cannot|can't|could not|invalid `)

// quoted keeps the quotes, and the text between them if that is an error.
func quoted(found string) string {
	inside := found[1 : len(found)-1]
	if strings.Contains(inside, " ") && errorWords.MatchString(inside) {
		return found[:1] + alike(inside) + found[:1]
	}
	return found[:1] + "…" + found[:1]
}

// spoken normalises a message in JSON.
func spoken(found string) string {
	value := strings.Index(found, ":") + 1
	value += strings.IndexByte(found[value:], '"') + 1
	return found[:value] + alike(found[value:len(found)-1]) + `"`
}

// address6 may be a time or something else with colons.
func address6(found string) string {
	if strings.Contains(found, "::") || strings.Count(found, ":") >= 4 {
		return "ADDR"
	}
	return numbers.ReplaceAllString(found, "N")
}

// lookup is a word, a host name, and what shows where that ends.
func lookup(found string) string {
	word, name, _ := strings.Cut(found, " ")
	end := strings.TrimLeft(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")
	return word + " ADDR" + end
}

var numbers = regexp.MustCompile(number)

// token is an id if it has letters and some digits; a word with a number is still that word.
func token(found string) string {
	head, tail, ok := strings.Cut(found, "_")
	if !ok {
		head, tail = "", found
	} else {
		head += "_"
	}
	digits, hex, letters := 0, true, 0
	for _, c := range tail {
		switch {
		case '0' <= c && c <= '9':
			digits++
		case c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F':
			letters++
		default:
			letters++
			hex = false
		}
	}
	if digits > 0 && letters > 0 && (hex || digits >= 3 && len(tail) >= 10) {
		return head + "ID"
	}
	return head + numbers.ReplaceAllString(tail, "N")
}

// rules are the compiled table. They are compiled at the first error, because most programs have none.
var rules func() *finder

func init() { rules = sync.OnceValue(func() *finder { return newFinder(table()) }) }

// alike applies the rules.
func alike(text string) string { return rules().put(text) }
