// A worker: claims jobs when a handler is free, keeps their leases, and tells the server how they ended.
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { ANSWER, Client, Link, LONGEST, passes, Pause } from './client.js';
import { Cancelled, Dead, Drop, Fence, LeaseLost, Refused, RetryIn, Snooze, Stopping, TimedOut } from './errors.js';
import * as ids from './ids.js';
import { BATCH, bytes, ms, name, Queue } from './queue.js';

const MOMENT = 1000; // what a handler that was told to end has for it
const REASON = 4096; // bytes of a reason that are kept

/** A job in a handler's hands. `token` grows with each claim: pass it on to cut off a late worker elsewhere too. */
class Job {
  #controller = null; // most handlers never ask for the signal

  constructor(queue, id, payload, token, granted) {
    Object.assign(this, { queue, id: name(id), payload, token, created: ids.created(name(id)) });
    const held = { since: granted, done: false, told: null, wake: () => {} };
    held.cancel = why => {
      held.told ??= why;
      this.#controller?.abort(why);
      held.wake();
    };
    Object.defineProperty(this, 'held', { value: held });
  }

  /** Aborted with a LeaseLost, Stopping or TimedOut once the handler is to end. */
  get signal() {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.held.told) this.#controller.abort(this.held.told);
    }
    return this.#controller.signal;
  }
}

const of = job => `${job.queue.name} ${job.id}`;
const until = job => job.held.since + job.queue.lease;

/**
 * `grace` is how long running handlers have once the worker stops, `block` how long one claim waits in the server. SIGINT and SIGTERM stop
 * it, unless `signals` is false, and another one a second later or more ends the process. `logger` has info, warn and error.
 */
export class Worker {
  #handles = [];
  #hand = new Set();
  #tasks = new Set();
  #unsettled = [];
  #flushing = false;
  #stopping = new AbortController();
  #fatal = null;
  #control;
  #shortest; // of the leases
  #answer; // how long an answer to what the worker says of its jobs may take
  #report = { completed: 0, retried: 0, died: 0, snoozed: 0, dropped: 0, returned: 0, lost: 0 };

  constructor(client, { grace = 20_000, block = 4000, signals = true, logger = console } = {}) {
    this.client = client instanceof Client ? client : new Client(client);
    Object.assign(this, { grace: ms(grace), block: ms(block, 1), signals, log: logger });
  }

  /**
   * Has so many jobs of the queue, which is of the worker's client, at most worked on at a time, each at most `timeout` ms. If the handler
   * resolves, the job is done; if it rejects, the job failed, unless with a Dead, RetryIn, Snooze or Drop. It should look at `job.signal`.
   */
  handle(queue, handler, { concurrency = 10, timeout } = {}) {
    if (!(Number.isInteger(concurrency) && concurrency >= 1)) throw new RangeError(`concurrency must be at least 1, not ${concurrency}`);
    if (!(queue instanceof Queue)) throw new TypeError(`no queue: ${inspect(queue)}`);
    if (queue.client !== this.client) throw new TypeError(`queue ${inspect(queue.name)} is another client's`);
    if (typeof handler !== 'function') throw new TypeError(`no handler: ${inspect(handler)}; it is a function of a job`);
    if (this.#handles.some(h => h.queue.base === queue.base)) throw new TypeError(`queue ${inspect(queue.name)} has a handler already`);
    this.#handles.push({ queue, handler, free: concurrency, timeout: timeout === undefined ? timeout : ms(timeout, 1), freed: null });
    return this;
  }

  /** Claims nothing more, and ends `run` when what is running is over. */
  stop() { this.#stopping.abort(); }

  /** Works until it is stopped, and resolves to what it did; rejects with what the server refuses for good, such as Fence or missing rights. */
  async run() {
    if (!this.#handles.length) throw new TypeError('the worker has no queue to handle');
    if (this.#control) throw new TypeError('a worker runs once');
    const caught = this.signals ? ['SIGINT', 'SIGTERM'] : [], stopped = this.#stopping.signal;
    const release = () => { for (const signal of caught) process.off(signal, stop); };
    const stop = () => {
      this.stop();
      setTimeout(release, MOMENT).unref(); // npm sends again what the terminal has sent; who does so later does not want to wait for the grace
    };
    for (const signal of caught) process.on(signal, stop);
    const beating = new AbortController();
    this.#control = new Link(this.client);
    this.#shortest = Math.min(30_000, ...this.#handles.map(h => h.queue.lease));
    this.#answer = Math.min(ANSWER, Math.max(1000, this.#shortest / 3));
    try {
      const beat = this.#guard(this.#beat(beating.signal));
      await Promise.all(this.#handles.map(h => this.#guard(this.#claim(h, stopped))));
      await Promise.race([this.#idle(), sleep(this.#fatal instanceof Fence ? 0 : Math.min(this.grace, LONGEST), null, { signal: beating.signal }).catch(() => {})]);
      for (const job of this.#hand) job.held.cancel(new Stopping('the worker stops'));
      await this.#idle();
      beating.abort();
      await beat;
    } finally {
      beating.abort();
      this.#control.close();
      release();
    }
    if (this.#fatal) throw this.#fatal;
    return this.#report;
  }

  async #idle() { while (this.#tasks.size) await Promise.all(this.#tasks); }

  async #guard(promise) {
    try { await promise; } catch (e) { this.#end(e); } // a fault of ours: the worker stops with it
  }

  #end(why) {
    this.stop();
    if (this.#fatal) return;
    this.#fatal = why;
    try { this.log.error(`the worker stops: ${why.message}`); } catch {} // it may be the logger that failed
  }

  // Claims: no more than there are free slots. BCLAIM waits for the first job, MCLAIM fills the rest.

  async #claim(h, stopped) {
    const link = new Link(this.client);
    try {
      await this.#claimOn(link, h, stopped);
    } finally {
      link.close();
    }
  }

  async #claimOn(link, h, stopped) {
    let pause = new Pause(), waits = true;
    for (;;) {
      await turn(); // all that get free in it are filled by one claim
      if (stopped.aborted) break;
      if (!h.free) {
        await unless(stopped, new Promise(freed => { h.freed = freed; }));
        continue;
      }
      try {
        if (waits || h.free === 1) {
          const job = await this.#waitForJob(link, h, stopped);
          // The lease began when the job was handed over, which was just now.
          this.#begin(h, job.length ? [job.slice(1)] : [], performance.now());
          waits = !job.length;
        } else {
          const sent = performance.now(), asked = Math.min(h.free, BATCH);
          const jobs = await one(link, ['EMQ.MCLAIM', h.queue.base, h.queue.lease, asked]);
          this.#begin(h, jobs, sent);
          waits = jobs.length < asked;
        }
        pause = new Pause();
      } catch (e) {
        // A job whose grant was lost on the way is leased to nobody, and comes back by its lease.
        if (!passes(e)) throw e;
        if (!pause.begun) this.log.warn(`no claim on ${h.queue.name} for now; trying again: ${e.message}`); // said once, until it is over
        await pause.wait(stopped);
      }
    }
  }

  /** A BCLAIM. It is never just left: CLIENT UNBLOCK ends it, and its answer is read. */
  async #waitForJob(link, h, stopped) {
    let done = false;
    const claim = one(link, ['EMQ.BCLAIM', h.queue.lease, this.block, h.queue.base], this.block + ANSWER).finally(() => { done = true; });
    await unless(stopped, claim);
    while (!done) {
      if (link.id !== null) { // without the right to know it, or to unblock, the claim's own time ends it
        const [said] = await this.#control.call([['CLIENT', 'UNBLOCK', link.id]]).catch(e => [e]);
        if (said instanceof Refused) link.id = null;
      }
      await Promise.race([claim, sleep(50)]); // again: it may not have begun to wait
    }
    return claim;
  }

  #begin(h, jobs, granted) {
    for (const [id, payload, token] of jobs) {
      const job = new Job(h.queue, id, payload, token, granted);
      this.#hand.add(job);
      h.free--;
      const task = this.#guard(this.#work(h, job)).then(() => this.#tasks.delete(task));
      this.#tasks.add(task);
    }
  }

  #free(h) {
    h.free++;
    h.freed?.();
  }

  // Handlers, and what their ends mean.

  async #work(h, job) {
    if (this.#stopping.signal.aborted) { // granted to a claim that was on its way
      await this.#settle(job, 'returned', 0);
      return this.#free(h);
    }
    try {
      job.value = h.queue.codec.decode(job.payload);
    } catch (e) {
      await this.#settle(job, 'failed', 0, 1, cut(`the payload does not decode: ${said(e)}`));
      return this.#free(h);
    }
    let end = null; // once the handler has ended
    const running = Promise.resolve(job).then(h.handler).then( // an error that was returned was to be thrown
      result => { end = result instanceof Error ? { error: result } : {}; }, error => { end = { error: error || new Error(String(error)) }; });
    running.then(() => this.#free(h));
    const timer = h.timeout <= LONGEST && setTimeout(() => job.held.cancel(new TimedOut(`not done within ${h.timeout} ms`)), h.timeout);
    await new Promise(resume => { // with the handler, or once it is to end
      running.then(job.held.wake = resume);
    });
    clearTimeout(timer);
    if (!end) {
      const moment = new AbortController();
      await Promise.race([running, sleep(MOMENT, null, moment).catch(() => {})]);
      moment.abort();
    }
    job.held.done = true;
    let settlement;
    try {
      settlement = ended(job, end);
    } catch (e) { // a time that is none, or a policy that throws
      settlement = ['failed', 1000, job.queue.failures, reason(e)];
    }
    if (settlement) await this.#settle(job, ...settlement);
    else this.#lose(job, `lost: ${job.held.told.message}`);
    if (settlement?.[0] === 'dropped') this.log.warn(`${of(job)}: dropped: ${said(end.error)}`);
    if (!end) this.log.warn(`${of(job)}: the handler goes on though it was told to end: ${job.held.told.message}`);
  }

  // Heartbeats: one loop for all jobs in hand, at a third of their leases.

  async #beat(stopped) {
    let extending = false;
    while (!stopped.aborted) {
      await sleep(this.#shortest / 50, null, { signal: stopped }).catch(() => {});
      const now = performance.now(), due = new Map();
      for (const job of this.#hand) {
        if (now >= until(job)) {
          job.held.cancel(new LeaseLost('the lease is over, and no server was reached to extend it'));
        } else if (now >= job.held.since + job.queue.lease / 3 && !job.held.done) {
          if (!due.get(job.queue)?.push(job)) due.set(job.queue, [job]);
        }
      }
      if (due.size && !extending) { // beside the loop: leases end while an answer is waited for, too
        extending = true;
        this.#guard(this.#extend(due)).then(() => { extending = false; });
      }
    }
  }

  async #extend(due) {
    for (const [queue, jobs] of due) {
      for (let some; (some = jobs.splice(0, BATCH)).length;) {
        const sent = performance.now();
        let statuses;
        try {
          statuses = await one(this.#control, ['EMQ.MEXTEND', queue.base, queue.lease, ...some.flatMap(job => [bytes(job.id), job.token])], this.#answer);
        } catch (e) {
          if (!passes(e)) throw e;
          return this.log.info(`leases of ${queue.name} not extended for now: ${e.message}`);
        }
        some.forEach((job, i) => {
          if (statuses[i] === 1) job.held.since = sent;
          else if (!job.held.done) job.held.cancel(new LeaseLost(why(statuses[i])));
        });
      }
    }
  }

  // Settlements: sent at once, and together while others are under way.

  /** `end` is the report's word for it, or failed; `words` are what the verb takes besides. */
  async #settle(job, end, ...words) {
    await new Promise(told => {
      this.#unsettled.push({ job, end, words, told });
      if (!this.#flushing) this.#guard(this.#flush());
    });
    this.#hand.delete(job);
  }

  async #flush() {
    this.#flushing = true;
    let pause = new Pause();
    const again = new Set();
    while (this.#unsettled.length) {
      await turn(); // the handlers that end in it are settled together
      const batch = this.#unsettled.splice(0);
      try {
        if (await this.#tellServer(batch, again)) pause = new Pause();
        else await pause.wait();
      } catch (e) { // a fault of ours, or of the logger: nobody waits for these in vain
        for (const s of batch) s.told();
        this.#end(e);
      }
    }
    this.#flushing = false;
  }

  /** Whether the server took them all; what it did not, or may not have, is unsettled as before. */
  async #tellServer(batch, again) {
    const groups = grouped(batch), unsent = [];
    const replies = await this.#control.call(groups.map(g => g.command), this.#answer).catch(e => {
      if (e.sent) batch.forEach(s => again.add(s.job));
      if (!passes(e)) throw e;
      return groups.map(() => e);
    });
    groups.forEach(({ group }, i) => {
      const reply = replies[i];
      if (passes(reply)) {
        unsent.push(...group);
      } else if (reply instanceof Refused && !['EMQSTALE', 'EMQSCRIPT'].includes(reply.code)) {
        this.#end(reply);
        this.#leave(group);
      } else {
        const statuses = Array.isArray(reply) ? reply : [status(reply)];
        group.forEach((s, j) => {
          this.#note(s, statuses[j], again.delete(s.job));
          s.told();
        });
      }
    });
    const problem = replies.find(passes);
    if (problem) {
      this.log.info(`not settled for now: ${problem.message}`);
      const now = performance.now();
      this.#leave(unsent.filter(s => until(s.job) <= now));
      this.#unsettled.unshift(...unsent.filter(s => until(s.job) > now));
    }
    return !problem;
  }

  /** The lease ends by itself, and the job comes back. */
  #leave(settlements) {
    for (const { job, end, told } of settlements) {
      this.#lose(job, `${end}, which no server was told while the lease lasted`);
      told();
    }
  }

  #lose(job, how) {
    this.#hand.delete(job);
    this.#report.lost++;
    this.log.warn(`${of(job)}: ${how}`);
  }

  #note({ job, end, words }, status, again) {
    if (status !== 1 && status !== 2 && !(again && status !== -2)) { // again: the settlement before was carried out
      return this.#lose(job, `${end}, which came to nothing: ${why(status)}`);
    }
    if (end === 'failed') {
      end = status === 2 || words[1] === 1 ? 'died' : 'retried';
      if (end === 'died') this.log.error(`${of(job)}: dead: ${line(words[2])}`);
      else this.log.info(`${of(job)}: failed, to be tried again in ${words[0]} ms: ${line(words[2])}`);
    }
    this.#report[end]++;
  }
}

/** How a job is settled whose handler ended, or was given up. */
function ended(job, end) {
  const { told } = job.held;
  if (told instanceof LeaseLost) return null;
  let error = end ? end.error : told;
  if (told && (error instanceof Cancelled || error?.name === 'AbortError')) error = told;
  if (!error) return ['completed'];
  if (error instanceof Drop) return ['dropped'];
  if (error instanceof Snooze) return ['snoozed', ms(error.ms)];
  if (error instanceof Dead) return ['failed', 0, 1, reason(error)];
  if (error instanceof RetryIn) return ['failed', ms(error.ms), job.queue.failures, reason(error)];
  if (told instanceof Stopping) return ['returned', 0];
  return ['failed', ms(job.queue.backoff(job)), job.queue.failures, reason(error)];
}

const verbs = { completed: 'EMQ.MCOMPLETE', dropped: 'EMQ.MCOMPLETE', failed: 'EMQ.MFAIL', snoozed: 'EMQ.RELEASE', returned: 'EMQ.RELEASE' };

/** The commands that settle these, each with those that it settles. */
function grouped(settlements) {
  const groups = [], open = new Map();
  for (const s of settlements) {
    const { job: { queue: { base }, id, token }, words } = s, verb = verbs[s.end];
    if (verb === 'EMQ.RELEASE') {
      groups.push({ command: [verb, base, bytes(id), token, ...words], group: [s] });
      continue;
    }
    const most = words.slice(1, 2), key = [verb, base, ...most].join(); // of MFAIL: one for the whole call
    if (!(open.get(key)?.group.length < BATCH)) {
      open.set(key, { command: [verb, base, ...most], group: [] });
      groups.push(open.get(key));
    }
    open.get(key).command.push(bytes(id), token, ...words.slice(0, 1), ...words.slice(2));
    open.get(key).group.push(s);
  }
  return groups;
}

async function one(link, command, timeout) {
  const [reply] = await link.call([command], timeout);
  if (reply instanceof Refused) throw reply;
  return reply;
}

/** The status of RELEASE, which has none of its own. */
function status(reply) {
  if (!(reply instanceof Refused)) return 1;
  return reply.code === 'EMQSCRIPT' ? -2 : reply.message.includes('gone') ? 0 : -1;
}

const why = status => ({ '0': 'the job was removed', '-2': 'the job belongs to scripts' })[status] ?? "the job is another worker's";
const line = reason => String(reason).trim().split('\n')[0];

/** The last error of a job: for errors of the handler's own with the stack. */
function reason(error) {
  const own = error instanceof Dead || error instanceof RetryIn || error instanceof Cancelled;
  return cut(said(error, own && error.message ? 'message' : 'stack'));
}

/** What an error says, which may be one that cannot. */
function said(error, what = 'message') {
  try {
    return String(error[what] || error);
  } catch {
    return 'an error that cannot be shown';
  }
}

const cut = text => Buffer.from(text).subarray(0, REASON);

/** The end of this turn of the event loop, when all that is resolved in it has gone on. */
const turn = () => new Promise(process.nextTick);

/** Resolves with the promise, or once the signal is aborted, and leaves nothing behind on the signal. */
function unless(signal, promise) {
  return new Promise((ok, no) => {
    if (signal.aborted) return ok();
    signal.addEventListener('abort', ok, { once: true });
    promise.then(ok, no).finally(() => signal.removeEventListener('abort', ok));
  });
}
