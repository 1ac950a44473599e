"""The same for asyncio: `await queue.enqueue(…)`, `await worker.run()`."""
from .queue import Queue
from .worker import Worker

__all__ = ["Queue", "Worker"]
