"""Canonical ids: JOB and 11 base-62 digits of a 63-bit snowflake, of which the bits from 22 up are ms since 2024-01-01 UTC."""
import os
import threading
import time

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_VALUE = {digit: value for value, digit in enumerate(_DIGITS)}
_SINCE = 1704067200000
_lock = threading.Lock()
_last = 0


def mint():
    """A new id, greater than all that this process minted before, wherever its clock was set."""
    global _last
    with _lock:
        # The low bits begin at random in each ms, so that processes meet rarely; an id that another process minted too is
        # found when it is sent, and replaced.
        now = int(time.time() * 1000) - _SINCE
        n = _last = max(_last + 1, now << 22 | int.from_bytes(os.urandom(3), "big") >> 2)
    if n >= 1 << 63:
        raise OverflowError("the clock is beyond what an id can hold")
    digits = []
    for _ in range(11):
        n, digit = divmod(n, 62)
        digits.append(_DIGITS[digit])
    return "JOB" + "".join(reversed(digits))


def check(id):
    """Raises a ValueError unless the id is canonical; returns it."""
    if _number(id) is None:
        raise ValueError(f"no canonical job id: {id!r}; it is JOB and 11 digits 0-9, A-Z, a-z of a number below 2^63")
    return id


def created(id):
    """When an id was minted, as a Unix time in seconds; None if it tells no time."""
    n = _number(id)
    return None if n is None else ((n >> 22) + _SINCE) / 1000


def _number(id):
    if not isinstance(id, str) or len(id) != 14 or not id.startswith("JOB"):
        return None
    n = 0
    for digit in id[3:]:
        if digit not in _VALUE:
            return None
        n = n * 62 + _VALUE[digit]
    return n if n < 1 << 63 else None
