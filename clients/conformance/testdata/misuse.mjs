// What a newcomer gets wrong is refused with words that help, and costs no job.
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import * as emq from 'emq';

const client = new emq.Client(process.env.EMQ_URL);
const queue = new emq.Queue(client, 'mail'), other = new emq.Queue(client, 'other');
const worker = new emq.Worker(client).handle(other, () => {});

for (const [text, call] of [
  ['it begins with valkey://', () => new emq.Client('127.0.0.1:6379')],
  ['it begins with valkey://', () => new emq.Client('http://:secret@127.0.0.1')],
  ["'/x' is no number of a database", () => new emq.Client('valkey://:secret@127.0.0.1/x')],
  ['neither the URL of a server nor a client of ioredis or iovalkey: undefined', () => new emq.Client(process.env.EMQ_NOT_THERE)],
  ["no name of a queue: 'emq:{mail}:'", () => new emq.Queue(client, 'emq:{mail}:')],
  ['no name of a queue: undefined', () => new emq.Queue(client)],
  ['no time in ms: 0; it is 1 to', () => new emq.Queue(client, 'mail', { lease: 0 })],
  ['no backoff: 3', () => new emq.Queue(client, 'mail', { backoff: 3 })],
  ["no codec: 'json'", () => new emq.Queue(client, 'mail', { codec: 'json' })],
  ['no time in ms: -1', () => queue.enqueue(1, { delay: -1 })],
  ['the value is a promise: await it', () => queue.enqueue(Promise.resolve(1))],
  ['no JSON: undefined', () => queue.enqueue(undefined)],
  ['not a string', () => queue.enqueueMany('ann')],
  ["no job id: [ 'JOB00000000001' ]", () => queue.requeue('dead', ['JOB00000000001'])],
  ["no queue: 'mail'", () => worker.handle('mail', () => {})],
  ['no handler: undefined', () => worker.handle(queue)],
  ["queue 'other' has a handler already", () => worker.handle(other, () => {})],
  ["no time in ms: 'x'", () => worker.handle(queue, () => {}, { timeout: 'x' })],
  ['no queue to handle', () => new emq.Worker(client).run()],
]) {
  await assert.rejects(async () => call(), e => e.message.includes(text) && !e.message.includes('secret'), text);
}
assert.equal((await queue.stats()).pending, 0, 'what was refused changed nothing');

/** What a worker made of a job, once it is neither pending nor in hand. */
async function report(handler) {
  const worker = new emq.Worker(client).handle(queue, handler);
  await queue.enqueue(1);
  const running = worker.run();
  for (let end = Date.now() + 30_000, s; s = await queue.stats(), Date.now() < end && (s.pending || s.active);) await sleep(10);
  worker.stop();
  const said = await running;
  await assert.rejects(worker.run(), /runs once/);
  for (const state of ['scheduled', 'dead']) await queue.remove(state, ...(await queue.jobs(state)).map(job => job.id));
  return said;
}
for (const [handler, end] of [
  [() => new emq.Dead('no address'), 'died'],
  [async () => new Error('busy'), 'retried'],
  [() => true, 'completed'],
]) {
  const said = await report(handler);
  assert.equal(said[end], 1, `${end}: ${JSON.stringify(said)}`);
}

let tries = 0;
class Nowhere extends emq.Client {
  elsewhere() { if (++tries === 5) lost.stop(); }
}
const lines = [], note = line => lines.push(line);
const nowhere = new Nowhere('valkey://127.0.0.1:1'), lost = new emq.Worker(nowhere, { logger: { info: note, warn: note, error: note } });
lost.handle(new emq.Queue(nowhere, 'mail'), () => {});
await lost.run();
assert.equal(lines.length, 1, `said once: ${lines}`);
assert.match(lines[0], /no claim on mail for now/);
// The client is not closed, and the process ends nevertheless.
