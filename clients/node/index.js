// Queues and workers on EMQ, the job queue inside Valkey. Times are milliseconds.
export { Client } from './lib/client.js';
export * from './lib/errors.js';
export * as ids from './lib/ids.js';
export { Bytes, exponential, JSONs as JSON, Queue } from './lib/queue.js';
export { Worker } from './lib/worker.js';
