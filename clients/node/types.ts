// What the types promise; it is compiled by the tests, and never run.
import { Redis } from 'ioredis';
import * as emq from 'emq';

const client = new emq.Client(new Redis(), { patience: 1000 });
const mail = new emq.Queue<{ to: string }>(client, 'mail', { lease: 1000, backoff: emq.exponential({ first: 10 }) });
const { id, created }: { id: string; created: boolean } = await mail.enqueue({ to: 'ann' }, { at: new Date(), id: emq.ids.mint() });
await mail.enqueueMany((function* () { yield { to: 'bob' }; })());
// @ts-expect-error: a value of another type
await mail.enqueue({ from: 'ann' });
// @ts-expect-error: no state
await mail.requeue('active', id);

new emq.Worker(client, { grace: 1 }).handle(mail, async job => {
  job.signal.throwIfAborted();
  const to: string = job.value.to;
  throw new emq.RetryIn(1000, `${to}, ${created}`);
}, { concurrency: 3, timeout: 10 });
const raw: emq.Queue<Uint8Array> = new emq.Queue('valkey://127.0.0.1', 'raw', { codec: emq.Bytes });
for (const job of await raw.jobs('dead', { n: 3 })) console.log(job.value.byteLength, job.lastError?.length);
