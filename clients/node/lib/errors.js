// What the server refuses, what a handler may throw, and why a handler is told to end.

/** Anything that goes wrong here. */
export class EMQError extends Error {
  constructor(message, options) {
    super(message, options);
    this.name = this.constructor.name;
  }
}

/** No server answered for as long as the client's patience lasts. Whether the last request was carried out is not known. */
export class Unreachable extends EMQError {}

const passing = new Set(['READONLY', 'LOADING', 'UNBLOCKED', 'MISCONF', 'NOREPLICAS', 'BUSY', 'MASTERDOWN', 'TRYAGAIN']);

/** The server refused a command, and nothing was changed. `code` is the class of the refusal, such as EMQKEY or NOPERM. */
export class Refused extends EMQError {
  static of(text) {
    const code = /^[A-Z]+(?= |$)/.exec(text)?.[0] ?? 'ERR';
    return Object.assign(new ({ EMQSTALE: Stale, EMQFENCE: Fence, OOM: Full }[code] ?? Refused)(text), { code });
  }

  /** Whether the same command may be accepted later, or by another server. */
  get passes() { return passing.has(this.code) || this.message.startsWith('ERR max number of clients'); }
}

/** The job is settled, or another worker's. */
export class Stale extends Refused {}
/** The store belongs to another wire. */
export class Fence extends Refused {}
/** The server has no memory for another job. */
export class Full extends Refused {}

/** Thrown by a handler: the job is a dead letter at once, with this reason. */
export class Dead extends EMQError {}
/** Thrown by a handler: the job is done though its work is not; the reason goes to the log. */
export class Drop extends EMQError {}
/** Thrown by a handler: the job failed, and is to be tried again in so many ms. */
export class RetryIn extends EMQError {
  constructor(ms, reason = '') { super(reason); this.ms = ms; }
}
/** Thrown by a handler: the job is to come back in so many ms, and no failure is counted. */
export class Snooze extends EMQError {
  constructor(ms) { super(`for ${ms} ms`); this.ms = ms; }
}

/** Why a handler is told to end before its work is done: the reason of `job.signal`. */
export class Cancelled extends EMQError {}
/** The job is another worker's, or was removed: whatever the handler does now, nothing is settled. */
export class LeaseLost extends Cancelled {}
/** The worker stops and its grace is over: the job is given back, uncounted. */
export class Stopping extends Cancelled {}
/** The handler took longer than its timeout: a failure. */
export class TimedOut extends Cancelled {}
