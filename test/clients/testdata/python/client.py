"""client.py LIBRARY DEED HOST PORT USER: does one thing with redis-py or valkey-py and says in a line of JSON what the
program that uses the client gets to see."""
import asyncio
import importlib
import json
import sys
import threading

library, deed, *server = sys.argv[1:]
module = importlib.import_module(library)
base, id = "emq:{mail}:", "JOB00000000001"
claim = ("EMQ.CLAIM", 2, base + "pending", base + "active", base + "job:", 30000)
enqueue = ("EMQ.ENQUEUE", 2, f"{base}job:{id}", base + "pending", id, "hello")
right = deed.endswith(" right")  # with the page's settings for calls that wait
stale = ("EMQ.COMPLETE", 2, base + "active", f"{base}job:{id}", id, 99, base)


def shown(reply):
    if isinstance(reply, bytes):
        return reply.decode()
    if isinstance(reply, Exception):
        return {"error": str(reply)}
    return [shown(r) for r in reply] if isinstance(reply, list) else reply


def hex(job):
    payload = job[1] if isinstance(job[1], bytes) else job[1].encode()
    return [shown(job[0]), payload.hex(), job[2]]


def life(db):
    created = db.execute_command(*enqueue)
    job = db.execute_command(*claim)
    id, payload, token = job
    return [created, job, db.execute_command("EMQ.COMPLETE", 2, base + "active", base.encode() + b"job:" + id, id, token, base),
            db.execute_command(*claim)]


def queued(db, transaction, **how):
    p = db.pipeline(transaction=transaction)
    p.execute_command(*claim)
    p.execute_command(*stale)
    return p.execute(**how)


def waits(db, block):
    """What the test may see of a claim that waits lasts until the test is over."""
    try:
        return db.execute_command("EMQ.BCLAIM", 30000, block, base)
    finally:
        print("ended", flush=True)
        sys.stdin.read()


def beside(db):
    def other():
        sys.stdin.readline()
        db.execute_command(*enqueue)

    threading.Thread(target=other, daemon=True).start()
    return waits(db, 3000)


def cancelled(db):
    """The same in asyncio, and its task is cancelled."""
    async def main():
        lib = importlib.import_module(library + ".asyncio")
        own = (lib.Redis if library == "redis" else lib.Valkey)(**db.connection_pool.connection_kwargs)
        task = asyncio.create_task(own.execute_command("EMQ.BCLAIM", 30000, 0, base))
        await asyncio.to_thread(sys.stdin.readline)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            print("ended", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        raise Exception("cancelled")

    asyncio.run(main())


deeds = {
    "wait cancelled": cancelled,
    "wait 3000": lambda db: waits(db, 3000),
    "wait 12000": lambda db: waits(db, 12000),
    "wait 0": lambda db: waits(db, 0),
    "wait beside": beside,
    "wait given up": lambda db: waits(db, 0),
    "wait unblocked": lambda db: [db.client_id(), waits(db, 0), db.ping() and "PONG"],
    "life": life,
    "claim": lambda db: db.execute_command(*claim),
    "claim once": lambda db: db.execute_command(*claim),
    "settle stale": lambda db: db.execute_command(*stale),
    "claim text": lambda db: hex(db.execute_command(*claim)),
    "claim decoded": lambda db: hex(db.execute_command(*claim)),
    "claim in pipeline": lambda db: queued(db, False),
    "claim in multi": lambda db: queued(db, True),
    "claim in multi, rescued": lambda db: queued(db, True, raise_on_error=False),
}

def connect(host, port, user):
    settings = {"username": user, "password": "secret"} if user else {}
    if deed == "claim decoded":
        settings["decode_responses"] = True
    if deed == "wait given up":
        settings["socket_timeout"] = 0.5
    if deed == "wait unblocked right":
        settings["single_connection_client"] = True
    if deed == "claim once" or right:
        Retry = importlib.import_module(library + ".retry").Retry
        NoBackoff = importlib.import_module(library + ".backoff").NoBackoff
        settings["retry"] = Retry(NoBackoff(), 0)
    return (module.Redis if library == "redis" else module.Valkey)(host=host, port=int(port), **settings)


try:
    said = {"reply": module.__version__ if deed == "version" else shown(deeds[deed.removesuffix(" right")](connect(*server)))}
except Exception as e:
    said = {"error": str(e)}
print(json.dumps(said))
