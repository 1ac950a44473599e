package commands

import "testing"

// BenchmarkDecide decides the calls of a job's life. `make pgo` makes its profile, which the build uses.
func BenchmarkDecide(b *testing.B) {
	waiting := row{FieldState: "pending", FieldAttempts: "0", FieldPayload: "data"}
	type decision struct {
		verb  Verb
		call  *Call
		out   *Outcome
		fresh Outcome
	}
	var life []*decision
	add := func(verb Verb, f found) {
		c, o := f.request(verb, valid(verb)...).call(verb, false)
		life = append(life, &decision{verb, c, o, *o})
	}
	add(Enqueue, found{})
	add(Claim, found{row: waiting})
	add(Complete, found{row: held(nil), count: "41"})
	add(Enqueue, found{})
	add(Claim, found{row: waiting})
	add(Extend, found{row: held(nil), member: []Key{KeyActive}})
	add(Fail, found{row: held(nil)})
	b.ReportAllocs()
	for i := range b.N {
		d := life[i%len(life)]
		*d.out = d.fresh
		Decide(d.verb, d.call, d.out)
	}
}
