"""Where the servers are, and connections to them on which nothing is ever sent twice unseen: of redis-py only its
connections are used, not its clients, which send a command again whose answer was lost."""
import asyncio
import inspect
import os
import queue
import random
import time
import weakref
from urllib.parse import parse_qs, unquote, urlsplit

import redis
import redis.asyncio.connection
import redis.connection

from .errors import Refused, Unreachable

# How long an answer may take; one that waits in the server has its waiting time besides.
ANSWER = 10.0
LINKS = 32  # connections at most for the calls of an event loop, or of all threads
_KEPT = {"db", "username", "password", "credential_provider", "client_name", "lib_name", "lib_version", "socket_connect_timeout",
         "socket_keepalive", "socket_keepalive_options"}


class Client:
    """The servers of some queues: a URL, or a client of redis-py whose settings are taken; its connections are not.

    valkey://user:password@host:6379/0       redis:// is the same; valkeys:// and rediss:// with TLS
    valkey://host1:6379?addr=host2:6379      a primary and its replicas: whichever is the primary
    valkey://host1:26379?addr=host2:26379&master_set=name     the primary of that name, as these Sentinels say
    unix:///path/to/socket?db=0

    `patience` is how many seconds a call on a queue goes on trying while no server takes it. One client may be used by all
    threads and event loops of a process.
    """

    def __init__(self, where, *, patience=30.0):
        self.patience = patience
        self.sentinel, self._asked = None, {}
        if isinstance(where, str):
            self._parse(where)
        elif hasattr(where, "connection_pool"):
            self._borrow(where.connection_pool)
        else:
            raise TypeError(f"neither the URL of a server nor a client of redis-py: {where!r}")
        self.at, self._pools, self._pid = 0, None, None

    def _parse(self, url):
        u, query = urlsplit(url), parse_qs(urlsplit(url).query)
        if u.scheme not in ("valkey", "valkeys", "redis", "rediss", "unix"):
            raise ValueError("no URL of a server: it begins with valkey://, valkeys://, redis://, rediss:// or unix://")
        db = query.get("db", [u.path.strip("/") if u.scheme != "unix" else ""])[-1] or "0"
        if not db.isdecimal():
            raise ValueError(f"no URL of a server: {db!r} is no number of a database")
        self.settings = {"db": int(db)}
        if u.username:
            self.settings["username"] = unquote(u.username)
        if u.password:
            self.settings["password"] = unquote(u.password)
        self.kind = {"unix": "unix", "valkeys": "tls", "rediss": "tls"}.get(u.scheme, "tcp")
        self.sentinel = query.get("master_set", [None])[-1]
        if self.kind == "unix":
            self.servers = [{"path": unquote(u.path)}]
        else:
            hosts = [u, *(urlsplit("//" + addr) for addr in query.get("addr", []))]
            self.servers = [{"host": h.hostname or "127.0.0.1", "port": h.port or (26379 if self.sentinel else 6379)} for h in hosts]

    def _borrow(self, pool):
        given = pool.connection_kwargs
        self.settings = _kept(given)
        self.kind = "unix" if "path" in given else "tls" if "SSL" in pool.connection_class.__name__ else "tcp"
        self.sentinel = getattr(pool, "service_name", None)
        if self.sentinel:
            asked = [s.connection_pool.connection_kwargs for s in pool.sentinel_manager.sentinels]
            self.servers = [{"host": a["host"], "port": a["port"]} for a in asked]
            self._asked = {name: value for name, value in _kept(asked[0]).items() if name != "db"}
        elif self.kind == "unix":
            self.servers = [{"path": given["path"]}]
        else:
            self.servers = [{"host": given.get("host", "localhost"), "port": given.get("port", 6379)}]

    async def address(self, side):
        """The server to try now."""
        server = self.servers[self.at % len(self.servers)]
        if not self.sentinel:
            return server
        link = Link(self, side, at=server)
        try:
            [found] = await link.call([("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.sentinel)])
        finally:
            await link.close()
        if not isinstance(found, list):
            raise found if isinstance(found, Refused) else Lost(f"the Sentinel at {server} knows no primary {self.sentinel!r}")
        return {"host": found[0].decode(), "port": int(found[1])}

    def elsewhere(self, tried):
        """A server is gone or no primary: the next one is tried, unless another link has found that out."""
        if self.at == tried:
            self.at += 1

    async def call(self, side, *commands):
        """What the server says to commands that are sent together and may be sent again; the first refusal is raised. Returns the replies,
        and whether they were sent again."""
        end, pause, again = time.monotonic() + self.patience, Pause(), False
        links = self._links(side)
        while True:
            link = await _now(links.get())
            try:
                replies = await link.call(commands)
                problem = next((r for r in replies if isinstance(r, Refused)), None)
            except Lost as e:
                problem, again = e, again or e.sent
            finally:
                links.put_nowait(link)
            if problem is None:
                return replies, again
            if isinstance(problem, Refused) and not problem.passes:
                raise problem
            if time.monotonic() > end:
                raise problem if isinstance(problem, Refused) else Unreachable(str(problem)) from None
            await side.sleep(pause.next())

    def _links(self, side):
        # Connections belong to an event loop, and to the process that made them.
        if self._pid != os.getpid():
            self._pools, self._pid = weakref.WeakKeyDictionary(), os.getpid()
        home = side.home()
        if home not in self._pools:
            links = side.pool()
            for _ in range(LINKS):
                links.put_nowait(Link(self, side))
            self._pools.setdefault(home, links)
        return self._pools[home]

    async def _drop(self, side):
        links, idle = self._links(side), []
        while not links.empty():
            idle.append(await _now(links.get()))
        for link in idle:
            await link.close()
            links.put_nowait(link)

    def close(self):
        """Closes the idle connections of all threads; `aclose` those of the running event loop. They are made anew when they are needed."""
        in_one_step(self._drop(Blocking))

    async def aclose(self):
        await self._drop(Looping)


def _kept(given):
    # What is not set is left out: the two sides do not know the same names.
    return {name: value for name, value in given.items()
            if value is not None and (name in _KEPT or name.startswith("ssl_") and "ocsp" not in name)}


class Lost(Exception):
    """A connection failed. `sent`: the commands may have been carried out."""

    def __init__(self, why, sent=False):
        super().__init__(str(why) or type(why).__name__)
        self.sent = sent


class Pause:
    """How long to wait before the next try: longer each time, up to a second, and never in step with others."""

    def __init__(self):
        self._most, self.begun = 0.025, False

    def next(self):
        self._most, self.begun = min(self._most * 2, 1.0), True
        return random.uniform(self._most / 2, self._most)


class Link:
    """A connection for one call at a time, which is made when it is needed. A call is answered, or ends the connection; so does a refusal that
    another server may not have."""

    def __init__(self, client, side, at=None, named=False):
        self._client, self._side, self._at, self._named = client, side, at, named
        self._connection, self._tried = None, client.at
        self.id = None  # the server's, if `named`

    async def call(self, commands, timeout=ANSWER):
        """The replies, a Refused among them where the server refuses. Raises Lost."""
        sent = False
        try:
            if self._connection is None:
                await self._side.within(min(timeout, ANSWER), self._connect())
            sent = True
            replies = await self._side.within(timeout, self._exchange(commands))
        except BaseException as e:
            await self.close()
            if isinstance(e, Refused):  # of what the connection began with
                replies = [e] * len(commands)
            elif isinstance(e, (Lost, redis.RedisError, OSError, asyncio.TimeoutError, EOFError)):
                self._client.elsewhere(self._tried)
                raise Lost(e, sent) from e
            else:
                raise
        if any(isinstance(r, Refused) and r.passes for r in replies):
            await self.close()
            self._client.elsewhere(self._tried)
        return replies

    async def _connect(self):
        client, side, at = self._client, self._side, self._at
        self._tried = client.at
        settings = client._asked if at else client.settings
        kind = "tcp" if at and client.kind == "unix" else client.kind
        if at is None:
            at = await client.address(side)
        connection = self._connection = side.kinds[kind](**settings, **at, socket_timeout=side.answer)
        try:
            await _now(connection.connect())
        except redis.RedisError as e:
            raise refusal(e) or e
        if self._named:  # without the right to ask, the id stays unknown
            [id] = await self._exchange([("CLIENT", "ID")])
            self.id = id if isinstance(id, int) else None

    async def _exchange(self, commands):
        connection = self._connection
        await _now(connection.send_packed_command(connection.pack_commands(commands)))
        replies = []
        for _ in commands:
            try:
                replies.append(await _now(connection.read_response()))
            except redis.RedisError as e:
                said = refusal(e)
                if said is None:
                    raise
                replies.append(said)
        return replies

    async def close(self):
        connection, self._connection, self.id = self._connection, None, None
        if connection is not None:
            try:  # not for long: asyncio first sends what is left
                await self._side.within(1.0, _now(connection.disconnect()))
            except Exception:  # it is over either way
                pass


async def _now(result):
    """One text for both sides of redis-py: an awaitable is awaited, any other result is there already."""
    return await result if inspect.isawaitable(result) else result


def refusal(e):
    """The server's words, of which redis-py takes the class away where it has a type for it; None if e is no refusal."""
    for kind, code in _CODES:
        if isinstance(e, kind):
            return Refused.of(code, str(e))
    if not isinstance(e, redis.ResponseError):
        return None
    word = str(e).split(" ", 1)[0]
    return Refused.of(word if word.startswith("EMQ") or word in _CLASSES else "ERR", str(e))


_CLASSES = {"WRONGTYPE", "MISCONF", "NOREPLICAS", "UNBLOCKED", "BUSY", "OOM", "WRONGPASS", "NOAUTH", "MASTERDOWN", "TRYAGAIN"}
_CODES = [(getattr(redis.exceptions, name), code) for name, code in (
    ("AuthenticationError", "NOAUTH"), ("NoPermissionError", "NOPERM"), ("ReadOnlyError", "READONLY"), ("BusyLoadingError", "LOADING"),
    ("OutOfMemoryError", "OOM"), ("TryAgainError", "TRYAGAIN"), ("MasterDownError", "MASTERDOWN")) if hasattr(redis.exceptions, name)]


def in_one_step(coroutine):
    """Runs a coroutine of the side of threads, which never waits for an event loop: its first step is its last."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise TypeError("what waits for an event loop is for emq.aio")


class Blocking:
    """The side of threads."""

    kinds = {"tcp": redis.connection.Connection, "tls": redis.connection.SSLConnection, "unix": redis.connection.UnixDomainSocketConnection}
    answer, pool = ANSWER, queue.LifoQueue

    @classmethod
    def home(cls):
        return cls

    @staticmethod
    async def within(seconds, coroutine):
        return await coroutine  # the socket has the timeout

    @staticmethod
    async def sleep(seconds):
        time.sleep(seconds)


class Looping:
    """The side of asyncio."""

    kinds = {"tcp": redis.asyncio.connection.Connection, "tls": redis.asyncio.connection.SSLConnection,
             "unix": redis.asyncio.connection.UnixDomainSocketConnection}
    answer, pool = None, asyncio.LifoQueue
    home, sleep = staticmethod(asyncio.get_running_loop), staticmethod(asyncio.sleep)

    @staticmethod
    async def within(seconds, coroutine):
        return await asyncio.wait_for(coroutine, seconds)
