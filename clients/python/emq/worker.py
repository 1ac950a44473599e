"""A worker: claims jobs when a handler is free, keeps their leases, and tells the server how they ended."""
import asyncio
import inspect
import logging
import queue
import signal
import threading
import time
import traceback
from dataclasses import dataclass

from . import ids
from .client import ANSWER, Client, Link, Looping, Lost, Pause
from .errors import Cancelled, Dead, Drop, Fence, LeaseLost, Refused, RetryIn, Snooze, Stopping, TimedOut
from .queue import BATCH, Queue, _bytes, _name, ms

MOMENT = 1.0  # what a handler that was told to end has for it
REASON = 4096  # bytes of a reason that are kept


class Job:
    """A job in a handler's hands. `token` grows with each claim: pass it on to cut off a late worker elsewhere too."""

    def __init__(self, queue, id, payload, token, granted):
        self.queue, self.id, self.payload, self.token = queue, _name(id), payload, token
        self.created = ids.created(self.id)
        self.cancelled = None  # a LeaseLost, Stopping or TimedOut, once the handler is to end
        self._granted, self._done, self._told = granted, False, threading.Event()
        self._over = asyncio.get_running_loop().create_future()

    def __str__(self):
        return f"{_name(self.queue.name)} {self.id}"

    def check(self):
        """Raises LeaseLost, Stopping or TimedOut if the handler is to end."""
        if self.cancelled:
            raise self.cancelled

    def wait(self, seconds):
        """Sleeps, unless the handler is to end: then `check`. For handlers that are no coroutines."""
        self._told.wait(seconds)
        self.check()

    def _cancel(self, why):
        if not self.cancelled:
            self.cancelled = why
            self._told.set()
            self._over.set_result(None)

    @property
    def _until(self):
        return self._granted + self.queue.lease


@dataclass
class Report:
    """What a worker did: how many jobs ended how, as the server said."""
    completed: int = 0
    retried: int = 0  # failed, and to be tried again
    died: int = 0  # failed, and dead
    snoozed: int = 0
    dropped: int = 0
    returned: int = 0  # given back as the worker stopped
    lost: int = 0  # not settled by this worker


class _Handle:
    """One queue's handler and its slots."""

    def __init__(self, queue, call, concurrency, timeout):
        self.queue, self.call, self.free, self.timeout = queue, call, concurrency, timeout
        self.freed = asyncio.Event()
        coroutine = inspect.iscoroutinefunction(call) or inspect.iscoroutinefunction(getattr(call, "__call__", None))
        self.threads = None if coroutine else _Threads()

    def start(self, job):
        """The handler's end, as a future of None or what was raised, of whatever kind."""
        return self.threads.run(self.call, job) if self.threads else asyncio.ensure_future(self._await(job))

    async def _await(self, job):
        try:
            _check(await self.call(job))
        except BaseException as e:
            return e

    def release(self, *_):
        self.free += 1
        self.freed.set()


class Worker:
    """Runs handlers on the jobs of queues. `grace` is how many seconds running handlers have once the worker stops, `block` how long one claim
    waits in the server; SIGINT and SIGTERM stop it if it runs in the main thread and `signals` is true, and another one a second later or
    more ends the process.

    A handler is a function of a job: a coroutine, which is cancelled if it is to end, or a plain function, which runs in a thread and should
    look at `job.check()`. If it returns, the job is done; if it raises, the job failed, unless it raises Dead, RetryIn, Snooze or Drop.
    """

    def __init__(self, client, *, grace=20.0, block=4.0, signals=True, logger=None):
        self.client = client if isinstance(client, Client) else Client(client)
        self.grace, self.block_ms, self.signals = ms(grace) / 1000, ms(block, least=1), signals
        self.log = logger or logging.getLogger("emq")
        self._handles, self._hand, self._tasks, self._unsettled = [], set(), set(), []
        self._stopping = self._loop = self._extending = self._flushing = self._fatal = None
        self._asked_to_stop = False

    def handler(self, queue, *, concurrency=10, timeout=None):
        """Decorates the handler of a queue."""
        self._check_queue(queue)

        def register(call):
            self.handle(queue, call, concurrency=concurrency, timeout=timeout)
            return call
        return register

    def handle(self, queue, call, *, concurrency=10, timeout=None):
        """Has so many jobs of the queue, which is of the worker's client, at most worked on at a time, each at most `timeout` seconds."""
        if not isinstance(concurrency, int) or concurrency < 1:
            raise ValueError(f"concurrency must be at least 1, not {concurrency!r}")
        self._check_queue(queue)
        if not callable(call):
            raise TypeError(f"no handler: {call!r}; it is a function of a job")
        self._handles.append((queue, call, concurrency, None if timeout is None else ms(timeout, least=1) / 1000))

    def _check_queue(self, queue):
        if not isinstance(queue, Queue):
            raise TypeError(f"no queue: {queue!r}")
        if queue.client is not self.client:
            raise ValueError(f"queue {_name(queue.name)!r} is another client's")
        if any(queue.base == other.base for other, *_ in self._handles):
            raise ValueError(f"queue {_name(queue.name)!r} has a handler already")

    def stop(self):
        """Claims nothing more, and ends `run` when what is running is over. For any thread."""
        self._asked_to_stop = True
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._stopping.set)
            except RuntimeError:  # the loop is closed: the worker has ended
                pass

    async def run(self):
        """Works until it is stopped, and returns a Report; raises what the server refuses for good, such as Fence or missing rights. Where it is
        cancelled it stops as well: a claim that waits is not left alone with what it may be granted."""
        if not self._handles:
            raise ValueError("the worker has no queue to handle")
        running = asyncio.ensure_future(self._run())
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            self.stop()
            await running
            raise

    async def _run(self):
        if self._loop is not None:
            raise RuntimeError("the worker runs already")
        self._loop, self._stopping, self._fatal, self.report = asyncio.get_running_loop(), asyncio.Event(), None, Report()
        if self._asked_to_stop:
            self._stopping.set()
        self._control, self._speaking = Link(self.client, Looping), asyncio.Lock()
        handles = [_Handle(*h) for h in self._handles]
        # A third of the shortest lease is how long an answer to what the worker says of its jobs may take.
        self._shortest = min((queue.lease for queue, *_ in self._handles), default=30.0)
        self._answer = min(ANSWER, max(1.0, self._shortest / 3))
        caught = self.signals and threading.current_thread() is threading.main_thread()
        if caught:
            _signals.catch(self)
        beat = asyncio.create_task(self._guard(self._beat()))
        claims = [asyncio.create_task(self._guard(self._claim(h))) for h in handles]
        try:
            await self._stopping.wait()
            await asyncio.gather(*claims)
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=0 if isinstance(self._fatal, Fence) else self.grace)
            for job in list(self._hand):
                job._cancel(Stopping("the worker stops"))
            while self._tasks:
                await asyncio.wait(self._tasks)
        finally:
            if caught:
                _signals.release(self)
            for task in [beat, *claims, *self._tasks, *([self._extending] if self._extending else [])]:
                task.cancel()
            for h in handles:
                if h.threads:
                    h.threads.end()
            await self._control.close()
            self._loop, self._asked_to_stop = None, False
        if self._fatal:
            raise self._fatal
        return self.report

    async def _guard(self, coroutine):
        try:
            await coroutine
        except Exception as e:  # a fault of ours: the worker stops with it
            self._end(e)

    def _end(self, why):
        self._stopping.set()
        if self._fatal is None:
            self._fatal = why
            self.log.error("the worker stops: %s", why)

    # Claims: no more than there are free slots. BCLAIM waits for the first job, MCLAIM fills the rest.

    async def _claim(self, h):
        link, pause, waits = Link(self.client, Looping, named=True), Pause(), True
        stopped = asyncio.create_task(self._stopping.wait())
        try:
            while not self._stopping.is_set():
                if not h.free:
                    h.freed.clear()
                    freed = asyncio.create_task(h.freed.wait())
                    await asyncio.wait({freed, stopped}, return_when=asyncio.FIRST_COMPLETED)
                    freed.cancel()
                    continue
                try:
                    if waits or h.free == 1:
                        asked, jobs = 1, await self._wait_for_job(link, h, stopped)
                        sent = time.monotonic()  # the lease began when the job was handed over, which was just now
                    else:
                        sent, asked = time.monotonic(), min(h.free, BATCH)
                        jobs = _only(await link.call([("EMQ.MCLAIM", h.queue.base, h.queue.lease_ms, asked)]))
                    self._begin(h, jobs, sent)
                    waits, pause = len(jobs) < asked, Pause()
                except (Lost, Refused) as e:
                    # A job whose grant was lost on the way is leased to nobody, and comes back by its lease.
                    if not _passes(e):
                        return self._end(e)
                    if not pause.begun:  # said once, until it is over
                        self.log.warning("no claim on %s for now; trying again: %s", _name(h.queue.name), e)
                    await asyncio.wait({stopped}, timeout=pause.next())
        finally:
            stopped.cancel()
            await link.close()

    async def _wait_for_job(self, link, h, stopped):
        """The one job that a BCLAIM was granted, or none. It is never just left: CLIENT UNBLOCK ends it, and its answer is read."""
        claim = asyncio.create_task(link.call([("EMQ.BCLAIM", h.queue.lease_ms, self.block_ms, h.queue.base)], self.block_ms / 1000 + ANSWER))
        await asyncio.wait({claim, stopped}, return_when=asyncio.FIRST_COMPLETED)
        while not claim.done():
            if link.id is not None:  # without the right to know it, or to unblock, the claim's own time ends it
                try:
                    _only(await self._say(("CLIENT", "UNBLOCK", link.id)))
                except Refused:
                    link.id = None
                except Lost:
                    pass
            await asyncio.wait({claim}, timeout=0.05)  # again: it may not have begun to wait
        job = _only(claim.result())
        return [job[1:]] if job else []

    def _begin(self, h, jobs, granted):
        for id, payload, token in jobs:
            job = Job(h.queue, id, payload, token, granted)
            self._hand.add(job)
            h.free -= 1
            task = asyncio.create_task(self._guard(self._work(h, job)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    # Handlers, and what their ends mean.

    async def _work(self, h, job):
        if self._stopping.is_set():  # granted to a claim that was on its way
            await self._settle(job, "returned", 0)
            return h.release()
        try:
            job.value = h.queue.codec.decode(job.payload)
        except Exception as e:
            await self._settle(job, "failed", 0, 1, _cut(f"the payload does not decode: {type(e).__name__}: {_shown(str, e)}"))
            return h.release()
        running = h.start(job)
        await asyncio.wait({running, job._over}, timeout=h.timeout, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            job._cancel(TimedOut(f"not done within {h.timeout} s"))
            if not h.threads:
                running.cancel()
            await asyncio.wait({running}, timeout=MOMENT)
        job._done = True
        try:
            end = self._ended(job, running)
        except Exception as e:  # a time that is none, or a policy that raises
            end = "failed", 1000, job.queue.failures, _reason(e)
        if end:
            await self._settle(job, *end)
        else:
            self._lose(job, f"lost: {job.cancelled}")
        if running.done():
            h.release()
        else:
            self.log.warning("%s: the handler goes on though it was told to end: %s", job, job.cancelled)
            running.add_done_callback(h.release)

    def _ended(self, job, running):
        """How a job is settled whose handler ended, or was given up."""
        error = running.result() if running.done() else job.cancelled
        if isinstance(error, (asyncio.CancelledError, Cancelled)) and job.cancelled:
            error = job.cancelled
        if isinstance(job.cancelled, LeaseLost):
            return None
        if isinstance(error, Drop):
            self.log.warning("%s: dropped: %s", job, _shown(str, error))
            return ("dropped",)
        if error is None:
            return ("completed",)
        if isinstance(error, Snooze):
            return "snoozed", ms(error.seconds)
        if isinstance(error, Dead):
            return "failed", 0, 1, _reason(error)
        if isinstance(error, RetryIn):
            return "failed", ms(error.seconds), job.queue.failures, _reason(error)
        if isinstance(job.cancelled, Stopping):
            return "returned", 0
        return "failed", ms(job.queue.backoff(job)), job.queue.failures, _reason(error)

    # Heartbeats: one loop for all jobs in hand, at a third of their leases.

    async def _beat(self):
        while True:
            await asyncio.sleep(self._shortest / 50)
            now, due = time.monotonic(), {}
            for job in self._hand:
                if now >= job._until:
                    job._cancel(LeaseLost("the lease is over, and no server was reached to extend it"))
                elif now >= job._granted + job.queue.lease / 3 and not job._done:
                    due.setdefault(job.queue, []).append(job)
            if due and (self._extending is None or self._extending.done()):  # beside the loop: leases end while an answer is waited for, too
                self._extending = asyncio.create_task(self._guard(self._extend(due)))

    async def _extend(self, due):
        for queue, jobs in due.items():
            for some in (jobs[start:start + BATCH] for start in range(0, len(jobs), BATCH)):
                words, sent = [word for job in some for word in (_bytes(job.id), job.token)], time.monotonic()
                try:
                    statuses = _only(await self._say(("EMQ.MEXTEND", queue.base, queue.lease_ms, *words)))
                except (Lost, Refused) as e:
                    if not _passes(e):
                        return self._end(e)
                    return self.log.info("leases of %s not extended for now: %s", _name(queue.name), e)
                for job, status in zip(some, statuses):
                    if status == 1:
                        job._granted = sent
                    elif not job._done:
                        job._cancel(LeaseLost(_why(status)))

    async def _say(self, *commands):
        """The replies on the connection for all but claims, which has one call after the other."""
        async with self._speaking:
            return await self._control.call(commands, self._answer)

    # Settlements: sent at once, and together while others are under way.

    async def _settle(self, job, end, *words):
        """`end` is the report's word for it, or failed; `words` are what the verb takes besides."""
        told = self._loop.create_future()
        self._unsettled.append((job, end, words, told))
        if self._flushing is None or self._flushing.done():
            self._flushing = asyncio.create_task(self._guard(self._flush()))
        await told
        self._hand.discard(job)

    async def _flush(self):
        pause, again = Pause(), set()
        while self._unsettled:
            batch, self._unsettled = self._unsettled, []
            try:
                if await self._tell_server(batch, again):
                    pause = Pause()
                else:
                    await asyncio.sleep(pause.next())
            except Exception as e:  # a fault of ours, or of the logger: nobody waits for these in vain
                for *_, told in batch:
                    _tell(told)
                self._end(e)

    async def _tell_server(self, batch, again):
        """Whether the server took them all; what it did not, or may not have, is unsettled as before."""
        groups = _groups(batch)
        try:
            replies = await self._say(*(command for command, _ in groups))
        except Lost as e:
            replies = [e] * len(groups)
            if e.sent:
                again.update(job for job, *_ in batch)
        problem, unsent = None, []
        for (_, group), reply in zip(groups, replies):
            if _passes(reply):
                problem = reply
                unsent += group
            elif isinstance(reply, Refused) and reply.code not in ("EMQSTALE", "EMQSCRIPT"):
                self._end(reply)
                self._leave(group)
            else:
                statuses = reply if isinstance(reply, list) else [_status(reply)]
                for (job, end, words, told), status in zip(group, statuses):
                    self._note(job, end, words, status, job in again)
                    again.discard(job)
                    _tell(told)
        if problem:
            self.log.info("not settled for now: %s", problem)
            now = time.monotonic()
            self._leave([s for s in unsent if s[0]._until <= now])
            self._unsettled = [s for s in unsent if s[0]._until > now] + self._unsettled
        return not problem

    def _leave(self, settlements):
        """The lease ends by itself, and the job comes back."""
        for job, end, _, told in settlements:
            self._lose(job, f"{end}, which no server was told while the lease lasted")
            _tell(told)

    def _lose(self, job, how):
        self._hand.discard(job)
        self.report.lost += 1
        self.log.warning("%s: %s", job, how)

    def _note(self, job, end, words, status, again):
        if status not in (1, 2) and not (again and status in (0, -1)):  # again: the settlement before was carried out
            return self._lose(job, f"{end}, which came to nothing: {_why(status)}")
        if end == "failed":
            end = "died" if status == 2 or words[1] == 1 else "retried"
            if end == "died":
                self.log.error("%s: dead: %s", job, _line(words[2]))
            else:
                self.log.info("%s: failed, to be tried again in %d ms: %s", job, words[0], _line(words[2]))
        setattr(self.report, end, getattr(self.report, end) + 1)


_VERBS = {"completed": "EMQ.MCOMPLETE", "dropped": "EMQ.MCOMPLETE", "failed": "EMQ.MFAIL", "snoozed": "EMQ.RELEASE", "returned": "EMQ.RELEASE"}


def _groups(settlements):
    """The commands that settle these, each with those that it settles."""
    groups, open = [], {}
    for s in settlements:
        job, end, words, _ = s
        verb, base = _VERBS[end], job.queue.base
        if verb == "EMQ.RELEASE":
            groups.append(([verb, base, _bytes(job.id), job.token, *words], [s]))
            continue
        most = words[1:2]  # of MFAIL: one for the whole call
        if (verb, base, most) not in open or len(open[verb, base, most][1]) == BATCH:
            open[verb, base, most] = ([verb, base, *most], [])
            groups.append(open[verb, base, most])
        command, group = open[verb, base, most]
        command += [_bytes(job.id), job.token, *words[:1], *words[2:]]
        group.append(s)
    return groups


def _check(result):
    """What a handler returns is not looked at, unless its work is not done with it."""
    if isinstance(result, BaseException):
        raise result
    if inspect.isawaitable(result) or inspect.isgenerator(result) or inspect.isasyncgen(result):
        if inspect.iscoroutine(result) or inspect.isgenerator(result):
            result.close()  # or Python warns of what was never awaited
        raise TypeError(f"the handler returned a {type(result).__name__}, which nobody waits for")


def _only(replies):
    [reply] = replies
    if isinstance(reply, Refused):
        raise reply
    return reply


def _why(status):
    return {0: "the job was removed", -2: "the job belongs to scripts"}.get(status, "the job is another worker's")


def _passes(reply):
    return isinstance(reply, Lost) or isinstance(reply, Refused) and reply.passes


def _status(reply):
    """The status of RELEASE, which has none of its own."""
    if not isinstance(reply, Refused):
        return 1
    return -2 if reply.code == "EMQSCRIPT" else 0 if "gone" in str(reply) else -1


def _tell(told):
    if not told.done():
        told.set_result(None)


def _reason(error):
    """The last error of a job: for errors of the handler's own with the end of the stack."""
    own = isinstance(error, (Dead, RetryIn, Cancelled))
    return _cut(own and _shown(str, error) or _shown(_stack, error))


def _stack(error):
    return "".join(traceback.format_exception(type(error), error, error.__traceback__ and (error.__traceback__.tb_next or error.__traceback__)))


def _shown(how, error):
    try:
        return how(error)
    except BaseException:  # the handler's text raises what it likes
        return f"{type(error).__name__}, which cannot be shown"


def _cut(text):
    text = text.encode(errors="replace")
    return text if len(text) <= REASON else text[:REASON // 4] + b" ... " + text[-(REASON - REASON // 4 - 5):]


def _line(reason):
    lines = reason if isinstance(reason, str) else reason.decode(errors="replace")
    return lines.strip().rsplit("\n", 1)[-1]


class _Signals:
    """SIGINT and SIGTERM stop all workers of the main thread, which share a loop; with the last of them what these did before comes back."""

    def __init__(self):
        self._workers, self._before, self._leaving = [], {}, None

    def catch(self, worker):
        self._workers.append(worker)
        for signum in (signal.SIGINT, signal.SIGTERM) if len(self._workers) == 1 else ():
            before = signal.getsignal(signum)
            try:
                worker._loop.add_signal_handler(signum, self._stop, worker._loop)
            except NotImplementedError:  # on Windows
                return
            self._before[signum] = before

    def _stop(self, loop):
        for worker in self._workers:
            worker._stopping.set()
        # Some runners send again what the terminal has sent; who does so later does not want to wait for the grace.
        self._leaving = self._leaving or loop.call_later(MOMENT, self._leave, loop)

    def _leave(self, loop):
        for signum in self._before:
            loop.remove_signal_handler(signum)

    def release(self, worker):
        self._workers.remove(worker)
        if self._workers:
            return
        if self._leaving:
            self._leaving.cancel()
        self._leave(worker._loop)
        for signum, before in self._before.items():
            signal.signal(signum, before)
        self._before, self._leaving = {}, None


_signals = _Signals()


class _Threads:
    """Threads that run handlers. They do not keep the process from ending, and live as long as the worker, so that what a library keeps for
    each thread is kept."""

    def __init__(self):
        self._threads, self._idle, self._calls = 0, 0, queue.SimpleQueue()

    def run(self, call, job):
        loop, future = asyncio.get_running_loop(), asyncio.get_running_loop().create_future()
        if self._idle:
            self._idle -= 1
        else:
            self._threads += 1
            threading.Thread(target=self._run, daemon=True, name=f"emq-{self._threads}").start()
        self._calls.put((loop, future, call, job))
        return future

    def _run(self):
        while (todo := self._calls.get()) is not None:
            loop, future, call, job = todo
            end = None
            try:
                _check(call(job))
            except BaseException as e:
                end = e
            try:
                loop.call_soon_threadsafe(self._ended, future, end)
            except RuntimeError:  # the loop is closed: the worker has ended without us
                return

    def _ended(self, future, end):
        self._idle += 1
        future.set_result(end)

    def end(self):
        for _ in range(self._threads):
            self._calls.put(None)
