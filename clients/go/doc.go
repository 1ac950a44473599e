// Package emq is a client of EMQ, the job queue inside Valkey: it puts jobs into queues, and has handlers do them.
//
//	type Mail struct{ To string }
//
//	client, err := emq.Open("valkey://localhost:6379")
//	mails := emq.NewQueue[Mail](client, "mails")
//	_, err = mails.Enqueue(ctx, Mail{To: "ann"})
//
//	worker := emq.NewWorker(client)
//	emq.Handle(worker, mails, func(ctx context.Context, job *emq.Job[Mail]) error {
//		return send(ctx, job.Value.To)
//	})
//	err = worker.Run(ctx)
//
// # Jobs
//
// A [Queue] carries values of one type, as JSON or by another [Codec]. A job is claimable at once, or with [In] and [At]
// later. Its [ID] is minted, and sorts by time; [As] gives one of the caller's, under which the job is enqueued at most once as long as it
// is there.
//
// # Handlers
//
// A [Handler] that returns nil has done its job. Any other error is a failure: the job comes again after the queue's [Backoff],
// and is dead at its last failure ([Failures]). [Dead], [RetryIn], [Snooze] and [Drop] say what else is to become of it. A panic is
// a failure, with its stack in the row; so is a [Timeout]. A payload that does not decode is dead at once.
//
// Jobs are done at least once. One whose worker died, or could not reach the server for as long as its [Lease], is handed out
// again, so a handler does nothing that must not be done twice.
//
// # Workers
//
// A [Worker] claims no more jobs than it has free handlers, so nothing is hoarded. It waits for jobs in the server and
// does not poll. While a handler runs, the job's lease is extended; if it is lost nevertheless, the handler's context
// ends with [ErrLeaseLost] and nothing is told to the server. What became of a job is told at once; what comes up while that is
// under way goes together, in one call.
//
// When the context of [Worker.Run] ends, handlers may go on for [Grace]. Then their contexts end with [ErrStopping], and what they
// do not finish is given back, uncounted. Run returns when the server knows it all. So a deployment costs no job a failure.
//
// A server that restarts, or is replaced by Sentinel, is found again, with backoff. A claim whose answer was lost is not sent
// again, for it may have taken a job, which then comes back by its lease; everything else is.
//
// # Several servers
//
// [OpenAll] spreads queues over servers that know nothing of one another, and [Client.Drain] moves those that live elsewhere after
// a server came or went.
//
// # Rights
//
// A user needs, beside the keys ~emq:{q}:* of each queue and {emq}:version, +@emq +hello +client|setinfo +client|id
// +client|unblock; the very first job of a store +set; [Queue.Jobs], [ExactFailures] and Drain name what else they need. Without CLIENT UNBLOCK a worker takes up to five seconds longer to
// stop.
//
// # Tests
//
// Package emqtest has a store in memory on which handlers run without a server. emqredis is for programs that have go-redis,
// emqprom and emqotel for metrics and traces; they are modules of their own.
package emq
