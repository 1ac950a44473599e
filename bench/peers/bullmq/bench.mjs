// The peers that run in node: EMQ by ioredis, and BullMQ. Each enqueues jobs with as many producers as there will be
// workers, and then processes them; main.go starts this and reads the figures, as JSON.
//
//   node bench.mjs EMQ|BullMQ SOCKET JOBS WARMUP WORKERS PAYLOAD

import { Redis } from 'ioredis';
import { Queue, Worker } from 'bullmq';

const [name, path, ...numbers] = process.argv.slice(2);
const [jobs, warmUp, workers, payloadBytes] = numbers.map(Number);
const connect = () => new Redis({ path, maxRetriesPerRequest: null });

// Calls step, workers at a time and each after its last reply, until it answers false.
const inParallel = (step) =>
  Promise.all(Array.from({ length: workers }, async () => { while (await step()); }));

const counted = async (from, to, each) => {
  let next = from;
  await inParallel(async () => {
    if (next >= to) return false;
    await each(next++);
    return true;
  });
};

const clocked = async (redis, run) => {
  const cpu = async () => [...(await redis.info('cpu')).matchAll(/^used_cpu_(?:user|sys):([\d.]+)/gm)]
    .reduce((sum, [, seconds]) => sum + Number(seconds), 0);
  const cpuBefore = await cpu();
  const began = performance.now();
  await run();
  const seconds = (performance.now() - began) / 1000;
  return { seconds, cpu_seconds: (await cpu()) - cpuBefore };
};

const expect = (what, got, wanted) => {
  if (got !== wanted) throw new Error(`${what} is ${got}, expected ${wanted}`);
};

async function emq() {
  const redis = connect();
  const base = 'emq:{peers}:';
  const payload = 'x'.repeat(payloadBytes);
  const enqueue = (n) => {
    const id = 'JOB' + String(n).padStart(11, '0');
    return redis.call('EMQ.ENQUEUE', '2', `${base}job:${id}`, `${base}pending`, id, payload);
  };
  const work = async () => {
    const [id, , token] = await redis.call('EMQ.CLAIM', '2', `${base}pending`, `${base}active`, `${base}job:`, '30000');
    await redis.call('EMQ.COMPLETE', '2', `${base}active`, `${base}job:${id}`, id, token, base);
  };
  await counted(0, warmUp, enqueue);
  const figures = { enqueue: await clocked(redis, () => counted(warmUp, warmUp + jobs, enqueue)) };
  await counted(0, warmUp, work);
  figures.process = await clocked(redis, () => counted(0, jobs, work));
  expect('the number of completed jobs', Number(await redis.hget(`${base}metrics:completed`, 'count')), warmUp + jobs);
  await redis.quit();
  return figures;
}

async function bullmq() {
  const redis = connect();
  const options = { connection: { path, maxRetriesPerRequest: null } };
  const queue = new Queue('peers', { ...options, defaultJobOptions: { removeOnComplete: true } });
  const payload = 'x'.repeat(payloadBytes - 2); // as JSON, in quotes
  const add = () => queue.add('job', payload);
  await queue.waitUntilReady();
  await counted(0, warmUp, add);
  const figures = { enqueue: await clocked(redis, () => counted(warmUp, warmUp + jobs, add)) };

  // The worker fetches by itself, so the clock runs from the job that ends the warm-up to the last one.
  let done = 0;
  let warm, last;
  const isWarm = new Promise((resolve) => { warm = resolve; });
  const isDone = new Promise((resolve) => { last = resolve; });
  const worker = new Worker('peers', async () => {}, { ...options, concurrency: workers });
  worker.on('error', (error) => { throw error; });
  worker.on('completed', () => {
    done++;
    if (done === warmUp) warm();
    if (done === warmUp + jobs) last();
  });
  await isWarm;
  figures.process = await clocked(redis, () => isDone);
  const left = await queue.getJobCounts('waiting', 'active', 'completed', 'failed');
  expect('what is left of the queue', JSON.stringify(Object.values(left)), '[0,0,0,0]');
  await worker.close();
  await queue.close();
  await redis.quit();
  return figures;
}

const run = { EMQ: emq, BullMQ: bullmq }[name];
console.log(JSON.stringify(await run()));
