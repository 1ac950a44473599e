// driver.mjs iovalkey|ioredis: the driver of the Node package; README.md says what it does.
import { createRequire } from 'node:module';
import { readFileSync, writeSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import * as emq from '../../node/index.js';

const require = createRequire(new URL('../../node/index.js', import.meta.url));
const library = process.argv[2], { default: Redis } = require(library);

function say(what) {
  const line = Buffer.from(JSON.stringify(what) + '\n');
  for (let at = 0; at < line.length;) {
    try { at += writeSync(1, line, at); } catch (e) { if (e.code !== 'EAGAIN') throw e; }
  }
}
const shown = value => value instanceof Uint8Array ? { hex: Buffer.from(value).toString('hex') } : { value };
const given = words => 'hex' in words ? Buffer.from(words.hex, 'hex') : words.value;
const names = new Map([[emq.LeaseLost, 'lease lost'], [emq.Stopping, 'stopping'], [emq.TimedOut, 'timed out']]);
const ends = new Map();

const odd = [
  new Error('x'.repeat(1e6)), undefined, null, 0, '', false, NaN, Symbol('symbol'), Object.create(null), Object.freeze(new Error('frozen')), () => {},
  { get name() { throw this; }, get message() { throw this; }, get stack() { throw this; } },
];

async function handler(job) {
  say({ event: 'begin', id: job.id, token: job.token, created: job.created && job.created / 1000, ...shown(job.value) });
  let { then: how, take, wait, hang } = Object(job.value);
  const told = () => { const end = ends.get(job.id); ends.delete(job.id); return end; };
  try {
    if (take) await sleep(take, null, { signal: job.signal });
    while ((wait || hang) && !(how = told())) await sleep(5, null, { signal: job.signal });
  } catch (e) {
    say({ event: 'cancelled', id: job.id, why: names.get(job.signal.reason.constructor) });
    while (hang && !(how = told())) await sleep(5);
    throw e;
  }
  switch (how?.end) {
    case 'odd': throw odd[how.which % odd.length];
    case 'fail': throw new RangeError(how.text);
    case 'dead': throw new emq.Dead(how.text);
    case 'drop': throw new emq.Drop(how.text);
    case 'retry': throw new emq.RetryIn(how.in, how.text);
    case 'snooze': throw new emq.Snooze(how.in);
  }
}

const log = { info: text => process.stderr.write(`INFO ${text}\n`), warn: text => process.stderr.write(`WARNING ${text}\n`), error: text => process.stderr.write(`ERROR ${text}\n`) };
let client, queue, worker;

const deeds = {
  open({ url, queue: name, codec = 'json', lease = 30000, failures = 3, backoff, patience = 15000, borrow, ca }) {
    const where = borrow ? new Redis(url.replace('valkey', 'redis'), { lazyConnect: true, keyPrefix: 'app:', ...ca && { tls: { ca: readFileSync(ca) } } }) : url;
    client = new emq.Client(where, { library: Redis, patience });
    queue = new emq.Queue(client, name, { codec: { json: emq.JSON, bytes: emq.Bytes }[codec], lease, failures, ...backoff !== undefined && { backoff: () => backoff } });
  },
  enqueue: words => queue.enqueue(given(words), { id: words.id, delay: words.in, at: words.at }),
  enqueue_many: words => queue.enqueueMany(words.hexes?.map(hex => Buffer.from(hex, 'hex')) ?? words.values, { delay: words.in }),
  jobs: async ({ state, after, n }) => (await queue.jobs(state, { after, n }))
    .map(j => ({ id: j.id, token: j.token, failures: j.failures, error: j.lastError, ...shown(j.value) })),
  stats: () => queue.stats(),
  requeue: ({ state, ids }) => queue.requeue(state, ...ids),
  remove: ({ state, ids }) => queue.remove(state, ...ids),
  pause: ({ ms }) => queue.pause(ms),
  resume: () => queue.resume(),
  limit: words => queue.limit(words),
  work({ concurrency = 4, timeout, grace = 30000, block = 4000 }) {
    worker = new emq.Worker(client, { grace, block, signals: false, logger: log }).handle(queue, handler, { concurrency, timeout });
    worker.run().then(report => say({ event: 'stopped', report }), e => say({ event: 'stopped', error: failed(e) }));
  },
  stop: () => worker.stop(),
  finish({ id, how }) { ends.set(id, how); },
  backoff({ first, most, token }) {
    const policy = emq.exponential({ first, most }), waits = Array.from({ length: 1000 }, () => policy({ token }));
    return { least: Math.floor(Math.min(...waits)), most: Math.ceil(Math.max(...waits)) };
  },
  check: ({ id }) => { emq.ids.check(id); },
  version() {
    const entry = require.resolve(library), root = 'node_modules/' + library;
    return JSON.parse(readFileSync(entry.slice(0, entry.lastIndexOf(root) + root.length) + '/package.json')).version;
  },
};

const failed = e => ({ class: e.code ?? (e instanceof emq.Unreachable ? 'unreachable' : 'invalid'), text: e.message, type: e.constructor.name });

for await (const line of createInterface({ input: process.stdin })) {
  const { n, do: verb, ...words } = JSON.parse(line);
  try {
    say({ n, ok: await deeds[verb](words) ?? null });
  } catch (e) {
    say({ n, error: failed(e) });
  }
}
process.exit(0);
