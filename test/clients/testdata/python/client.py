"""client.py LIBRARY DEED HOST PORT USER: does one thing with redis-py or valkey-py and says in a line of JSON what the
program that uses the client gets to see."""
import importlib
import json
import sys

library, deed, *server = sys.argv[1:]
module = importlib.import_module(library)
base, id = "emq:{mail}:", "JOB00000000001"
claim = ("EMQ.CLAIM", 2, base + "pending", base + "active", base + "job:", 30000)
enqueue = ("EMQ.ENQUEUE", 2, f"{base}job:{id}", base + "pending", id, "hello")
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


deeds = {
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
    if deed == "claim once":
        Retry = importlib.import_module(library + ".retry").Retry
        NoBackoff = importlib.import_module(library + ".backoff").NoBackoff
        settings["retry"] = Retry(NoBackoff(), 0)
    return (module.Redis if library == "redis" else module.Valkey)(host=host, port=int(port), **settings)


try:
    said = {"reply": module.__version__ if deed == "version" else shown(deeds[deed](connect(*server)))}
except Exception as e:
    said = {"error": str(e)}
print(json.dumps(said))
