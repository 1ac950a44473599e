package operator

import (
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	emq "emq/clients/go"
)

const idPrefix = "JOB"

// made is the time at which an id was made, if it is canonical or a ULID; else the zero time.
func made(id string) time.Time {
	if t := emq.ID(id).Time(); !t.IsZero() {
		return t
	}
	if u, ok := ulidOf(id); ok {
		return ulid.Time(u.Time())
	}
	return time.Time{}
}

func ulidOf(id string) (u ulid.ULID, ok bool) {
	digits, ok := strings.CutPrefix(id, idPrefix)
	if !ok {
		return u, false
	}
	u, err := ulid.ParseStrict(digits)
	return u, err == nil
}

// least sorts before all ids of an example's form that are made at a time or later; empty if that form contains no time.
func least(example string, t time.Time) string {
	if !emq.ID(example).Time().IsZero() {
		return string(emq.LeastID(t))
	}
	if _, ok := ulidOf(example); !ok {
		return ""
	}
	var u ulid.ULID
	_ = u.SetTime(min(uint64(max(t.UnixMilli(), 0)), ulid.MaxTime()))
	digits := u.String()
	if small := strings.ToLower(example[len(idPrefix):]); example[len(idPrefix):] == small {
		digits = strings.ToLower(digits)
	}
	return idPrefix + digits
}
