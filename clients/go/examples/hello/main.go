package main

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"emq/clients/go"
)

var url = "valkey://127.0.0.1:6399"

type Mail struct{ To string }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // so that a second Ctrl-C ends the program at once
	client, err := emq.Open(url)
	if err != nil {
		log.Fatal(err)
	}
	mails := emq.NewQueue[Mail](client, "mails")
	if _, err := mails.Enqueue(ctx, Mail{To: "ann"}); err != nil {
		log.Fatal(err)
	}
	worker := emq.NewWorker(client)
	emq.Handle(worker, mails, func(ctx context.Context, job *emq.Job[Mail]) error {
		log.Println("to", job.Value.To)
		return nil // an error is a failure: the job comes again, later each time
	})
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
}
