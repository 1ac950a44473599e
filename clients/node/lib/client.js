// Where the servers are, and connections to them on which nothing is ever sent twice unseen: ioredis and iovalkey send a
// command again whose answer was lost, unless their connection is never made anew.
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { Refused, Unreachable } from './errors.js';

/** How long an answer may take; one that waits in the server has its waiting time besides. */
export const ANSWER = 10_000;
/** The longest that a timer can wait; a longer one would not wait at all. */
export const LONGEST = 2 ** 31 - 1;

/**
 * The servers of some queues: a URL, or a client of ioredis or iovalkey, whose settings are taken; its connection is not.
 *
 *   valkey://user:password@host:6379/0                redis:// is the same; valkeys:// and rediss:// with TLS
 *   valkey://host1:6379?addr=host2:6379               a primary and its replicas: whichever is the primary
 *   valkey://host1:26379?addr=host2:26379&master_set=name     the primary of that name, as these Sentinels say
 *   unix:///path/to/socket?db=0
 *
 * `library` is the class Redis of either library; without it iovalkey is taken, or ioredis if that is not there.
 * `patience` is how long a call on a queue goes on trying while no server takes it.
 */
export class Client {
  at = 0;
  #link = new Link(this);
  #make = null; // a client of the library, from its settings

  constructor(where, { library, patience = 30_000 } = {}) {
    this.patience = patience;
    this.library = library;
    if (typeof where === 'string') {
      this.servers = parse(where);
    } else {
      if (typeof where?.duplicate !== 'function') throw new TypeError(`neither the URL of a server nor a client of ioredis or iovalkey: ${inspect(where)}`);
      this.servers = [{}];
      this.#make = settings => where.duplicate(settings);
    }
  }

  /** A client of the library for the server to try now, not yet connected. */
  async redis() {
    if (!this.#make) {
      const Redis = this.library ?? (await import('iovalkey').catch(() => import('ioredis'))).default;
      this.#make = settings => new Redis(settings);
    }
    return this.#make({
      ...this.servers[this.at % this.servers.length],
      lazyConnect: true, retryStrategy: null, sentinelRetryStrategy: null, reconnectOnError: null, maxRetriesPerRequest: null,
      enableReadyCheck: false, enableOfflineQueue: true, enableAutoPipelining: false, keyPrefix: '', stringNumbers: false,
      commandTimeout: undefined, socketTimeout: undefined, blockingTimeout: undefined, protocol: 2,
      scripts: undefined,
    });
  }

  /** A server is gone or no primary: the next one is tried, unless another link has found that out. */
  elsewhere(tried) { if (this.at === tried) this.at++; }

  /**
   * What the server says to commands that are sent together and may be sent again; the first refusal is thrown. Resolves to the replies, and
   * whether they were sent again.
   */
  async call(...commands) {
    const end = performance.now() + this.patience, pause = new Pause();
    for (let again = false; ;) {
      let problem;
      try {
        const replies = await this.#link.call(commands);
        problem = replies.find(r => r instanceof Refused);
        if (!problem) return { replies, again };
      } catch (e) {
        problem = e;
        again ||= e.sent;
      }
      if (!passes(problem)) throw problem;
      if (performance.now() > end) throw problem instanceof Refused ? problem : new Unreachable(problem.message);
      await pause.wait();
    }
  }

  /** Ends the connection, which is made anew when it is needed. While it is idle it doesn't keep the process alive. */
  close() { this.#link.close(); }
}

function parse(url) {
  const parts = /^(valkeys?|rediss?|unix):\/\/(?:([^:@/]*)(?::([^@/]*))?@)?([^/?]*)([^?]*)(?:\?(.*))?$/.exec(url);
  if (!parts) throw new TypeError('no URL of a server: it begins with valkey://, valkeys://, redis://, rediss:// or unix://');
  const [, scheme, user, password, hosts, path, query] = parts, options = new URLSearchParams(query), name = options.get('master_set');
  const settings = {
    db: Number(options.get('db') ?? (scheme === 'unix' ? 0 : path.slice(1) || 0)),
    ...user && { username: decodeURIComponent(user) }, ...password && { password: decodeURIComponent(password) },
    ...scheme.endsWith('s') && scheme !== 'redis' && { tls: {} },
  };
  if (!Number.isInteger(settings.db)) throw new TypeError(`no URL of a server: ${inspect(path)} is no number of a database`);
  if (scheme === 'unix') return [{ ...settings, path: decodeURIComponent(path) }];
  const servers = [hosts, ...options.getAll('addr')].map(text => {
    const [, host, port] = /^(\[.*\]|[^:]*)(?::(\d+))?$/.exec(text) ?? [];
    if (host === undefined) throw new TypeError(`no URL of a server: ${inspect(text)} is no host and port`);
    return { host: host.replace(/^\[|\]$/g, '') || '127.0.0.1', port: Number(port ?? (name ? 26379 : 6379)) };
  });
  return name ? [{ ...settings, sentinels: servers, name }] : servers.map(server => ({ ...settings, ...server }));
}

/** A connection failed. `sent`: the commands may have been carried out. */
export class Lost extends Error {
  constructor(cause, sent) {
    super(cause.message || String(cause), { cause });
    this.sent = sent;
  }
}

/** Whether what failed so may do on another connection. */
export const passes = problem => problem instanceof Lost || problem instanceof Refused && problem.passes;

/** How long to wait before the next try: longer each time, up to a second, and never in step with others. */
export class Pause {
  #most = 25;
  begun = false;
  next() {
    this.begun = true;
    this.#most = Math.min(this.#most * 2, 1000);
    return this.#most * (1 + Math.random()) / 2;
  }
  wait(signal) { return sleep(this.next(), null, { signal }).catch(() => {}); }
}

/**
 * A connection that is made when it is needed. With it all that waits for an answer ends: where one is late, and where a refusal came that
 * another server may not have.
 */
export class Link {
  #client;
  #ready = null;
  #redis = null;
  #tried = 0;
  #calls = 0; // that wait for an answer; without any, the connection does not keep the process alive
  id = null; // the server's; null without the right to ask

  constructor(client) { this.#client = client; }

  /** The replies, a Refused among them where the server refuses. Throws Lost. */
  async call(commands, timeout = ANSWER) {
    const ready = this.#ready ??= this.#connect(Math.min(timeout, ANSWER));
    let sent = false, replies;
    try {
      const redis = await ready;
      sent = true;
      replies = await this.#ask(redis, commands, timeout);
    } catch (e) {
      if (!(e instanceof Refused)) {
        this.#end(this.#ready === ready);
        throw new Lost(e, sent);
      }
      replies = commands.map(() => e); // of what the connection began with
    }
    if (!sent || replies.some(r => r instanceof Refused && r.passes)) this.#end(this.#ready === ready);
    return replies;
  }

  async #ask(redis, commands, timeout) {
    if (this.#redis === redis && !this.#calls++) redis.stream.ref();
    together(redis.stream);
    try {
      return await within(timeout, Promise.all(commands.map(command => redis.callBuffer(...command).catch(refusal))));
    } finally {
      if (this.#redis === redis && !--this.#calls) redis.stream.unref();
    }
  }

  /** Ends a connection that failed, if it is still the one. */
  #end(still) {
    if (!still) return;
    this.close();
    this.#client.elsewhere(this.#tried);
  }

  async #connect(timeout) {
    this.#tried = this.#client.at;
    const redis = this.#redis = await this.#client.redis();
    let said;
    redis.on('error', e => { said ??= e; });
    redis.once('end', () => this.#end(this.#redis === redis));
    try {
      await within(timeout, redis.connect());
      // The libraries do not wait for the answers to AUTH and SELECT, and go on after a refused SELECT: the first answer to us comes after these.
      const id = await within(timeout, redis.call('CLIENT', 'ID').catch(refusal));
      this.id = id instanceof Refused ? null : id;
    } catch (e) {
      said ??= e;
    }
    if (said) throw said.name === 'ReplyError' ? Refused.of(said.message) : said;
    return redis;
  }

  close() {
    this.#redis?.disconnect();
    this.#redis = this.#ready = this.id = null;
    this.#calls = 0;
  }
}

/** The server's refusal; any other error is thrown on. */
function refusal(e) {
  if (e.name === 'ReplyError') return Refused.of(e.message);
  throw e;
}

/** Has all that is written to the stream in this turn of the event loop sent by one system call. */
function together(stream) {
  if (!stream || stream.writableCorked) return;
  stream.cork();
  process.nextTick(() => stream.uncork()); // which is after all that is resolved meanwhile
}

function within(ms, promise) {
  return new Promise((ok, no) => {
    const timer = setTimeout(() => no(new Error(`no answer within ${ms} ms`)), Math.min(ms, LONGEST));
    const ended = end => value => { clearTimeout(timer); end(value); };
    promise.then(ended(ok), ended(no));
  });
}
