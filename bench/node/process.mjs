// The processes of the peers on Node. peers/adapter.py describes their protocol.

import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

export const SLOTS = Number(process.env.SLOTS ?? 100);
const REPORT_MS = 5;

const now = () => Number(process.hrtime.bigint()) / 1e9; // the clock of Python's time.monotonic()
const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");

export const queueName = (index) => `queue-${index}`;

// The same jobs as those of jobs.py. Without a queue, a job goes to the peer's default queue.
const make = ({ count, first = 0, lanes = 0, queues = 1, priorities = 1, ms = 0, tool, width }) =>
  Array.from({ length: count }, (_, index) => {
    const number = first + index;
    const share = lanes ? number % lanes : number;
    return {
      args: { number, lane: lanes ? `lane-${share}` : "", ms },
      lane: lanes ? `lane-${share}` : "",
      queue: queues > 1 ? queueName(share % queues) : "",
      priority: share % priorities,
      tool,
      width,
      place: lanes ? Math.floor(number / lanes) : 0,
    };
  });

// An adapter has install(dsn), work(dsn, load, run) with the load of jobs.py, and
// producer(dsn) -> {one(job), prepare(jobs), bulk(prepared)}.
export async function main(adapter) {
  const [role, dsn, load] = process.argv.slice(2);
  if (role === "install") {
    await adapter.install(dsn);
    process.exit(0);
  } else if (role === "produce") {
    await produce(await adapter.producer(dsn));
  } else {
    await work(adapter, dsn, JSON.parse(load));
  }
}

async function produce(producer) {
  say({ ready: true });
  for await (const line of createInterface({ input: process.stdin })) {
    const { calls = 0, pause = 0, ...order } = JSON.parse(line);
    const jobs = make(order);
    say(calls ? await bulk(producer, jobs, calls) : await oneByOne(producer, jobs, pause));
  }
  process.exit(0);
}

async function bulk(producer, jobs, calls) {
  const size = Math.ceil(jobs.length / calls);
  const parts = [];
  for (let at = 0; at < jobs.length; at += size) {
    parts.push(producer.prepare(jobs.slice(at, at + size)));
  }
  const start = now();
  for (const part of parts) await producer.bulk(part);
  return { seconds: now() - start };
}

async function oneByOne(producer, jobs, pause) {
  const at = [];
  const start = now();
  for (const job of jobs) {
    at.push(now());
    await producer.one(job);
    if (pause) await sleep(pause * 1000);
  }
  return { seconds: now() - start, at: pause ? at : [] };
}

async function work(adapter, dsn, load) {
  const trace = [];
  let said = 0;
  const orders = createInterface({ input: process.stdin });
  orders.once("close", () => process.exit(0));
  say({ ready: true });
  await once(orders, "line"); // the order to go
  orders.once("line", () => stop(trace));
  setInterval(() => {
    if (trace.length !== said) say({ ran: (said = trace.length) });
  }, REPORT_MS);
  await adapter.work(dsn, load, async ({ number, lane, ms }) => {
    const start = now();
    if (ms) await sleep(ms);
    trace.push([number, lane, start, now()]);
  });
}

function stop(trace) {
  process.stdout.write(JSON.stringify({ trace }) + "\n", () => process.exit(0));
}
