package web

import (
	"fmt"
	"html/template"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"emq/operator"
)

// formats are the functions with which templates format figures, times and names.
var formats = template.FuncMap{
	"visible": visible, "encode": encode, "mark": mark, "num": num, "rate": rate, "span": span, "bytes": size, "when": when, "stamp": stamp,
	"ago": ago, "age": func(t time.Time) string { return span(time.Since(t)) }, "left": func(t time.Time) string { return span(time.Until(t)) },
	"past":  func(t time.Time) bool { return t.Before(time.Now()) },
	"spark": spark, "level": level, "reason": reason, "cut": cut, "percent": percent,
	"lines":   lines,
	"preview": func(b []byte) string { return cut(visible(string(b)), 140) },
	"plural": func(n any, one, many string) string {
		if reflect.ValueOf(n).Int() == 1 {
			return one
		}
		return many
	},
}

// num formats a whole number of any type with separated thousands.
func num(n any) string { return operator.Count(reflect.ValueOf(n).Int()) }

// rate formats jobs per second, with a useful precision.
func rate(v float64) string {
	switch {
	case v <= 0 || math.IsNaN(v):
		return "0"
	case v < 0.1:
		return "<0.1"
	case v < 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return num(int64(math.Round(v)))
}

// ago formats the time since t.
func ago(t time.Time) string {
	d := time.Since(t)
	if d.Abs() < time.Second {
		return "just now"
	}
	return span(d) + " ago"
}

// span formats a duration in its two largest units.
func span(d time.Duration) string {
	if d < 0 {
		d = -d
	}
	switch s := int64(d / time.Second); {
	case d < time.Second:
		return strconv.FormatInt(d.Milliseconds(), 10) + " ms"
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 10*60:
		return strings.TrimSuffix(fmt.Sprintf("%d min %d s", s/60, s%60), " 0 s")
	case s < 3600:
		return fmt.Sprintf("%d min", s/60)
	case s < 24*3600:
		return strings.TrimSuffix(fmt.Sprintf("%d h %d min", s/3600, s/60%60), " 0 min")
	default:
		return strings.TrimSuffix(fmt.Sprintf("%d d %d h", s/86400, s/3600%24), " 0 h")
	}
}

func size(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1024, 0
	for ; v >= 1024 && unit < 3; unit++ {
		v /= 1024
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + " " + [...]string{"KiB", "MiB", "GiB", "TiB"}[unit]
}

// when formats a time for people, in UTC as in logs.
func when(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// stamp formats a time for programs.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func percent(part, whole int64) string {
	if whole <= 0 {
		return "0 %"
	}
	v := 100 * float64(part) / float64(whole)
	if v > 0 && v < 1 {
		return "<1 %"
	}
	return fmt.Sprintf("%.0f %%", v)
}

// cut is the beginning of a text, at most n characters.
func cut(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i] + "…"
		}
	}
	return s
}

func level(s operator.Status) string {
	switch s {
	case operator.OK:
		return "ok"
	case operator.Warning:
		return "warning"
	case operator.Critical:
		return "critical"
	}
	return "unknown"
}

// spark is an hour's backlog as the points of a line in a small chart, 120 wide and 24 high; nothing if there is too
// little to draw.
func spark(hour []operator.Minute) string {
	if len(hour) < 2 {
		return ""
	}
	var top int64 = 1
	for _, m := range hour {
		top = max(top, m.Jobs)
	}
	var b strings.Builder
	for i, m := range hour {
		x := 120 - 2*float64(len(hour)-1-i)
		y := 22.5 - 21*float64(m.Jobs)/float64(top)
		fmt.Fprintf(&b, "%s,%s ", strconv.FormatFloat(x, 'f', -1, 64), strconv.FormatFloat(y, 'f', 1, 64))
	}
	return strings.TrimSpace(b.String())
}
