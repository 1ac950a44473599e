"""driver.py threads|asyncio: the driver of the Python package; README.md says what it does."""
import asyncio
import inspect
import json
import logging
import math
import os
import sys
import threading
from types import SimpleNamespace
from urllib.parse import urlsplit

import redis
import redis.asyncio

import emq

side = sys.argv[1]
Queue, Worker = (emq.Queue, emq.Worker) if side == "threads" else (emq.aio.Queue, emq.aio.Worker)
logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
writing = threading.Lock()


def say(**what):
    with writing:
        os.write(1, json.dumps(what).encode() + b"\n")


def shown(payload_or_value):
    return {"hex": bytes(payload_or_value).hex()} if isinstance(payload_or_value, (bytes, bytearray)) else {"value": payload_or_value}


def given(words, one="value", hexed="hex"):
    return bytes.fromhex(words[hexed]) if hexed in words else words[one]


def seconds(ms):
    return None if ms is None else ms / 1000


class Waiting:
    """How handlers that wait are told to end."""

    def __init__(self):
        self.ends, self.changed = {}, threading.Condition()

    def finish(self, id, how):
        with self.changed:
            self.ends[id] = how

    def take(self, id):
        with self.changed:
            return self.ends.pop(id, None)


waiting = Waiting()
why = {emq.LeaseLost: "lease lost", emq.Stopping: "stopping", emq.TimedOut: "timed out"}


def begin(job):
    say(event="begin", id=job.id, token=job.token, created=job.created, **shown(job.value))
    value = job.value if isinstance(job.value, dict) else {}
    return value.get("then"), value.get("take", 0), "wait" in value or "hang" in value, "hang" in value


class Odd(BaseException):
    """Neither true nor printable."""

    def __bool__(self):
        raise self

    __str__ = __repr__ = __len__ = __bool__


class Empty(Exception):
    def __len__(self):
        return 0


odd = [ValueError("x" * 1000000), KeyboardInterrupt(), SystemExit(3), GeneratorExit(), asyncio.CancelledError(), StopIteration(1), StopAsyncIteration(),
       Odd(), Empty(), OSError("\ud800\0"), RecursionError(), MemoryError()]


def end(how):
    how = how or {"end": "return"}
    text = how.get("text", "")
    if how["end"] == "odd":
        raise odd[how["which"] % len(odd)]
    raise_ = {"fail": lambda: ValueError(text), "dead": lambda: emq.Dead(text), "drop": lambda: emq.Drop(text),
              "retry": lambda: emq.RetryIn(seconds(how["in"]), text), "snooze": lambda: emq.Snooze(seconds(how["in"]))}.get(how["end"])
    if raise_:
        raise raise_()


def handler(job):
    how, take, waits, hangs = begin(job)
    try:
        if take:
            job.wait(seconds(take))
        while waits and (how := waiting.take(job.id)) is None:
            job.wait(0.005)
    except emq.Cancelled as e:
        say(event="cancelled", id=job.id, why=why[type(e)])
        while hangs and (how := waiting.take(job.id)) is None:
            threading.Event().wait(0.005)
        raise
    end(how)


async def ahandler(job):
    how, take, waits, hangs = begin(job)
    try:
        if take:
            await asyncio.sleep(seconds(take))
        while waits and (how := waiting.take(job.id)) is None:
            await asyncio.sleep(0.005)
    except asyncio.CancelledError:
        say(event="cancelled", id=job.id, why=why[type(job.cancelled)])
        while hangs and (how := waiting.take(job.id)) is None:
            await asyncio.sleep(0.005)
        raise
    end(how)


class Driver:
    def open(self, url, queue, codec="json", lease=30000, failures=3, backoff=None, patience=15000, borrow=False, ca=None):
        if borrow:
            library = redis if side == "threads" else redis.asyncio
            at = urlsplit(url)
            url = library.Redis(host=at.hostname, port=at.port, db=int(at.path[1:] or 0), username=at.username, password=at.password,
                                ssl=ca is not None, ssl_ca_certs=ca, decode_responses=True)
        self.client = emq.Client(url, patience=seconds(patience))
        self.queue = Queue(self.client, queue, codec={"json": emq.JSON, "bytes": emq.Bytes}[codec], lease=seconds(lease), failures=failures,
                           backoff=None if backoff is None else lambda job: seconds(backoff))

    async def enqueue(self, **words):
        receipt = await now(self.queue.enqueue(given(words), id=words.get("id"), delay=seconds(words.get("in")), at=seconds(words.get("at"))))
        return {"id": receipt.id, "created": receipt.created}

    async def enqueue_many(self, **words):
        values = map(bytes.fromhex, words["hexes"]) if "hexes" in words else words["values"]
        total = await now(self.queue.enqueue_many(values, delay=seconds(words.get("in"))))
        return {"created": total.created, "existed": total.existed}

    async def jobs(self, state, after=None, n=100):
        return [{"id": j.id, "token": j.token, "failures": j.failures, "error": j.last_error, **shown(j.value)}
                for j in await now(self.queue.jobs(state, after=after, n=n))]

    async def stats(self):
        return await now(self.queue.stats())

    async def requeue(self, state, ids):
        return await now(self.queue.requeue(state, *ids))

    async def remove(self, state, ids):
        return await now(self.queue.remove(state, *ids))

    async def pause(self, ms=0):
        await now(self.queue.pause(seconds(ms)))

    async def resume(self):
        return await now(self.queue.resume())

    async def limit(self, concurrency=0, rate=0, per=0):
        await now(self.queue.limit(concurrency=concurrency, rate=rate, per=seconds(per)))

    def work(self, concurrency=4, timeout=None, grace=30000, block=4000):
        self.worker = Worker(self.client, grace=seconds(grace), block=seconds(block), signals=False)
        self.worker.handle(self.queue, handler if side == "threads" else ahandler, concurrency=concurrency, timeout=seconds(timeout))
        self.running = asyncio.ensure_future(self._run())

    async def _run(self):
        try:
            report = await (asyncio.to_thread(self.worker.run) if side == "threads" else self.worker.run())
            say(event="stopped", report=vars(report))
        except asyncio.CancelledError:
            say(event="stopped", report=vars(self.worker.report))
        except Exception as e:
            say(event="stopped", error=failed(e))

    def stop(self):
        self.worker.stop() if side == "threads" else self.running.cancel()

    def finish(self, id, how):
        waiting.finish(id, how)

    def backoff(self, first, most, token):
        policy = emq.exponential(seconds(first), seconds(most))
        waits = [policy(SimpleNamespace(token=token)) * 1000 for _ in range(1000)]
        return {"least": math.floor(min(waits)), "most": math.ceil(max(waits))}

    def check(self, id):
        emq.ids.check(id)

    def version(self):
        return redis.__version__


async def now(result):
    return await result if inspect.isawaitable(result) else result


def failed(e):
    kind = e.code if isinstance(e, emq.Refused) else "unreachable" if isinstance(e, emq.Unreachable) else "invalid"
    return {"class": kind, "text": str(e), "type": type(e).__name__}


async def main():
    driver, loop = Driver(), asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        words = json.loads(line)
        n, verb = words.pop("n"), words.pop("do")
        try:
            say(n=n, ok=await now(getattr(driver, verb)(**words)))
        except Exception as e:
            say(n=n, error=failed(e))
    os._exit(0)


asyncio.run(main())
