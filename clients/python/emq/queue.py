"""A queue, and what is said about it. Written once, as coroutines; `emq.Queue` runs them for threads."""
import json
import random
from dataclasses import dataclass
from itertools import islice

from . import ids
from .client import Client, Looping

BATCH = 100
STATES = {"pending": b"pending", "active": b"active", "scheduled": b"schedule", "dead": b"dead"}
MOST_MS = (1 << 52) - 1


class JSON:
    """Values as JSON in UTF-8, which every language reads."""

    @staticmethod
    def encode(value):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()

    @staticmethod
    def decode(payload):
        return json.loads(payload.decode(), parse_constant=_no_number)


def _no_number(name):
    raise ValueError(f"{name} is no JSON")


class Bytes:
    """Values that are bytes already."""

    @staticmethod
    def encode(value):
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise TypeError(f"the queue's values are bytes, not {type(value).__name__}")
        return bytes(value)

    decode = staticmethod(bytes)


def exponential(first=1.0, most=3600.0, factor=2.0):
    """A policy of retries: twice as long after each claim, from `first` to `most` seconds, half of it by chance."""
    def delay(job):
        longest = min(most, first * factor ** min(job.token - 1, 64))
        return random.uniform(longest / 2, longest)
    return delay


@dataclass
class Receipt:
    """A job that is in its queue. `created` is False if a job of that id was there already."""
    id: str
    created: bool


@dataclass
class Sum:
    """How many jobs were created, and how many were there already."""
    created: int = 0
    existed: int = 0


class Listed:
    """A job as it was when it was listed."""

    def __init__(self, queue, state, id, row, at):
        self.id, self.state, self.at, self._queue = _name(id), state, at, queue
        self.payload, self.token, self.failures = row[0], int(row[1] or 0), int(row[2] or 0)
        self.last_error = None if row[3] is None else row[3].decode(errors="replace")
        self.created = ids.created(self.id)

    @property
    def value(self):
        return self._queue.codec.decode(self.payload)


class Queue:
    """A queue of jobs of one type, which `codec` makes bytes of.

    `lease` is how many seconds a job stays with its worker without a sign of life; a job is a dead letter after so many `failures`,
    and until then waits for as long as `backoff(job)` says.
    """

    def __init__(self, client, name, *, codec=JSON, lease=30.0, failures=25, backoff=None):
        self.name = name.encode() if isinstance(name, str) else name
        if not isinstance(self.name, bytes) or not self.name or any(c in self.name for c in b"{}\0"):
            raise ValueError(f"no name of a queue: {name!r}; it is a string, not empty, without braces and NUL")
        if not isinstance(failures, int) or failures < 1:
            raise ValueError(f"failures must be at least 1, not {failures!r}")
        if not callable(getattr(codec, "encode", None)) or not callable(getattr(codec, "decode", None)):
            raise TypeError(f"no codec: {codec!r}; it has encode and decode")
        if not (backoff is None or callable(backoff)):
            raise TypeError(f"no backoff: {backoff!r}; it is a function of a job, such as emq.exponential()")
        self.lease_ms = ms(lease, least=1)
        self.client = client if isinstance(client, Client) else Client(client)
        self.codec, self.failures, self.backoff = codec, failures, backoff or exponential()
        self.lease = self.lease_ms / 1000
        self.base = b"emq:{" + self.name + b"}:"

    side = Looping

    async def _ask(self, *command):
        [reply], again = await self.client.call(self.side, command)
        return reply, again

    async def enqueue(self, value, *, id=None, delay=None, at=None):
        """Puts a job into the queue: now, in `delay` seconds, or at a Unix time or datetime. Returns a Receipt."""
        payload, when = self.codec.encode(value), _when(delay, at)
        mine = id is None
        id = ids.mint() if mine else ids.check(id)
        while True:
            row = self.base + b"job:" + id.encode()
            if when is None:
                created, again = await self._ask("EMQ.ENQUEUE", 2, row, self.base + b"pending", id, payload)
            else:
                created, again = await self._ask("EMQ.SCHEDULE", 2, row, self.base + b"schedule", id, payload, *when)
            if created or not mine or again:  # an id of ours that is there is the request before, or another process's
                return Receipt(id, bool(created) or mine)
            id = ids.mint()

    async def enqueue_many(self, values, *, delay=None, at=None):
        """Puts many jobs into the queue, in batches as the values come: any iterable, or an asynchronous one. Returns a Sum."""
        when, total = _when(delay, at), Sum()
        async for batch in _batches(values):
            jobs = [(ids.mint(), self.codec.encode(value)) for value in batch]
            while jobs:
                words = [word for id, payload in jobs for word in ((id, payload) if when is None else (id, when[1], payload))]
                verb = ("EMQ.MENQUEUE", self.base) if when is None else ("EMQ.MSCHEDULE", self.base, when[0])
                statuses, again = await self._ask(*verb, *words)
                if again:
                    statuses = [1] * len(jobs)
                total.created += sum(statuses)
                jobs = [(ids.mint(), payload) for (_, payload), status in zip(jobs, statuses) if not status]
        return total

    async def jobs(self, state, *, after=None, n=100):
        """Up to n jobs of a state, in the order of the queue, those that follow the job `after`. Needs the right to read: zrange, zrank, hmget."""
        key, start = self.base + _state(state), 0
        if after is not None:
            rank, _ = await self._ask("ZRANK", key, _bytes(after))
            if rank is None:
                raise LookupError(f"{after} is no longer {state}")
            start = rank + 1
        found, _ = await self._ask("ZRANGE", key, start, start + n - 1, "WITHSCORES")
        pairs = list(zip(found[::2], found[1::2]))
        if not pairs:
            return []
        rows, _ = await self.client.call(self.side, *(("HMGET", self.base + b"job:" + id, "payload", "attempts", "failures", "last_error")
                                                      for id, _ in pairs))
        return [Listed(self, state, id, row, float(score) / 1000 or None) for (id, score), row in zip(pairs, rows)]

    async def stats(self):
        """The queue's figures, by the names of EMQ.STATS."""
        reply, _ = await self._ask("EMQ.STATS", self.base)
        return {name.decode(): value for name, value in zip(reply[::2], reply[1::2])}

    async def requeue(self, state, *jobs):
        """Makes dead or scheduled jobs pending, now. Returns how many it did."""
        return await self._operate("EMQ.REQUEUE", state, jobs)

    async def remove(self, state, *jobs):
        """Removes jobs that are in this state, or in `any`. A running one is thereby cancelled. Returns how many it did."""
        return await self._operate("EMQ.REMOVE", state, jobs)

    async def _operate(self, verb, state, jobs):
        done = 0
        for start in range(0, len(jobs), BATCH):
            statuses, _ = await self._ask(verb, self.base, state, *map(_bytes, jobs[start:start + BATCH]))
            done += sum(status == 1 for status in statuses)
        return done

    async def pause(self, seconds=0):
        """No job is claimed for so many seconds; 0: until `resume`."""
        await self._ask("EMQ.PAUSE", self.base, ms(seconds))

    async def resume(self):
        """Returns whether the queue was paused."""
        return bool((await self._ask("EMQ.RESUME", self.base))[0])

    async def limit(self, *, concurrency=0, rate=0, per=0):
        """At most so many jobs active at a time, and so many (`rate`) handed out within `per` seconds; 0 for no limit."""
        await self._ask("EMQ.LIMIT", self.base, concurrency, rate, ms(per))


def ms(seconds, least=0):
    """A time as the verbs take it."""
    try:
        if least <= seconds * 1000 <= MOST_MS:
            return round(seconds * 1000)
    except TypeError:  # no number
        pass
    raise ValueError(f"no time in seconds: {seconds!r}; it is {least / 1000:g} to {MOST_MS // 1000}")


def _when(delay, at):
    if delay is not None and at is not None:
        raise ValueError("either delay or at")
    if at is not None:
        return "at", ms(at.timestamp() if hasattr(at, "timestamp") else at)
    return None if delay is None else ("in", ms(delay))


def _state(state):
    if state not in STATES:
        raise ValueError(f"no state: {state!r}; one of {', '.join(STATES)}")
    return STATES[state]


def _name(id):
    return id.decode("utf-8", "surrogateescape")


def _bytes(id):
    if not isinstance(id, (str, bytes)):
        raise TypeError(f"no job id: {id!r}")
    return id if isinstance(id, bytes) else id.encode("utf-8", "surrogateescape")


async def _batches(values):
    if isinstance(values, (str, bytes, dict)):  # they would do, a letter or a key at a time
        raise TypeError(f"values are an iterable of values, not a {type(values).__name__}")
    if hasattr(values, "__aiter__"):
        batch = []
        async for value in values:
            batch.append(value)
            if len(batch) == BATCH:
                yield batch
                batch = []
        if batch:
            yield batch
        return
    values = iter(values)
    while batch := list(islice(values, BATCH)):
        yield batch
