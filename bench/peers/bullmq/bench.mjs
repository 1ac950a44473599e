// The peers that run in node: EMQ, by its verbs over ioredis and by its package, and BullMQ. The Go programs above start this,
// and read what it notes, as JSON: what rates and what latencies are is said there.
//
//   node bench.mjs verbs|emq|bullmq rates|latency '{"Socket": "/path", "Jobs": 20000, …}'

import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import * as bullmq from 'bullmq';
import * as emq from '../../../clients/node/index.js';

const [name, what, given] = process.argv.slice(2);
const load = JSON.parse(given);
const connect = () => new Redis({ path: load.Socket, maxRetriesPerRequest: null });
const text = 'x'.repeat(load.Payload - 2); // as JSON, in quotes

// Calls step, workers at a time and each after its last reply, until it answers false.
const inParallel = (step) =>
  Promise.all(Array.from({ length: load.Workers }, async () => { while (await step()); }));

const counted = async (from, to, each) => {
  let next = from;
  await inParallel(async () => {
    if (next >= to) return false;
    await each(next++);
    return true;
  });
};

// Notes what the server and this process say at both ends of a run.
const clocked = async (redis, run) => {
  const info = () => redis.info('cpu', 'stats', 'commandstats');
  const before = await info();
  const cpu = process.cpuUsage(), began = performance.now();
  await run();
  const seconds = (performance.now() - began) / 1000, used = process.cpuUsage(cpu);
  return { seconds, client_cpu_seconds: (used.user + used.system) / 1e6, before, after: await info() };
};

const expect = (what, got, wanted) => {
  if (got !== wanted) throw new Error(`${what} is ${got}, expected ${wanted}`);
};

// How a peer with a worker is used: enqueue(text) puts a job into the queue; work(begun) has a worker call begun(text) for
// each. Once all have begun, settled(n) resolves when the server was told of all n.
const queues = {
  async emq() {
    const client = new emq.Client('unix://' + load.Socket, { library: Redis });
    const queue = new emq.Queue(client, 'peers');
    return {
      enqueue: text => queue.enqueue(text),
      work(begun) {
        const worker = new emq.Worker(client).handle(queue, job => begun(job.value), { concurrency: load.Workers });
        const working = worker.run();
        return {
          async settled(n) {
            worker.stop();
            expect('the number of completed jobs', (await working).completed, n);
          },
          close() {
            worker.stop();
            return working;
          },
        };
      },
      close: () => client.close(),
    };
  },

  async bullmq() {
    const options = { connection: { path: load.Socket, maxRetriesPerRequest: null } };
    const queue = new bullmq.Queue('peers', { ...options, defaultJobOptions: { removeOnComplete: true } });
    await queue.waitUntilReady();
    return {
      enqueue: text => queue.add('job', text),
      work(begun) {
        let completed = 0, told = () => {};
        const worker = new bullmq.Worker('peers', async job => begun(job.data), { ...options, concurrency: load.Workers });
        worker.on('error', error => { throw error; });
        worker.on('completed', () => { completed++; told(); });
        return {
          async settled(n) {
            while (completed < n) await new Promise(resolve => { told = resolve; });
          },
          async close() {
            await worker.close();
            const left = await queue.getJobCounts('waiting', 'active', 'completed', 'failed');
            expect('what is left of the queue', JSON.stringify(Object.values(left)), '[0,0,0,0]');
          },
        };
      },
      close: () => queue.close(),
    };
  },
};

// A promise that is resolved from outside.
const promise = () => {
  let resolve;
  return { is: new Promise(r => { resolve = r; }), resolve };
};

async function rates(queue) {
  const redis = connect(), total = load.WarmUp + load.Jobs;
  await counted(0, load.WarmUp, () => queue.enqueue(text));
  const enqueue = await clocked(redis, () => counted(0, load.Jobs, () => queue.enqueue(text)));

  // The worker fetches by itself, so the clock runs from the job that ends the warm-up to the last one.
  const warm = promise(), last = promise();
  let begun = 0;
  const worker = queue.work(() => {
    begun++;
    if (begun === load.WarmUp) warm.resolve();
    if (begun === total) last.resolve();
  });
  await warm.is;
  const processing = await clocked(redis, async () => {
    await last.is;
    await worker.settled(total);
  });
  await worker.close();
  await redis.quit();
  return { enqueue, process: processing };
}

async function latency(queue) {
  const came = [];
  let wake = () => {};
  const worker = queue.work(sent => {
    came.push((performance.now() - Number(sent)) * 1000);
    wake();
  });
  const enqueue = () => queue.enqueue(String(performance.now()).padEnd(load.Payload - 2));
  const begun = async n => { while (came.length < n) await new Promise(resolve => { wake = resolve; }); };

  const oneByOne = async (jobs, limit) => {
    const micros = [];
    for (const end = performance.now() + limit; micros.length < jobs && performance.now() < end; micros.push(came.pop())) {
      await sleep(Math.random() * load.Pause / 1e6);
      await enqueue();
      await begun(1);
    }
    return micros;
  };
  const steadily = async (jobs) => {
    const start = performance.now(), calls = [];
    for (let n = 0; n < jobs; n++) {
      const due = start + n * 1000 / load.Rate;
      while (performance.now() < due) await sleep(1);
      calls.push(enqueue());
    }
    await Promise.all(calls);
    await begun(jobs);
    return came.slice(jobs / 10);
  };

  await oneByOne(load.Samples / 10, load.Limit / 5e6);
  const waiting = await oneByOne(load.Samples, load.Limit / 1e6);
  const steady = await steadily(Math.floor(load.Rate * load.Steady / 1e9));
  await worker.close();
  return { waiting, steady };
}

// EMQ's verbs alone: each worker claims a job, completes it, and goes on.
async function verbs() {
  const redis = connect();
  const base = 'emq:{peers}:';
  const payload = 'x'.repeat(load.Payload);
  const enqueue = (n) => {
    const id = 'JOB' + String(n).padStart(11, '0');
    return redis.call('EMQ.ENQUEUE', '2', `${base}job:${id}`, `${base}pending`, id, payload);
  };
  const work = async () => {
    const [id, , token] = await redis.call('EMQ.CLAIM', '2', `${base}pending`, `${base}active`, `${base}job:`, '30000');
    await redis.call('EMQ.COMPLETE', '2', `${base}active`, `${base}job:${id}`, id, token, base);
  };
  await counted(0, load.WarmUp, enqueue);
  const spans = { enqueue: await clocked(redis, () => counted(load.WarmUp, load.WarmUp + load.Jobs, enqueue)) };
  await counted(0, load.WarmUp, work);
  spans.process = await clocked(redis, () => counted(0, load.Jobs, work));
  expect('the number of completed jobs', Number(await redis.hget(`${base}metrics:completed`, 'count')), load.WarmUp + load.Jobs);
  await redis.quit();
  return spans;
}

const measured = async () => {
  if (name === 'verbs') return verbs();
  const queue = await queues[name]();
  const found = await { rates, latency }[what](queue);
  await queue.close();
  return found;
};
console.log(JSON.stringify(await measured()));
