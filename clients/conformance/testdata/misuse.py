"""What a newcomer gets wrong is refused with words that help, and costs no job."""
import asyncio
import logging
import os
import threading
import time

import emq

URL = os.environ["EMQ_URL"]
client = emq.Client(URL)
queue, other = emq.Queue(client, "mail"), emq.Queue(client, "other")
worker = emq.Worker(client)
worker.handle(other, print)


def decorate(*what):
    @worker.handler(*what)
    def handler(job):
        pass


for text, kind, call in [
    ("it begins with valkey://", ValueError, lambda: emq.Client("127.0.0.1:6379")),
    ("it begins with valkey://", ValueError, lambda: emq.Client("http://:secret@127.0.0.1")),
    ("'x' is no number of a database", ValueError, lambda: emq.Client("valkey://127.0.0.1/x")),
    ("neither the URL of a server nor a client of redis-py: None", TypeError, lambda: emq.Client(None)),
    ("no name of a queue: 'emq:{mail}:'", ValueError, lambda: emq.Queue(client, "emq:{mail}:")),
    ("no name of a queue: None", ValueError, lambda: emq.Queue(client, None)),
    ("no time in seconds: 0; it is 0.001 to", ValueError, lambda: emq.Queue(client, "mail", lease=0)),
    ("no time in seconds: '30'", ValueError, lambda: emq.Queue(client, "mail", lease="30")),
    ("no backoff: 3", TypeError, lambda: emq.Queue(client, "mail", backoff=3)),
    ("no codec: 'json'", TypeError, lambda: emq.Queue(client, "mail", codec="json")),
    ("no time in seconds: -1", ValueError, lambda: queue.enqueue(1, delay=-1)),
    ("no time in seconds: inf", ValueError, lambda: queue.enqueue(1, delay=float("inf"))),
    ("not JSON serializable", TypeError, lambda: queue.enqueue(object())),
    ("not a str", TypeError, lambda: queue.enqueue_many("ann")),
    ("not a dict", TypeError, lambda: queue.enqueue_many({"to": "ann"})),
    ("no job id: ['JOB00000000001']", TypeError, lambda: queue.requeue("dead", ["JOB00000000001"])),
    ("no queue: 'mail'", TypeError, lambda: decorate("mail")),
    ("no queue: <function", TypeError, lambda: worker.handler(decorate)),
    ("no handler: None", TypeError, lambda: worker.handle(queue, None)),
    ("queue 'other' has a handler already", ValueError, lambda: decorate(other)),
    ("no time in seconds: 'x'", ValueError, lambda: worker.handle(queue, print, timeout="x")),
    ("no time in seconds: 'x'", ValueError, lambda: emq.Worker(client, grace="x")),
    ("no queue to handle", ValueError, lambda: emq.Worker(client).run()),
]:
    try:
        said = call()
    except kind as e:
        assert text in str(e), f"{text}: {e}"
        assert "secret" not in str(e), e
    else:
        raise AssertionError(f"{text}: {said}")
assert queue.stats()["pending"] == 0, "what was refused changed nothing"


def report(worker, queue, handler):
    """What a worker made of a job, once it is neither pending nor in hand."""
    emq.Queue(client, "mail").enqueue(1)
    worker.handle(queue, handler)

    def watch():
        end = time.monotonic() + 30
        while time.monotonic() < end and ((s := other_side.stats())["pending"] or s["active"]):
            time.sleep(0.01)
        worker.stop()
    other_side = emq.Queue(client, "mail")
    threading.Thread(target=watch).start()
    said = worker.run()
    said = asyncio.run(said) if asyncio.iscoroutine(said) else said
    other_side.remove("any", *(job.id for state in ("scheduled", "dead") for job in other_side.jobs(state)))
    return said


async def work(job):
    pass


def generate(job):
    yield


async def pass_on(job):
    return work(job)


async def give_back(job):
    return emq.Dead("no address")


for handler, end in [(lambda job: emq.Dead("no address"), "died"), (lambda job: OSError(), "retried"), (lambda job: work(job), "retried"),
                     (generate, "retried"), (lambda job: True, "completed")]:
    said = report(emq.Worker(client), queue, handler)
    assert getattr(said, end) == 1, f"{end}: {said}"
for handler, end in [(pass_on, "retried"), (give_back, "died"), (work, "completed")]:
    said = report(emq.aio.Worker(client), emq.aio.Queue(client, "mail"), handler)
    assert getattr(said, end) == 1, f"{end}: {said}"


class Nowhere(emq.Client):
    def elsewhere(self, tried):
        tries.append(1)
        if len(tries) == 5:
            worker.stop()


tries, lines = [], []
watched = logging.Handler()
watched.emit = lambda record: lines.append(record.getMessage())
logging.getLogger("emq").addHandler(watched)
worker = emq.Worker(Nowhere("valkey://127.0.0.1:1"))
worker.handle(emq.Queue(worker.client, "mail"), print)
worker.run()
assert len(lines) == 1 and "no claim on mail for now" in lines[0], f"said once: {lines}"
