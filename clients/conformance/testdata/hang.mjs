import * as emq from 'emq';

const queue = new emq.Queue(process.env.EMQ_URL, 'mail');
await queue.enqueue(1);
await new emq.Worker(queue.client, { grace: 3_600_000 }).handle(queue, () => {
  console.log('begun');
  return new Promise(() => {});
}, { concurrency: 2 }).run();
