// pg-boss with keys, for the scenario ordered_keys: a queue with the policy key_strict_fifo, and
// heartbeats, so that the jobs of a dead worker run again soon. See adapter.py for the contract.

import { openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { PgBoss } from "pg-boss";

const QUEUE = "ordered";
const { env, pid } = process;
const instance_id = Number(env.BENCH_INSTANCE_ID ?? 0);
const keys = Number(env.KEYS);
const rate = Number(env.PRODUCER_RATE);
const workers = Number(env.WORKER_COUNT);
const period = Number(env.SAMPLE_EVERY_S ?? 5);
const first = pid * 10 ** 9;

const say = (record) => process.stdout.write(JSON.stringify({ ...record, instance_id }) + "\n");
const log = openSync(env.ORDER_LOG, "a");
const clock = () => Number(process.hrtime.bigint()) / 1e9; // that of Python's time.monotonic()
const note = (event, { key, number }) =>
  writeSync(log, JSON.stringify([event, key, number, pid, clock()]) + "\n");

const boss = new PgBoss({
  connectionString: env.DATABASE_URL,
  schedule: false,
  superviseIntervalSeconds: 5,
  monitorIntervalSeconds: 5,
});
boss.on("error", (error) => console.error(error.message));
await boss.start();
if (!(await boss.getQueue(QUEUE))) {
  const options = { heartbeatSeconds: 15, retryLimit: 10, retryDelay: 0 };
  await boss.createQueue(QUEUE, { policy: "key_strict_fifo", ...options });
}
say({
  kind: "descriptor",
  system: "pgboss",
  event_tables: ["pgboss.queue"],
  extensions: [],
  version: "see revision",
  schema_version: String(await boss.schemaVersion()),
  db_name: new URL(env.DATABASE_URL).pathname.slice(1),
  started_at: new Date().toISOString(),
});

let [stopping, enqueued, completed] = [false, 0, 0];
process.on("SIGTERM", () => (stopping = true));

const polling = { pollingIntervalSeconds: 0.5, localConcurrency: 2 };
const batchSize = Math.ceil(workers / 2);
await boss.work(QUEUE, { ...polling, batchSize, burstWhenBatchFull: true }, (jobs) =>
  Promise.all(
    jobs.map(async ({ data }) => {
      note("start", data);
      await sleep(Number(env.JOB_WORK_MS ?? 1));
      note("end", data);
      completed += 1;
    }),
  ),
);

async function produce() {
  let [credit, before, made] = [0, clock(), 0];
  while (!stopping) {
    const now = clock();
    credit += rate * (now - before);
    before = now;
    const jobs = Array.from({ length: Math.min(Math.floor(credit), keys) }, () => {
      const key = `${pid}-${made % keys}`;
      return { singletonKey: key, data: { key, number: first + made++ } };
    });
    credit -= jobs.length;
    try {
      if (jobs.length) await boss.insert(QUEUE, jobs);
      enqueued += jobs.length;
      for (const { data } of jobs) note("commit", data);
    } catch (error) {
      console.error(`not inserted: ${error.message}`);
    }
    await sleep(25);
  }
}

async function sample() {
  let last = [0, 0];
  while (!stopping) {
    await sleep(period * 1000 - (Date.now() % (period * 1000)) + 5);
    const rates = { enqueue_rate: enqueued - last[0], completion_rate: completed - last[1] };
    last = [enqueued, completed];
    const common = { t: new Date().toISOString(), system: "pgboss", kind: "adapter" };
    for (const [metric, value] of Object.entries(rates)) {
      const subject = { subject_kind: "adapter", subject: "" };
      say({ ...common, ...subject, metric, value: value / period, window_s: period });
    }
  }
}

sample();
await produce();
await boss.stop({ graceful: true, timeout: 3000 });
process.exit(0);
