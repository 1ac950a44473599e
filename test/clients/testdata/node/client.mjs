// client.mjs LIBRARY DEED HOST PORT USER: does one deed with a client for Node, and prints as a line of JSON what the program that
// uses the client sees.
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';

const [library, deed, host, port, user] = process.argv.slice(2);
const require = createRequire(import.meta.url);
const base = 'emq:{mail}:', id = 'JOB00000000001';
const claim = ['EMQ.CLAIM', '2', base + 'pending', base + 'active', base + 'job:', '30000'];
const enqueue = ['EMQ.ENQUEUE', '2', base + 'job:' + id, base + 'pending', id, 'hello'];
const wait = block => ['EMQ.BCLAIM', '30000', String(block), base];
const right = deed.endsWith(' right'); // with the page's settings for calls that wait
const complete = (id, token) => ['EMQ.COMPLETE', '2', base + 'active', base + 'job:' + id, id, String(token), base];

const hex = job => job.length ? [String(job[0]), Buffer.from(job[1]).toString('hex'), job[2]] : job;
const outcome = async what => {
  try { return { reply: await what() }; } catch (e) { return { error: e.message }; }
};
const each = list => list.map(reply => reply instanceof Error ? { error: reply.message } : reply);

const own = { // what differs from client to client; `do` sends one command
  'redis': async () => {
    const { createClient, RESP_TYPES } = await import('redis');
    const db = createClient({ socket: { host, port: Number(port) }, ...user && { username: user, password: 'secret' } });
    db.on('error', () => {});
    await db.connect();
    const own = right ? db.duplicate() : db;
    if (right) { own.on('error', () => {}); await own.connect(); }
    const batch = b => commands => commands.reduce((b, args) => b.addCommand(args), db.multi())[b]();
    return {
      db, do: args => own.sendCommand(args), beside: args => db.sendCommand(args),
      givenUp: args => { const c = new AbortController(); next.then(() => c.abort()); return db.withAbortSignal(c.signal).sendCommand(args); },
      bytes: args => db.withTypeMapping({ [RESP_TYPES.BLOB_STRING]: Buffer }).sendCommand(args),
      pipeline: commands => batch('execAsPipeline')(commands), multi: commands => batch('exec')(commands),
      rescued: async commands => each(await batch('exec')(commands).catch(e => e.replies)),
    };
  },
  'ioredis': () => io('ioredis'),
  'iovalkey': () => io('iovalkey'),
  '@valkey/valkey-glide': async () => {
    const { GlideClient, Batch, Decoder } = await import('@valkey/valkey-glide');
    const db = await GlideClient.createClient({
      addresses: [{ host, port: Number(port) }], ...(right || !deed.startsWith('wait')) && { requestTimeout: 30000 }, ...user && { credentials: { username: user, password: 'secret' } },
    });
    const batch = (atomic, raise, commands) => db.exec(commands.reduce((b, args) => b.customCommand(args), new Batch(atomic)), raise);
    return {
      db, do: args => db.customCommand(args), givenUp: args => db.customCommand(args), bytes: args => db.customCommand(args, { decoder: Decoder.Bytes }),
      pipeline: commands => batch(false, true, commands), multi: commands => batch(true, true, commands),
      rescued: async commands => each(await batch(true, false, commands)),
    };
  },
};

async function io(name) {
  const { default: Redis } = await import(name);
  const settings = {
    'claim once': { maxRetriesPerRequest: 0 }, 'claim unresent': { autoResendUnfulfilledCommands: false }, 'enqueue prefixed': { keyPrefix: 'app:' },
    'wait given up': { commandTimeout: 500 },
  }[deed];
  const db = new Redis({ host, port: Number(port), ...user && { username: user, password: 'secret' }, ...settings });
  db.on('error', () => {});
  const own = right ? db.duplicate({ maxRetriesPerRequest: 0 }) : db;
  own.on('error', () => {});
  const queued = async (b, commands) => (await commands.reduce((b, args) => b.call(...args), b).exec())
    .map(([e, reply]) => e ? { error: e.message } : reply);
  return {
    db, do: args => own.call(...args), beside: args => db.call(...args), givenUp: args => db.call(...args), bytes: args => db.callBuffer(...args),
    pipeline: commands => queued(db.pipeline(), commands), multi: commands => queued(db.multi(), commands),
    rescued: commands => queued(db.multi(), commands),
  };
}

// The test says when to go on, and when it is over. Until then the waiting claim is kept, so that the test can look at it.
const lines = createInterface({ input: process.stdin }), next = once(lines, 'line'), over = once(lines, 'close');
async function waits(call) {
  const { reply, error } = await outcome(() => call);
  console.log('ended');
  await over;
  if (error) throw new Error(error);
  return reply;
}

const deeds = {
  'wait 3000': c => waits(c.do(wait(3000))),
  'wait 12000': c => waits(c.do(wait(12000))),
  'wait 0': c => waits(c.do(wait(0))),
  'wait beside'(c) {
    next.then(() => (c.beside ?? c.do)(enqueue)).catch(() => {});
    return waits(c.do(wait(3000)));
  },
  'wait given up': c => waits(c.givenUp(wait(0))),
  'wait unblocked': async c => [Number(await c.do(['CLIENT', 'ID'])), await waits(c.do(wait(0))), await c.do(['PING'])],
  async life(c) {
    const created = await c.do(enqueue), job = await c.do(claim);
    return [created, job, await c.do(complete(job[0], job[2])), await c.do(claim)];
  },
  'enqueue prefixed': async c => [await c.db.set('known', 'x'), await c.do(enqueue)],
  claim: c => c.do(claim),
  'claim once': c => c.do(claim),
  // Whether the call ever ends: it would have after the client has reconnected and got another reply.
  async 'claim unresent'(c) {
    let ends;
    c.do(claim).then(() => ends = 'reply', () => ends = 'error');
    await new Promise(again => c.db.once('close', () => c.db.once('ready', again)));
    await c.do(['PING']);
    await new Promise(setImmediate);
    return ends ?? 'never';
  },
  'settle stale': c => c.do(complete(id, 99)),
  'claim text': async c => hex(await c.do(claim)),
  'claim bytes': async c => hex(await c.bytes(claim)),
  'claim in pipeline': c => c.pipeline([claim, complete(id, 99)]),
  'claim in multi': c => c.multi([claim, complete(id, 99)]),
  'claim in multi, rescued': c => c.rescued([claim, complete(id, 99)]),
};

if (deed === 'version') {
  const entry = require.resolve(library);
  const { readFileSync } = await import('node:fs');
  const folder = entry.slice(0, entry.lastIndexOf('node_modules/' + library) + ('node_modules/' + library).length);
  console.log(JSON.stringify({ reply: JSON.parse(readFileSync(folder + '/package.json')).version }));
} else {
  console.log(JSON.stringify(await outcome(async () => deeds[deed.replace(/ right$/, '')](await own[library]()))));
}
process.exit(0);
