// Where the servers are, and connections to them on which nothing is ever sent twice unseen: ioredis and iovalkey send a
// command again whose answer was lost, unless their connection is never made anew.
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';
import { Refused, Unreachable } from './errors.js';

/** How long an answer may take; one that waits in the server has its waiting time besides. */
export const ANSWER = 10_000;

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
  #at = 0;
  #link = null;
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
      ...this.servers[this.#at % this.servers.length],
      lazyConnect: true, retryStrategy: null, sentinelRetryStrategy: null, reconnectOnError: null, maxRetriesPerRequest: null,
      enableReadyCheck: false, enableOfflineQueue: true, enableAutoPipelining: false, keyPrefix: '', stringNumbers: false,
      commandTimeout: undefined, socketTimeout: undefined, blockingTimeout: undefined, protocol: 2,
      scripts: undefined,
    });
  }

  /** The server tried last is gone or no primary: the next one is tried. */
  elsewhere() { this.#at++; }

  /**
   * What the server says to commands that are sent together and may be sent again; the first refusal is thrown. Resolves to the replies, and
   * whether they were sent again.
   */
  async call(...commands) {
    const end = performance.now() + this.patience, pause = new Pause();
    for (let again = false; ;) {
      const link = this.#link ??= new Link(this);
      let problem;
      try {
        const replies = await link.call(commands);
        problem = replies.find(r => r instanceof Refused);
        if (!problem) return { replies, again };
        if (!problem.passes) throw problem;
      } catch (e) {
        if (!(e instanceof Lost)) throw e;
        problem = e;
        again ||= e.sent;
      }
      if (this.#link === link) { // and not another call's, which met the same
        this.#link = null;
        link.close();
        this.elsewhere();
      }
      if (performance.now() > end) throw problem instanceof Refused ? problem : new Unreachable(problem.message);
      await pause.wait();
    }
  }

  /** Ends the connection, which is made anew when it is needed. While it is idle it doesn't keep the process alive. */
  close() {
    this.#link?.close();
    this.#link = null;
  }
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

/** A connection that is made when it is needed, and with it all that waits for an answer ends. */
export class Link {
  #client;
  #ready = null;
  #redis = null;
  #calls = 0; // that wait for an answer; without any, the connection does not keep the process alive
  id = null; // the server's; null without the right to ask

  constructor(client) { this.#client = client; }

  /** The replies, a Refused among them where the server refuses. Throws Lost. */
  async call(commands, timeout = ANSWER) {
    let redis;
    try {
      redis = await (this.#ready ??= this.#connect());
    } catch (e) {
      this.close();
      if (e instanceof Refused) return commands.map(() => e);
      throw new Lost(e, false);
    }
    if (this.#redis === redis && !this.#calls++) redis.stream.ref();
    together(redis.stream);
    const answers = commands.map(command => redis.callBuffer(...command)
      .catch(e => { if (e.name === 'ReplyError') return Refused.of(e.message); throw e; }));
    try {
      return await within(timeout, Promise.all(answers));
    } catch (e) {
      if (this.#redis === redis) this.close();
      throw new Lost(e, true);
    } finally {
      if (this.#redis === redis && !--this.#calls) redis.stream.unref();
    }
  }

  async #connect() {
    const redis = this.#redis = await this.#client.redis();
    let said;
    redis.on('error', e => { said ??= e; });
    redis.once('end', () => { if (this.#redis === redis) this.close(); });
    try {
      await within(ANSWER, redis.connect());
      // The libraries do not wait for the answers to AUTH and SELECT, and go on after a refused SELECT: the first answer to us comes after these.
      this.id = await within(ANSWER, redis.call('CLIENT', 'ID').catch(e => { if (e.name === 'ReplyError') return null; throw e; }));
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

/** Has all that is written to the stream in this turn of the event loop sent by one system call. */
function together(stream) {
  if (!stream || stream.writableCorked) return;
  stream.cork();
  process.nextTick(() => stream.uncork()); // which is after all that is resolved meanwhile
}

function within(ms, promise) {
  return new Promise((ok, no) => {
    const timer = setTimeout(() => no(new Error(`no answer within ${ms} ms`)), ms);
    const ended = end => value => { clearTimeout(timer); end(value); };
    promise.then(ended(ok), ended(no));
  });
}
