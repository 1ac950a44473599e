package web

import "net/http"

// The routes, behind the base path. {queue} and {id} are encoded as names.go tells: what is a letter, a digit, `-` or `_`
// stands for itself, so most names are just there.
//
//	GET  /                         queues. name: a part of the name; page; n: rows, 50 or 100
//	GET  /q/{queue}                a queue and its jobs. state; after: a cursor; n: rows; from: a time to jump to
//	GET  /q/{queue}/hour           the chart's figures, as JSON
//	GET  /q/{queue}/search         state, match, group, older, after, window: the jobs of a group, or with a text in them; of the
//	                               window the first part at once
//	GET  /q/{queue}/search/events  the same as a stream (SSE: hit, progress, end), all of it; to close it stops it
//	GET  /q/{queue}/groups         state (dead, scheduled), match, older: jobs by their errors; anew=1 counts again
//	POST /q/{queue}/pause          for: seconds, 0 for until resumed
//	POST /q/{queue}/resume
//	POST /q/{queue}/limit          concurrency, max, per
//	POST /q/{queue}/bulk           action, state, and what: id…, group…, or all=1; match, older. Shows what it would do; with
//	                               sure=1 it begins a task and goes there
//	GET  /q/{queue}/j/{id}         a job. as: json, text, hex; payload: all
//	GET  /q/{queue}/j/{id}/payload its payload as it is
//	POST /q/{queue}/j/{id}/do      action: requeue (also: run now), release; state: in which the job was seen
//	GET  /tasks                    what was begun
//	GET  /tasks/{n}                a task
//	POST /tasks/{n}/stop
//	POST /tasks/{n}/again          goes on where it ended
//	GET  /health
//	GET  /find                     id: a job over all queues
//	GET  /events                   a stream (SSE: patch) of what view=queues, queue or status shows
//	POST /theme                    theme: dark, light or auto; to: where to go on
//	GET  /assets/…
//
// For tests, and whoever looks at it with a program: <main data-screen>; data-queue, data-job, data-group and data-task on
// rows, with the name encoded as in URLs; data-state on tabs, data-field on figures; data-action on the buttons of forms;
// data-level (ok, warning, critical, unknown) on what is judged; #banner, #flash, #totals, #queues, #figures, #jobs, #hits,
// #task, #tasks, #groups and #checks.
func (p *Page) route() http.Handler {
	mux := http.NewServeMux()
	look := func(pattern string, h handler) {
		mux.Handle("GET "+p.base+pattern, p.handle(Viewer, h))
	}
	act := func(pattern string, h handler) {
		mux.Handle("POST "+p.base+pattern, p.handle(Operator, h))
	}
	look("/{$}", p.queues)
	look("/q/{queue}", p.queue)
	look("/q/{queue}/hour", p.hour)
	look("/q/{queue}/search", p.search)
	look("/q/{queue}/search/events", p.searchEvents)
	look("/q/{queue}/groups", p.grouped)
	act("/q/{queue}/pause", p.pause)
	act("/q/{queue}/resume", p.resume)
	act("/q/{queue}/limit", p.limit)
	act("/q/{queue}/bulk", p.bulk)
	look("/q/{queue}/j/{id}", p.job)
	look("/q/{queue}/j/{id}/payload", p.payload)
	act("/q/{queue}/j/{id}/do", p.do)
	look("/tasks", p.taskList)
	look("/tasks/{n}", p.taskOne)
	act("/tasks/{n}/stop", p.taskStop)
	act("/tasks/{n}/again", p.taskAgain)
	look("/health", p.health)
	look("/find", p.find)
	look("/events", p.events)
	look("/assets/{file...}", p.asset)
	mux.Handle("POST "+p.base+"/theme", p.handle(Viewer, p.theme)) // which changes nothing but the viewer's own cookie
	if p.base != "" {
		mux.Handle("GET "+p.base, http.RedirectHandler(p.base+"/", http.StatusPermanentRedirect))
	}
	mux.Handle("GET "+p.base+"/", p.handle(Viewer, func(http.ResponseWriter, *request) error { return errNoPage }))
	return mux
}
