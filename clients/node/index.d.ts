// Queues and workers on EMQ, the job queue inside Valkey. Times are milliseconds.

/** The settings of a queue's codec: how values become bytes and back. */
export interface Codec<T> {
  encode(value: T): Uint8Array;
  decode(payload: Buffer): T;
}
declare const json: Codec<any>;
export { json as JSON };
export const Bytes: Codec<Uint8Array>;

/** The class Redis of ioredis or iovalkey, and an instance of it. */
export type Library = new (options: any) => RedisLike;
export interface RedisLike {
  duplicate(override?: any): RedisLike;
  callBuffer(command: string, ...words: any[]): Promise<any>;
}

export interface ClientOptions {
  /** The class Redis of either library; without it iovalkey is taken, or ioredis if that is not there. */
  library?: Library;
  /** How long a call on a queue goes on trying while no server takes it; 30 s by default. */
  patience?: number;
}

/** The servers of some queues: valkey://host:6379/0, with ?addr=host:port for each further one, and &master_set=name if they are Sentinels; or a client whose settings are taken. */
export class Client {
  constructor(where: string | RedisLike, options?: ClientOptions);
  /** Ends the connection, which is made anew when it is needed. While it is idle it doesn't keep the process alive. */
  close(): void;
}

/** How long, in ms, a job that failed waits for its next try. */
export type Backoff = (job: Job<any>) => number;
/** Twice as long after each claim, from `first` to `most`, half of it by chance. */
export function exponential(options?: { first?: number; most?: number; factor?: number }): Backoff;

export interface QueueOptions<T> {
  codec?: Codec<T>;
  /** How long a job stays with its worker without a sign of life; 30 s by default. */
  lease?: number;
  /** After so many failures a job is a dead letter; 25 by default. */
  failures?: number;
  backoff?: Backoff;
}

export interface When {
  /** In so many ms. */
  delay?: number;
  /** At a Date, or a Unix time in ms. */
  at?: Date | number;
}

export type State = 'pending' | 'active' | 'scheduled' | 'dead';

/** A job as it was when it was listed; `value` throws if the payload does not decode. */
export interface Listed<T> {
  readonly id: string;
  readonly state: State;
  readonly value: T;
  readonly payload: Buffer | null;
  readonly token: number;
  readonly failures: number;
  readonly lastError: string | null;
  /** When it is due, or its lease ends. */
  readonly at: Date | null;
  readonly created: Date | null;
}

export interface Stats {
  pending: number; active: number; scheduled: number; dead: number; completed: number; failed: number;
  oldest_pending_age_ms: number | null; next_due_ms: number | null; next_expiry_ms: number | null;
  waiting: number; paused: number; paused_until_ms: number | null;
  concurrency: number | null; rate_max: number | null; rate_duration_ms: number | null;
}

/** A queue of jobs of one type. */
export class Queue<T = any> {
  constructor(client: Client | string | RedisLike, name: string, options?: QueueOptions<T>);
  readonly name: string;
  /** `created` is false if a job of that id was there already. */
  enqueue(value: T, options?: When & { id?: string }): Promise<{ id: string; created: boolean }>;
  enqueueMany(values: Iterable<T> | AsyncIterable<T>, options?: When): Promise<{ created: number; existed: number }>;
  /** Up to n jobs, those that follow the job `after`. Needs the right to read: zrange, zrank, hmget. */
  jobs(state: State, options?: { after?: string; n?: number }): Promise<Listed<T>[]>;
  stats(): Promise<Stats>;
  requeue(state: 'dead' | 'scheduled', ...ids: string[]): Promise<number>;
  /** A job that is running is thereby cancelled. */
  remove(state: State | 'any', ...ids: string[]): Promise<number>;
  /** For so many ms, or until `resume`. */
  pause(time?: number): Promise<void>;
  resume(): Promise<boolean>;
  /** At most so many jobs active at a time, and so many (`rate`) handed out within `per` ms; 0 for no limit. */
  limit(options?: { concurrency?: number; rate?: number; per?: number }): Promise<void>;
}

/** A job in a handler's hands. */
export interface Job<T> {
  readonly queue: Queue<T>;
  readonly id: string;
  readonly value: T;
  readonly payload: Buffer;
  /** Grows with each claim: pass it on to cut off a late worker elsewhere too. */
  readonly token: number;
  readonly created: Date | null;
  /** Aborted with a LeaseLost, Stopping or TimedOut once the handler is to end. */
  readonly signal: AbortSignal;
}

export interface Logger {
  info(text: string): void;
  warn(text: string): void;
  error(text: string): void;
}

/** How many jobs ended how, as the server said. */
export interface Report {
  completed: number;
  /** Failed, and to be tried again. */
  retried: number;
  /** Failed, and dead. */
  died: number;
  snoozed: number;
  dropped: number;
  /** Given back as the worker stopped. */
  returned: number;
  /** Not settled by this worker. */
  lost: number;
}

export class Worker {
  constructor(client: Client | string | RedisLike, options?: {
    /** How long running handlers have once the worker stops; 20 s by default. */
    grace?: number;
    /** How long one claim waits in the server; 4 s by default. */
    block?: number;
    /** Whether SIGINT and SIGTERM stop it, and another one a second later or more ends the process; they do by default. */
    signals?: boolean;
    logger?: Logger;
  });
  /** Has so many jobs of the queue, which is of the worker's client, at most worked on at a time (10), each at most `timeout` ms. */
  handle<T>(queue: Queue<T>, handler: (job: Job<T>) => unknown, options?: { concurrency?: number; timeout?: number }): this;
  stop(): void;
  /** Works until it is stopped; rejects with what the server refuses for good. A worker runs once. */
  run(): Promise<Report>;
}

export class EMQError extends Error {}
/** No server answered for as long as the client's patience lasts. */
export class Unreachable extends EMQError {}
/** The server refused a command, and nothing was changed. */
export class Refused extends EMQError { readonly code: string }
export class Stale extends Refused {}
export class Fence extends Refused {}
export class Full extends Refused {}

/** Thrown by a handler: a dead letter at once. */
export class Dead extends EMQError {}
/** Thrown by a handler: done though its work is not; the reason goes to the log. */
export class Drop extends EMQError {}
/** Thrown by a handler: failed, to be tried again in so many ms. */
export class RetryIn extends EMQError { constructor(ms: number, reason?: string); readonly ms: number }
/** Thrown by a handler: to come back in so many ms, and no failure is counted. */
export class Snooze extends EMQError { constructor(ms: number); readonly ms: number }

/** The reason of a job's signal. */
export class Cancelled extends EMQError {}
export class LeaseLost extends Cancelled {}
export class Stopping extends Cancelled {}
export class TimedOut extends Cancelled {}

export namespace ids {
  /** A new canonical id. */
  function mint(): string;
  /** Throws unless the id is canonical; returns it. */
  function check(id: string): string;
  function created(id: string): Date | null;
}
