"""What the Python package alone must keep, with the server at EMQ_URL."""
import asyncio
import gc
import logging
import multiprocessing
import os
import signal
import threading
import time
import unittest
import weakref

import emq

URL = os.environ["EMQ_URL"]
logging.getLogger("emq").setLevel(logging.CRITICAL)


class Units(unittest.TestCase):
    def setUp(self):
        self.client = emq.Client(URL, patience=15)
        self.addCleanup(self.client.close)
        self.name = f"{self.id()} {os.getpid()}"
        self.queue = emq.Queue(self.client, self.name, failures=1)

    def pending(self):
        return self.queue.stats()["pending"]

    def work(self, handler, until, **options):
        """Runs a worker until something is so."""
        worker = emq.Worker(self.client, signals=False, **options)
        worker.handle(self.queue, handler)

        def stop():
            while not until(self.queue.stats()):
                time.sleep(0.01)
            worker.stop()
        threading.Thread(target=stop, daemon=True).start()
        return worker.run()

    def test_classes(self):
        for text, kind, passes in (("EMQSTALE x", emq.Stale, False), ("EMQFENCE x", emq.Fence, False), ("OOM x", emq.Full, False),
                                   ("EMQKEY x", emq.Refused, False), ("LOADING x", emq.Refused, True), ("MASTERDOWN x", emq.Refused, True),
                                   ("MISCONF x", emq.Refused, True), ("BUSY x", emq.Refused, True)):
            error = emq.Refused.of(text.split()[0], text)
            self.assertEqual((type(error), error.code, error.passes, str(error)), (kind, text.split()[0], passes, text))

    def test_times(self):
        for time_ in (-1, float("nan"), float("inf"), 1e300):
            with self.assertRaises(ValueError):
                self.queue.enqueue(1, delay=time_)
        for lease in (0, 0.0001, float("nan")):
            with self.assertRaises(ValueError):
                emq.Queue(self.client, "q", lease=lease)
        with self.assertRaises(ValueError):
            self.queue.enqueue(1, delay=1, at=1)
        with self.assertRaises(ValueError):
            emq.Worker(self.client, block=0)
        for options in ({"timeout": 0}, {"timeout": -1}, {"timeout": float("nan")}, {"concurrency": 0}):
            with self.assertRaises(ValueError):
                emq.Worker(self.client).handle(self.queue, print, **options)
        with self.assertRaises(ValueError):
            emq.Queue(self.client, "q", failures=0)
        self.assertEqual(self.pending(), 0)

    def test_values(self):
        cycle = []
        cycle.append(cycle)
        for value in (float("nan"), [float("-inf")], "\ud800", cycle, {1, 2}, b"bytes", object()):
            with self.assertRaises((TypeError, ValueError)):
                self.queue.enqueue(value)
        with self.assertRaises(TypeError):
            self.queue.enqueue_many([1, object()])
        self.assertEqual(self.pending(), 0)

    def test_ids(self):
        minted = [emq.ids.mint() for _ in range(10000)]
        self.assertEqual(minted, sorted(set(minted)))
        self.assertEqual(emq.ids.created("JOB00000000000"), 1704067200)
        lower = set()
        for _ in range(20):
            id, before, after = mint_later()
            self.assertTrue(int(before * 1000) <= round(emq.ids.created(id) * 1000) <= after * 1000, (id, before, after))
            lower.add(emq.ids._number(id) % (1 << 22))
        self.assertEqual(len(lower), 20)  # they begin at random in each ms

    def test_listed(self):
        self.queue.enqueue_many(range(3))
        found = self.queue.jobs("pending", n=2)
        self.assertEqual([j.value for j in found], [0, 1])
        self.assertEqual([j.value for j in self.queue.jobs("pending", after=found[1].id)], [2])
        self.queue.remove("any", found[1].id)
        with self.assertRaises(LookupError):
            self.queue.jobs("pending", after=found[1].id)

    def test_pauses(self):
        pauses = [emq.client.Pause() for _ in range(100)]
        for most in (0.05, 0.1, 0.2, 0.4, 0.8, 1, 1, 1):
            waits = [pause.next() for pause in pauses]
            self.assertTrue(most / 2 <= min(waits) < max(waits) <= most, (most, waits))

    def test_elsewhere(self):
        client = emq.Client("valkey://a?addr=b")
        self.assertEqual(client.servers[client.at]["host"], "a")
        for _ in range(2):  # two links that met the same
            client.elsewhere(0)
        self.assertEqual(client.servers[client.at]["host"], "b")

    def test_queue_of_another_client(self):
        with self.assertRaises(ValueError):
            emq.Worker(URL).handle(self.queue, print)

    def test_async_iterable_for_threads(self):
        async def values():
            await asyncio.sleep(0)
            yield 1
        with self.assertRaises(TypeError):
            self.queue.enqueue_many(values())
        self.assertEqual(self.pending(), 0)

    def test_handler_that_only_returns_a_coroutine(self):
        async def work(job):
            pass
        self.queue.enqueue(1)
        report = self.work(lambda job: work(job), lambda stats: stats["dead"])
        self.assertEqual((report.completed, report.died), (0, 1))

    def test_object_whose_call_is_a_coroutine(self):
        done = []

        class Handler:
            async def __call__(self, job):
                await asyncio.sleep(0)
                done.append(job.value)
        self.queue.enqueue(1)
        self.assertEqual((self.work(Handler(), lambda stats: stats["completed"]).completed, done), (1, [1]))

    def test_logger_that_raises(self):
        def refuse(record):
            raise OSError("no log today")
        logger = logging.Logger("refuses")
        logger.addFilter(refuse)
        self.queue.enqueue(1)
        with self.assertRaises(OSError):
            self.work(lambda job: 1 / 0, lambda stats: stats["dead"], logger=logger)

    def test_jobs_that_are_done_are_forgotten(self):
        jobs = []
        self.queue.enqueue_many(range(200))

        def forgotten(stats):
            gc.collect()
            return stats["completed"] == 200 and sum(job() is not None for job in jobs) <= 20  # a thread may hold its last
        self.work(lambda job: jobs.append(weakref.ref(job)), forgotten)

    def test_fork(self):
        self.queue.enqueue_many(range(10))
        children = [multiprocessing.get_context("fork").Process(target=self.enqueue_some) for _ in range(4)]
        for child in children:
            child.start()
        self.enqueue_some()
        for child in children:
            child.join(30)
        self.assertEqual(([child.exitcode for child in children], self.pending()), ([0] * 4, 260))

    def enqueue_some(self):
        for n in range(50):
            assert self.queue.enqueue(n).created
            mark = f"{os.getpid()} {n}".encode()
            assert emq.client.in_one_step(self.client.call(emq.client.Blocking, ("ECHO", mark))) == ([mark], False)

    def test_two_workers_and_a_signal(self):
        async def run():
            workers = []
            for n in range(2):
                queue = emq.aio.Queue(self.client, f"{self.name} {n}")
                worker = emq.aio.Worker(self.client)
                worker.handle(queue, asyncio.sleep)
                workers.append((queue, worker, asyncio.ensure_future(worker.run())))
            for queue, *_ in workers:
                while not (await queue.stats())["waiting"]:
                    await asyncio.sleep(0.01)
            for _ in range(2):  # as some runners send it once more
                os.kill(os.getpid(), signal.SIGTERM)
                while not all(worker._stopping.is_set() for _, worker, _ in workers):
                    await asyncio.sleep(0)
            await asyncio.wait_for(asyncio.gather(*(running for *_, running in workers)), 30)
            await self.client.aclose()
        before = signal.signal(signal.SIGTERM, lambda *_: self.fail("not caught"))
        mine = signal.getsignal(signal.SIGTERM)
        self.addCleanup(signal.signal, signal.SIGTERM, before)
        asyncio.run(run())
        self.assertIs(signal.getsignal(signal.SIGTERM), mine)

    def test_worker_that_runs_already(self):
        async def run():
            worker = emq.aio.Worker(self.client, signals=False)
            worker.handle(emq.aio.Queue(self.client, self.name), asyncio.sleep)
            running = asyncio.ensure_future(worker.run())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            with self.assertRaises(RuntimeError):
                await worker.run()
            worker.stop()
            await running
            worker.stop()
            await worker.run()  # one after the other is fine
        asyncio.run(run())

    def test_calls_share_connections(self):
        async def run():
            queue = emq.aio.Queue(self.client, self.name)
            await asyncio.gather(*(queue.enqueue(n) for n in range(1000)))
            [clients], _ = await self.client.call(emq.client.Looping, ("CLIENT", "LIST"))
            await self.client.aclose()
            return clients.count(b"\n")
        self.assertLess(asyncio.run(run()), 60)
        self.assertEqual(self.pending(), 1000)

    def test_call_that_is_cancelled(self):
        async def run():
            queue = emq.aio.Queue(self.client, self.name)
            for n in range(50):
                call = asyncio.ensure_future(queue.enqueue("x" * 100000))
                for _ in range(n):
                    await asyncio.sleep(0)
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
                self.assertIn("pending", await queue.stats())  # and not an answer to the call before
            await self.client.aclose()
        asyncio.run(run())

    def test_run_that_is_cancelled(self):
        async def run():
            queue, worker = emq.aio.Queue(self.client, self.name), emq.aio.Worker(self.client, signals=False, grace=0)
            begun = asyncio.Event()

            async def handler(job):
                begun.set()
                await asyncio.sleep(3600)
            worker.handle(queue, handler)
            await queue.enqueue(1)

            outer = asyncio.ensure_future(asyncio.wait_for(worker.run(), 3600))
            await begun.wait()
            outer.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await outer
            self.assertEqual((worker.report.returned, worker.report.lost), (1, 0))
            await self.client.aclose()
        asyncio.run(run())
        self.assertEqual(self.pending(), 1)


def mint_later():
    """An id, when it is no more than others of its ms, with the times before and after."""
    time.sleep(0.003)
    before = time.time()
    return emq.ids.mint(), before, time.time()


if __name__ == "__main__":
    unittest.main()
