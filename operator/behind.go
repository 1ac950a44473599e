package operator

import emq "emq/clients/go"

// Behind is the place after a job in the jobs of a state.
func Behind(state emq.State, j Job) Cursor {
	timed := state == emq.StateActive || state == emq.StateScheduled
	p := place{entry: entry{id: j.ID}, given: true}
	if timed {
		p.score = float64(j.Due.UnixMilli())
	}
	return p.cursor(timed)
}
