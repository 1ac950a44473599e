"""Queues and workers on EMQ, the job queue inside Valkey. `emq.aio` has the same for asyncio."""
import asyncio
import functools

from . import aio, ids
from .client import Blocking, Client, in_one_step
from .errors import (Cancelled, Dead, Drop, Error, Fence, Full, LeaseLost, Refused, RetryIn, Snooze, Stale, Stopping, TimedOut,
                     Unreachable)
from .queue import JSON, Bytes, Listed, Receipt, Sum, exponential
from .worker import Job, Report

__all__ = ["Bytes", "Cancelled", "Client", "Dead", "Drop", "Error", "Fence", "Full", "JSON", "Job", "LeaseLost", "Listed", "Queue", "Receipt",
           "Refused", "Report", "RetryIn", "Snooze", "Stale", "Stopping", "Sum", "TimedOut", "Unreachable", "Worker", "aio", "exponential", "ids"]


class Queue(aio.Queue):
    __doc__ = aio.Queue.__doc__
    side = Blocking


def _blocking(method):
    @functools.wraps(method)
    def call(*args, **options):
        return in_one_step(method(*args, **options))
    return call


for _name in ("enqueue", "enqueue_many", "jobs", "stats", "requeue", "remove", "pause", "resume", "limit"):
    setattr(Queue, _name, _blocking(getattr(aio.Queue, _name)))


class Worker(aio.Worker):
    __doc__ = aio.Worker.__doc__

    def run(self):
        return asyncio.run(super().run())
    run.__doc__ = aio.Worker.run.__doc__
