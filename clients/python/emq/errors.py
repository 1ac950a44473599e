"""What the server refuses, what a handler may raise, and why a handler is told to end."""


class Error(Exception):
    """Anything that goes wrong here."""


class Unreachable(Error):
    """No server answered for as long as the client's patience lasts. Whether the last request was carried out is not known."""


class Refused(Error):
    """The server refused a command, and nothing was changed. `code` is the class of the refusal, such as EMQKEY or NOPERM."""

    code = "ERR"

    @staticmethod
    def of(code, text):
        kind = {"EMQSTALE": Stale, "EMQFENCE": Fence, "OOM": Full}.get(code, Refused)
        error = kind(text if text.startswith(code) else f"{code} {text}")
        error.code = code
        return error

    @property
    def passes(self):
        """Whether the same command may be accepted later, or by another server."""
        return self.code in _PASSING


_PASSING = {"READONLY", "LOADING", "UNBLOCKED", "MISCONF", "NOREPLICAS", "BUSY", "MASTERDOWN", "TRYAGAIN"}


class Stale(Refused):
    """The job is settled, or another worker's."""


class Fence(Refused):
    """The store belongs to another wire."""


class Full(Refused):
    """The server has no memory for another job."""


class Dead(Exception):
    """Raised by a handler: the job is a dead letter at once, with this reason."""


class Drop(Exception):
    """Raised by a handler: the job is done though its work is not; the reason goes to the log."""


class RetryIn(Exception):
    """Raised by a handler: the job failed, and is to be tried again in so many seconds."""

    def __init__(self, seconds, reason=""):
        super().__init__(reason)
        self.seconds = seconds


class Snooze(Exception):
    """Raised by a handler: the job is to come back in so many seconds, and no failure is counted."""

    def __init__(self, seconds):
        super().__init__(f"for {seconds} s")
        self.seconds = seconds


class Cancelled(Exception):
    """Why a handler is told to end before its work is done: `job.cancelled`, and what `job.check()` raises."""


class LeaseLost(Cancelled):
    """The job is another worker's, or was removed: whatever the handler does now, nothing is settled."""


class Stopping(Cancelled):
    """The worker stops and its grace is over: the job is given back, uncounted."""


class TimedOut(Cancelled):
    """The handler took longer than its timeout: a failure."""
