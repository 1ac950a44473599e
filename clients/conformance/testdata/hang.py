import os
import threading

import emq

queue = emq.Queue(os.environ["EMQ_URL"], "mail")
worker = emq.Worker(queue.client, grace=3600)
queue.enqueue(1)


@worker.handler(queue, concurrency=2)
def hang(job):
    print("begun", flush=True)
    threading.Event().wait()


worker.run()
