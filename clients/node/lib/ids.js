// Canonical ids: JOB and 11 base-62 digits of a 63-bit snowflake, of which the bits from 22 up are ms since 2024-01-01 UTC.
import { randomInt } from 'node:crypto';
import { inspect } from 'node:util';

const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const since = 1704067200000, end = 1n << 63n;
let last = 0n;

/** A new id, greater than all that this process minted before, wherever its clock was set. */
export function mint() {
  // The low bits begin at random in each ms, so that processes meet rarely; an id that another process minted too is
  // found when it is sent, and replaced.
  const now = BigInt(Date.now() - since) << 22n | BigInt(randomInt(1 << 22));
  last = now > last ? now : last + 1n;
  if (last >= end) throw new RangeError('the clock is beyond what an id can hold');
  let id = '';
  for (let n = last, i = 0; i < 11; i++, n /= 62n) id = digits[Number(n % 62n)] + id;
  return 'JOB' + id;
}

/** Throws unless the id is canonical; returns it. */
export function check(id) {
  if (number(id) === null) throw new TypeError(`no canonical job id: ${inspect(id)}; it is JOB and 11 digits 0-9, A-Z, a-z of a number below 2^63`);
  return id;
}

/** When an id was minted; null if it tells no time. */
export function created(id) {
  const n = number(id);
  return n === null ? null : new Date(Number(n >> 22n) + since);
}

function number(id) {
  if (typeof id !== 'string' || !/^JOB[0-9A-Za-z]{11}$/.test(id) || id.length !== 14) return null;
  let n = 0n;
  for (const digit of id.slice(3)) n = n * 62n + BigInt(digits.indexOf(digit));
  return n < end ? n : null;
}
