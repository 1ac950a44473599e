package operator

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
)

// Cursor is a place in the jobs of a state; the empty one is before the first. It stays valid when the job that it
// names is gone. It is printable text, which can be given to clients.
type Cursor string

// place is a decoded cursor: after an entry, or before it and all that follow. The zero value is before all.
type place struct {
	entry
	from  bool // the entry itself is behind the place; among times it is none, but all of that time are
	given bool // it is not the zero value
}

// entry is a member of a sorted set. Where all scores are 0, the order is that of the ids.
type entry struct {
	id    string
	score float64
}

// precedes reports whether an entry comes after the place.
func (p place) precedes(e entry) bool {
	switch {
	case !p.given:
		return true
	case e.score != p.score:
		return e.score > p.score
	}
	return e.id > p.id
}

// bound is the place as the lower bound of a range by ids; rest, as the upper bound of the ids before it.
func (p place) bound() string {
	switch {
	case !p.given:
		return "-"
	case p.from:
		return "[" + p.id
	}
	return "(" + p.id
}

func (p place) rest() string {
	if p.from {
		return "(" + p.id
	}
	return "[" + p.id
}

// cursor encodes a place: a or f, for after and from, the id, and if the scores are times, the score.
func (p place) cursor(timed bool) Cursor {
	if !p.given {
		return ""
	}
	text := "a"
	if p.from {
		text = "f"
	}
	text += base64.RawURLEncoding.EncodeToString([]byte(p.id))
	if timed {
		text += "." + score(p.score)
	}
	return Cursor(text)
}

// place decodes a cursor.
func (c Cursor) place(timed bool) (p place, err error) {
	if c == "" {
		return p, nil
	}
	id, ms, has := strings.Cut(string(c[1:]), ".")
	bytes, err := base64.RawURLEncoding.DecodeString(id)
	if err == nil && has {
		p.score, err = strconv.ParseFloat(ms, 64)
	}
	if p.id, p.from, p.given = string(bytes), c[0] == 'f', true; err != nil || has != timed || c[0] != 'a' && c[0] != 'f' || p.score != p.score {
		return p, fmt.Errorf("%.80q is no place in the jobs of this state", string(c))
	}
	return p, nil
}

// score formats a score for the server.
func score(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
