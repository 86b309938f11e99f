// Measures BullMQ with the jobs, the clock and the JSON of ../README.md.
'use strict';

const { Queue, Worker } = require('bullmq');
const IORedis = require('ioredis');
const { fork } = require('node:child_process');
const { once } = require('node:events');
const { parseArgs } = require('node:util');

const { values: given } = parseArgs({
  options: {
    socket: { type: 'string' },
    port: { type: 'string', default: '0' }, // not used: unix sockets do
    count: { type: 'string', default: '50000' },
    bytes: { type: 'string', default: '64' },
    repeat: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '10' },
    memory: { type: 'string', default: '0' }, // only print bytes for each of so many waiting messages
    idle: { type: 'boolean', default: false },
    'one-thread': { type: 'boolean', default: false }, // only print the rate of sends one after the other
    produce: { type: 'string' }, // only for itself
  },
});
const [count, bytes, repeat, seconds] = ['count', 'bytes', 'repeat', 'seconds'].map((name) => Number(given[name]));
if (!given.socket || !(count >= 1) || !(bytes >= 24) || !(repeat >= 1) || !(seconds >= 1)) {
  console.error('usage: --socket PATH [--count N] [--bytes N] [--repeat N] [--seconds N] [--idle | --memory N | --one-thread]');
  process.exit(2);
}

const connection = { path: given.socket, maxRetriesPerRequest: null };
const defaultJobOptions = { removeOnComplete: true };
const redis = new IORedis(connection);
const perSecond = 1000; // scheduled messages
const bulk = 500;
const hour = 3600 * 1000;

const say = (text) => console.error('  ' + text);
const round = (x) => Math.round(x * 100) / 100;
const now = () => performance.timeOrigin + performance.now(); // ms, finer than Date.now()
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

// The payload: the due time in microseconds and the number of the message. Processes share Date.now(), not timeOrigin.
const clockOffset = (() => {
  let least = Infinity;
  for (let i = 0; i < 200000; i++) least = Math.min(least, now() - Date.now());
  return least; // Date.now() is cut to whole ms, so the least difference is that of the clocks
})();
const wallClock = () => now() - clockOffset;

function job(number, due) {
  const head = String(Math.round(due * 1000)).padStart(16, '0') + String(number).padStart(8, '0');
  return { name: 'bench', data: head.padEnd(bytes, 'x') };
}
// Delays count from the job's timestamp, so the due time does not depend on the duration of the call.
const at = (due) => {
  const timestamp = Date.now();
  return { timestamp, delay: Math.max(0, Math.ceil(due) - timestamp) };
};

const queues = [];
let names = 0;
function newQueue(suffix = '') {
  const queue = new Queue('bench' + ++names + suffix, { connection, defaultJobOptions });
  queues.push(queue);
  return queue;
}

// send(queue, count, concurrent loops, delay or 0): returns messages a second.
async function sendAll(queue, n, loops, delay) {
  const start = performance.now();
  let next = 0;
  const loop = async () => {
    for (let i = next++; i < n; i = next++) {
      const { name, data } = job(i, wallClock());
      await queue.add(name, data, delay ? { delay } : undefined);
    }
  };
  await Promise.all(Array.from({ length: loops }, loop));
  return (n * 1000) / (performance.now() - start);
}

// Two bulks in flight: while Redis handles one, the next is made.
async function inBulks(n, send) {
  let next = 0;
  const loop = async () => {
    while (next < n) {
      const from = next;
      next = Math.min(n, from + bulk);
      await send(from, next);
    }
  };
  await Promise.all([loop(), loop()]);
}

async function sendBulk(queue, n, delay) {
  const start = performance.now();
  await inBulks(n, (from, to) => {
    const jobs = [];
    for (let i = from; i < to; i++) jobs.push({ ...job(i, wallClock()), opts: delay ? { delay } : {} });
    return queue.addBulk(jobs);
  });
  return (n * 1000) / (performance.now() - start);
}

// All messages are due at the same time, after the last send. Returns when they are due. No worker runs.
async function sendScheduled(queue, n) {
  const due = Math.ceil(wallClock() + 1000 + n / 4);
  await inBulks(n, (from, to) => {
    const jobs = [];
    for (let i = from; i < to; i++) jobs.push({ ...job(i, due), opts: at(due) });
    return queue.addBulk(jobs);
  });
  if (wallClock() > due) throw new Error('scheduled: sending took longer than the time before the messages are due');
  await sleep(due - wallClock() + 10);
}

// Records the first delivery of each message, and the time when all have arrived.
function expect(n) {
  const late = new Array(n).fill(null);
  let left = n;
  let arrived;
  const all = new Promise((resolve, reject) => {
    arrived = resolve;
    const fail = () => reject(new Error(`${left} of ${n} messages did not come within two minutes`));
    setTimeout(fail, 120000).unref();
  });
  const handle = async ({ data }) => {
    const number = Number(data.slice(16, 24));
    if (late[number] !== null) return;
    late[number] = wallClock() - Number(data.slice(0, 16)) / 1000;
    if (--left === 0) arrived(performance.now());
  };
  return { all, handle, late };
}

async function newWorker(queue, handle, concurrency) {
  const worker = new Worker(queue.name, handle, { connection, concurrency, autorun: false });
  worker.on('error', (error) => say(String(error)));
  await worker.waitUntilReady();
  return worker;
}

// The rate from the start of the worker to the last message.
async function receive(queue, n, concurrency) {
  const arrivals = expect(n);
  const worker = await newWorker(queue, arrivals.handle, concurrency);
  const start = performance.now();
  worker.run();
  const rate = (n * 1000) / ((await arrivals.all) - start);
  await worker.close();
  return rate;
}

// The producer is a separate process, because Node has one thread for JavaScript.
async function endToEnd(queue, n, concurrency) {
  const arrivals = expect(n);
  const worker = await newWorker(queue, arrivals.handle, concurrency);
  worker.run();
  const producer = fork(__filename, [...process.argv.slice(2), '--produce', queue.name]);
  await once(producer, 'message'); // it is connected
  const start = performance.now();
  producer.send('go');
  const rate = (n * 1000) / ((await arrivals.all) - start);
  await worker.close();
  return rate;
}

async function produce(name) {
  const queue = new Queue(name, { connection, defaultJobOptions });
  await queue.waitUntilReady();
  await sendBulk(newQueue('-warm'), 2000, hour);
  process.send('ready');
  await once(process, 'message');
  await sendBulk(queue, count, 0);
  await queue.close();
  await close();
  process.disconnect();
}

// One message is due each millisecond. All are sent before the first is due, then the worker starts.
async function lateness() {
  const n = seconds * perSecond;
  const queue = newQueue();
  await queue.waitUntilReady();
  const first = Math.ceil(wallClock()) + 500 + n / 5;
  await inBulks(n, (from, to) => {
    const jobs = [];
    for (let i = from; i < to; i++) {
      const due = first + Math.floor((i * 1000) / perSecond);
      jobs.push({ ...job(i, due), opts: at(due) });
    }
    return queue.addBulk(jobs);
  });
  if (wallClock() > first) throw new Error('lateness: sending took longer than it may');
  const arrivals = expect(n);
  const worker = await newWorker(queue, arrivals.handle, 4);
  worker.run();
  await arrivals.all;
  await worker.close();
  const late = arrivals.late.sort((a, b) => a - b);
  const share = (part) => round(late[Math.floor(part * (n - 1))]);
  return { min: share(0), p50: share(0.5), p99: share(0.99), max: share(1) };
}

// The median of each percentile.
async function medianLateness() {
  const all = [];
  for (let i = 0; i < repeat; i++) all.push(await lateness());
  const middle = (name) => all.map((one) => one[name]).sort((a, b) => a - b)[(repeat - 1) >> 1];
  return Object.fromEntries(['min', 'p50', 'p99', 'max'].map((name) => [name, middle(name)]));
}

async function median(measure) {
  const rates = [];
  for (let i = 0; i < repeat; i++) {
    const queue = newQueue();
    await queue.waitUntilReady();
    rates.push(await measure(queue));
  }
  return Math.floor(rates.sort((a, b) => a - b)[(rates.length - 1) >> 1]);
}

const usedMemory = async () => Number(/used_memory:(\d+)/.exec(await redis.info('memory'))[1]);

async function close() {
  await Promise.all(queues.map((queue) => queue.close()));
  await redis.quit();
}

async function main() {
  if (given.idle) {
    new Worker('idle', async () => {}, { connection });
    console.log('idle');
    return;
  }
  if (Number(given.memory) > 0) {
    await sendBulk(newQueue(), 1, hour); // loads scripts, and is not counted
    const before = await usedMemory();
    await sendBulk(newQueue(), Number(given.memory), hour);
    console.log(round(((await usedMemory()) - before) / Number(given.memory)));
    return close();
  }
  if (given.produce) return produce(given.produce);
  const oneThread = () => median((queue) => sendAll(queue, count, 1, hour));
  if (given['one-thread']) {
    await sendAll(newQueue(), 2000, 1, hour);
    console.log(await oneThread());
    return close();
  }
  say('warm-up');
  const warm = newQueue();
  await sendBulk(warm, 2000, 0);
  await receive(warm, 2000, 100);
  await sendAll(newQueue(), 2000, 8, hour);

  const send = {
    one_thread: await oneThread(),
    eight_threads: await median((queue) => sendAll(queue, count, 8, hour)),
    batch: await median((queue) => sendBulk(queue, count, hour)),
  };
  say('sent ' + JSON.stringify(send));
  const receiveRates = {};
  for (const [name, concurrency] of [['one_worker', 1], ['eight_workers', 8], ['concurrency_100', 100]]) {
    receiveRates['due_' + name] = await median(async (queue) => {
      await sendBulk(queue, count, 0);
      return receive(queue, count, concurrency);
    });
    receiveRates['scheduled_' + name] = await median(async (queue) => {
      await sendScheduled(queue, count);
      return receive(queue, count, concurrency);
    });
  }
  say('received ' + JSON.stringify(receiveRates));
  const both = await median((queue) => endToEnd(queue, count, 100));
  say('lateness');
  console.log(JSON.stringify({
    version: '6.7.0',
    transport: 'unix',
    send,
    receive: receiveRates,
    end_to_end: both,
    lateness_ms: await medianLateness(),
  }));
  await close();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
