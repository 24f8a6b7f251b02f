// The processes of the peers on Node. peers/adapter.py describes their protocol.

import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";

export const SLOTS = Number(process.env.SLOTS ?? 100);
const REPORT_MS = 5;

const now = () => Number(process.hrtime.bigint()) / 1e9; // the clock of Python's time.monotonic()
const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");

const make = ({ count, first = 0, lanes = 0, ms = 0 }) =>
  Array.from({ length: count }, (_, index) => ({
    number: first + index,
    lane: lanes ? `lane-${(first + index) % lanes}` : "",
    ms,
  }));

// An adapter has install(dsn), work(dsn, lanes, run) and
// producer(dsn) -> {one(job), prepare(jobs), bulk(prepared)}.
export async function main(adapter) {
  const [role, dsn, lanes] = process.argv.slice(2);
  if (role === "install") {
    await adapter.install(dsn);
    process.exit(0);
  } else if (role === "produce") {
    await produce(await adapter.producer(dsn));
  } else {
    await work(adapter, dsn, Number(lanes));
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

async function work(adapter, dsn, lanes) {
  const trace = [];
  let said = 0;
  setInterval(() => {
    if (trace.length !== said) say({ ran: (said = trace.length) });
  }, REPORT_MS);
  createInterface({ input: process.stdin })
    .once("line", () => stop(trace))
    .once("close", () => process.exit(0));
  await adapter.work(dsn, lanes, async ({ number, lane, ms }) => {
    const start = now();
    if (ms) await sleep(ms);
    trace.push([number, lane, start, now()]);
  });
}

function stop(trace) {
  process.stdout.write(JSON.stringify({ trace }) + "\n", () => process.exit(0));
}
