// A queue, and what is said about it.
import { inspect } from 'node:util';
import { Client } from './client.js';
import * as ids from './ids.js';

export const BATCH = 100;
const STATES = { pending: 'pending', active: 'active', scheduled: 'schedule', dead: 'dead' };
const MOST = 2 ** 52 - 1;

/** Values as JSON in UTF-8, which every language reads. */
export const JSONs = {
  encode(value) {
    if (typeof value?.then === 'function') throw new TypeError('the value is a promise: await it'); // as JSON it is {}
    const text = JSON.stringify(value);
    if (text === undefined) throw new TypeError(`no JSON: ${inspect(value)}`);
    return Buffer.from(text);
  },
  decode: payload => JSON.parse(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(payload)),
};

/** Values that are bytes already: Buffers, or other Uint8Arrays. */
export const Bytes = {
  encode(value) {
    if (!(value instanceof Uint8Array)) throw new TypeError(`the queue's values are bytes, not ${typeof value}`);
    return Buffer.from(value);
  },
  decode: payload => payload,
};

/** A policy of retries: twice as long after each claim, from `first` to `most` ms, half of it by chance. */
export function exponential({ first = 1000, most = 3_600_000, factor = 2 } = {}) {
  return job => Math.min(most, first * factor ** (job.token - 1)) * (1 + Math.random()) / 2;
}

/**
 * A queue of jobs of one type, which `codec` makes bytes of. `lease` is how long a job stays with its worker without a sign of life; a
 * job is a dead letter after so many `failures`, and until then waits for as long as `backoff(job)` says.
 */
export class Queue {
  constructor(client, name, { codec = JSONs, lease = 30_000, failures = 25, backoff = exponential() } = {}) {
    if (typeof name !== 'string' || !name || /[{}\0]/.test(name) || !name.isWellFormed()) {
      throw new TypeError(`no name of a queue: ${inspect(name)}; it is a string, not empty, without braces and NUL`);
    }
    if (typeof codec?.encode !== 'function' || typeof codec.decode !== 'function') throw new TypeError(`no codec: ${inspect(codec)}; it has encode and decode`);
    if (typeof backoff !== 'function') throw new TypeError(`no backoff: ${inspect(backoff)}; it is a function of a job, such as emq.exponential()`);
    if (!Number.isInteger(failures) || failures < 1) throw new RangeError(`failures must be at least 1, not ${failures}`);
    this.client = client instanceof Client ? client : new Client(client);
    this.name = name;
    this.codec = codec;
    this.lease = ms(lease, 1);
    this.failures = failures;
    this.backoff = backoff;
    this.base = `emq:{${name}}:`;
  }

  async #ask(...command) {
    const { replies: [reply], again } = await this.client.call(command);
    return { reply, again };
  }

  /** Puts a job into the queue: now, in `delay` ms, or at a Date or Unix time in ms. Resolves to its id, and whether it was created. */
  async enqueue(value, { id: own, delay, at } = {}) {
    const payload = this.codec.encode(value), when = due(delay, at);
    for (let id = own === undefined ? ids.mint() : ids.check(own); ; id = ids.mint()) {
      const row = this.base + 'job:' + id;
      const { reply, again } = await (when
        ? this.#ask('EMQ.SCHEDULE', 2, row, this.base + 'schedule', id, payload, ...when)
        : this.#ask('EMQ.ENQUEUE', 2, row, this.base + 'pending', id, payload));
      // An id of ours that is there is the request before, or another process's.
      if (reply || own !== undefined || again) return { id, created: Boolean(reply) || own === undefined };
    }
  }

  /** Puts many jobs into the queue, in batches as the values come: any iterable or asynchronous one. */
  async enqueueMany(values, { delay, at } = {}) {
    const when = due(delay, at), sum = { created: 0, existed: 0 };
    for await (const batch of batches(values)) {
      let jobs = batch.map(value => [ids.mint(), this.codec.encode(value)]);
      while (jobs.length) {
        const words = jobs.flatMap(([id, payload]) => when ? [id, when[1], payload] : [id, payload]);
        const { reply, again } = await (when ? this.#ask('EMQ.MSCHEDULE', this.base, when[0], ...words) : this.#ask('EMQ.MENQUEUE', this.base, ...words));
        const there = again ? [] : jobs.filter((_, i) => !reply[i]);
        sum.created += jobs.length - there.length;
        jobs = there.map(([, payload]) => [ids.mint(), payload]);
      }
    }
    return sum;
  }

  /** Up to n jobs of a state, in the order of the queue, those that follow the job `after`. Needs the right to read: zrange, zrank, hmget. */
  async jobs(state, { after, n = 100 } = {}) {
    if (!Object.hasOwn(STATES, state)) throw new TypeError(`no state: ${state}; one of ${Object.keys(STATES).join(', ')}`);
    const key = this.base + STATES[state];
    let start = 0;
    if (after !== undefined) {
      const { reply: rank } = await this.#ask('ZRANK', key, bytes(after));
      if (rank === null) throw new RangeError(`${after} is no longer ${state}`);
      start = rank + 1;
    }
    const { reply: found } = await this.#ask('ZRANGE', key, start, start + n - 1, 'WITHSCORES');
    const listed = found.filter((_, i) => i % 2 === 0);
    if (!listed.length) return [];
    const { replies: rows } = await this.client.call(...listed.map(id =>
      ['HMGET', Buffer.concat([Buffer.from(this.base + 'job:'), id]), 'payload', 'attempts', 'failures', 'last_error']));
    return rows.map(([payload, token, failures, error], i) => {
      const id = name(listed[i]), score = Number(found[2 * i + 1]), { codec } = this;
      return {
        id, state, payload, token: Number(token), failures: Number(failures), lastError: error && String(error),
        at: score ? new Date(score) : null, created: ids.created(id), get value() { return codec.decode(payload); },
      };
    });
  }

  /** The queue's figures, by the names of EMQ.STATS. */
  async stats() {
    const { reply } = await this.#ask('EMQ.STATS', this.base);
    return Object.fromEntries(reply.flatMap((name, i) => i % 2 ? [] : [[String(name), reply[i + 1]]]));
  }

  /** Makes dead or scheduled jobs pending, now. Resolves to how many it did. */
  requeue(state, ...jobs) { return this.#operate('EMQ.REQUEUE', state, jobs); }

  /** Removes jobs that are in this state, or in `any`. A running one is thereby cancelled. Resolves to how many it did. */
  remove(state, ...jobs) { return this.#operate('EMQ.REMOVE', state, jobs); }

  async #operate(verb, state, jobs) {
    let done = 0;
    for (let i = 0; i < jobs.length; i += BATCH) {
      const { reply } = await this.#ask(verb, this.base, state, ...jobs.slice(i, i + BATCH).map(bytes));
      done += reply.filter(status => status === 1).length;
    }
    return done;
  }

  /** No job is claimed for so many ms; 0: until `resume`. */
  async pause(time = 0) { await this.#ask('EMQ.PAUSE', this.base, ms(time)); }

  /** Resolves to whether the queue was paused. */
  async resume() { return Boolean((await this.#ask('EMQ.RESUME', this.base)).reply); }

  /** At most so many jobs active at a time, and so many (`rate`) handed out within `per` ms; 0 for no limit. */
  async limit({ concurrency = 0, rate = 0, per = 0 } = {}) { await this.#ask('EMQ.LIMIT', this.base, concurrency, rate, ms(per)); }
}

/** A time as the verbs take it. */
export function ms(time, least = 0) {
  const n = time instanceof Date ? time.getTime() : time;
  if (typeof n !== 'number' || !(n >= least && n <= MOST)) throw new RangeError(`no time in ms: ${inspect(time)}; it is ${least} to ${MOST}`);
  return Math.round(n);
}

// An id is a string of ours and bytes to the server: one character for each byte, whoever made it.
export const name = id => id.toString('latin1');
export function bytes(id) {
  if (typeof id !== 'string' || /[^\0-\xff]/.test(id)) throw new TypeError(`no job id: ${inspect(id)}`);
  return Buffer.from(id, 'latin1');
}

function due(delay, at) {
  if (delay !== undefined && at !== undefined) throw new TypeError('either delay or at');
  return at !== undefined ? ['at', ms(at)] : delay !== undefined ? ['in', ms(delay)] : null;
}

async function* batches(values) {
  if (typeof values === 'string') throw new TypeError('values are an iterable of values, not a string'); // whose letters would do
  let batch = [];
  for await (const value of values) {
    if (batch.push(value) === BATCH) {
      yield batch;
      batch = [];
    }
  }
  if (batch.length) yield batch;
}
