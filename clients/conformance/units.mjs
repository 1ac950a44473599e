// What the Node package alone must keep, over EMQ_LIBRARY, with the server at EMQ_URL.
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { after, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import * as emq from '../node/index.js';
import { Pause } from '../node/lib/client.js';

const { default: library } = createRequire(new URL('../node/index.js', import.meta.url))(process.env.EMQ_LIBRARY);
const client = new emq.Client(process.env.EMQ_URL, { library, patience: 15_000 });
const quiet = { info() {}, warn() {}, error() {} };
after(() => client.close());

let queues = 0;
const fresh = options => new emq.Queue(client, `units ${process.pid} ${queues++}`, { failures: 1, ...options });

/** Runs a worker until something is so. */
async function work(queue, handler, until, options, how) {
  const worker = new emq.Worker(client, { signals: false, logger: quiet, ...options }).handle(queue, handler, how);
  const running = worker.run();
  running.catch(() => {});
  while (!until(await queue.stats())) await sleep(5);
  worker.stop();
  return running;
}

test('classes', () => {
  for (const [text, kind, passes] of [['EMQSTALE x', emq.Stale, false], ['EMQFENCE x', emq.Fence, false], ['OOM x', emq.Full, false],
    ['EMQKEY x', emq.Refused, false], ['LOADING x', emq.Refused, true], ['MASTERDOWN x', emq.Refused, true], ['MISCONF x', emq.Refused, true],
    ['BUSY x', emq.Refused, true]]) {
    const error = emq.Refused.of(text);
    assert.deepEqual([error.constructor, error.code, error.passes, error.message, error.name], [kind, text.split(' ')[0], passes, text, kind.name]);
  }
});

test('times', async () => {
  const queue = fresh();
  for (const delay of [-1, NaN, Infinity, null, '5', true, [], new Date(NaN)]) await assert.rejects(queue.enqueue(1, { delay }), RangeError);
  await assert.rejects(queue.enqueue(1, { delay: 1, at: 1 }), TypeError);
  for (const lease of [0, 0.5, NaN, null]) assert.throws(() => fresh({ lease }), RangeError);
  for (const options of [{ block: 0 }, { grace: -1 }]) assert.throws(() => new emq.Worker(client, options), RangeError);
  for (const how of [{ timeout: 0 }, { timeout: NaN }, { timeout: '9' }, { concurrency: 0 }, { concurrency: 1.5 }]) {
    assert.throws(() => new emq.Worker(client).handle(queue, () => {}, how), RangeError);
  }
  assert.throws(() => fresh({ failures: 0 }), RangeError);
  assert.equal((await queue.stats()).pending, 0);
});

test('times longer than a timer', async () => {
  const queue = fresh(), long = 2 ** 33;
  await queue.enqueue(1);
  let begun = false, told = 0;
  const report = await work(queue, async job => {
    begun = true;
    job.signal.onabort = () => { told++; };
    await sleep(300);
  }, () => begun, { grace: long, block: long }, { timeout: long });
  assert.deepEqual([report.completed, told], [1, 0]);
});

test('names and ids', async () => {
  for (const name of ['', 'a{', 'a}', 'a\0', '\ud800', 5, null, undefined, []]) assert.throws(() => new emq.Queue(client, name), TypeError);
  const queue = fresh();
  for (const id of ['JOBĀ', 5, null]) await assert.rejects(queue.remove('any', id), TypeError);
  await assert.rejects(queue.enqueue(1, { id: null }), TypeError);
});

test('values', async () => {
  const queue = fresh(), cycle = [];
  cycle.push(cycle);
  for (const value of [undefined, () => {}, Symbol('s'), 1n, cycle, { toJSON() { throw new TypeError('no'); } }]) await assert.rejects(queue.enqueue(value), TypeError);
  await assert.rejects(queue.enqueueMany([1, undefined]), TypeError);
  assert.equal((await queue.stats()).pending, 0);
});

test('ids that are minted', async () => {
  const minted = Array.from({ length: 10_000 }, emq.ids.mint);
  assert.deepEqual(minted, [...new Set(minted)].sort());
  assert.equal(emq.ids.created('JOB00000000000').toISOString(), '2024-01-01T00:00:00.000Z');
  const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz', lower = new Set();
  for (let i = 0; i < 20; i++) {
    await sleep(3); // so that it is more than others of its ms
    const before = Date.now(), id = emq.ids.mint(), created = Number(emq.ids.created(id));
    assert(before <= created && created <= Date.now(), `${id}: ${created}, not ${before}`);
    lower.add([...id.slice(3)].reduce((n, digit) => n * 62n + BigInt(digits.indexOf(digit)), 0n) % (1n << 22n));
  }
  assert.equal(lower.size, 20); // they begin at random in each ms
});

test('what is listed', async () => {
  const queue = fresh();
  await queue.enqueueMany([0, 1, 2]);
  const found = await queue.jobs('pending', { n: 2 });
  assert.deepEqual(found.map(j => j.value), [0, 1]);
  assert.deepEqual((await queue.jobs('pending', { after: found[1].id })).map(j => j.value), [2]);
  await queue.remove('any', found[1].id);
  await assert.rejects(queue.jobs('pending', { after: found[1].id }), RangeError);
});

test('pauses', () => {
  const pauses = Array.from({ length: 100 }, () => new Pause());
  for (const most of [50, 100, 200, 400, 800, 1000, 1000]) {
    const waits = pauses.map(pause => pause.next()), least = Math.min(...waits), longest = Math.max(...waits);
    assert(most / 2 <= least && least < longest && longest <= most, `${most}: ${waits}`);
  }
});

test('elsewhere', () => {
  const two = new emq.Client('valkey://a?addr=b');
  for (let i = 0; i < 2; i++) two.elsewhere(0); // two links that met the same
  assert.equal(two.servers[two.at].host, 'b');
});

test('a queue of another client', () => {
  assert.throws(() => new emq.Worker(process.env.EMQ_URL).handle(fresh(), () => {}), TypeError);
});

test('a worker runs once', async () => {
  const worker = new emq.Worker(client, { signals: false }).handle(fresh(), () => {}), running = worker.run();
  await assert.rejects(worker.run(), Error);
  worker.stop();
  await running;
  await assert.rejects(worker.run(), Error);
});

test('jobs that are done are forgotten', async () => {
  setFlagsFromString('--expose-gc');
  const gc = runInNewContext('gc'), queue = fresh(), jobs = [];
  await queue.enqueueMany(Array(200).fill(1));
  await work(queue, job => { jobs.push(new WeakRef(job)); }, stats => {
    gc();
    return stats.completed === 200 && jobs.filter(job => job.deref()).length <= 20;
  });
});

test('a logger that throws', async () => {
  const queue = fresh(), refuse = () => { throw new Error('no log today'); };
  await queue.enqueue(1);
  await assert.rejects(work(queue, () => { throw new Error('no'); }, stats => stats.dead, { logger: { info: refuse, warn: refuse, error: refuse } }), /no log today/);
});

test('a worker that is refused leaves no connection', async () => {
  const name = `refused-${process.pid}`;
  await client.call(['ACL', 'SETUSER', name, 'on', '>secret', 'resetkeys', '+client|id']);
  const { host } = new URL(process.env.EMQ_URL.replace('valkey', 'http')), its = new emq.Client(`valkey://${name}:secret@${host}`, { library });
  await assert.rejects(new emq.Worker(its, { signals: false, logger: quiet }).handle(new emq.Queue(its, 'q'), () => {}).run(), { code: 'NOPERM' });
  const there = async () => String((await client.call(['CLIENT', 'LIST'])).replies[0]).includes(`user=${name}`);
  for (const end = performance.now() + 10_000; await there();) assert(performance.now() < end);
});

test('two workers and signals', async () => {
  const queues = [fresh(), fresh()];
  for (const queue of queues) await queue.enqueue(1);
  let begun = 0, end;
  const ended = new Promise(ok => { end = ok; });
  const running = queues.map(queue => new emq.Worker(client).handle(queue, () => { begun++; return ended; }).run());
  while (begun < 2) await sleep(5);
  const seen = once(process, 'SIGTERM');
  for (let i = 0; i < 2; i++) { // as npm sends it once more
    process.kill(process.pid, 'SIGTERM');
    await seen;
  }
  for (const queue of queues) while ((await queue.stats()).waiting) await sleep(5);
  end();
  for (const report of await Promise.all(running)) assert.equal(report.completed, 1);
  assert.equal(process.listenerCount('SIGTERM'), 0);
});

test('many calls at once', async () => {
  const queue = fresh();
  await Promise.all(Array.from({ length: 1000 }, (_, i) => queue.enqueue(i)));
  assert.equal((await queue.stats()).pending, 1000);
});
