// Free jobs and lanes use two queues, because only one policy keeps order, and that policy needs a
// key for each job.

import { PgBoss } from "pg-boss";
import { main } from "./process.mjs";

const FREE = "free";
const LANES = "lanes";
const BATCH = 1000;

async function start(connectionString, options = {}) {
  const boss = new PgBoss({ connectionString, schedule: false, useListenNotify: true, ...options });
  boss.on("error", (error) => console.error(error.message));
  await boss.start();
  return boss;
}

const queueOf = (job) => (job.lane ? LANES : FREE);
const options = ({ lane, priority }) => ({ ...(lane && { singletonKey: lane }), priority });

await main({
  async install(dsn) {
    const boss = await start(dsn);
    await boss.createQueue(FREE, { notify: true });
    await boss.createQueue(LANES, { policy: "key_strict_fifo", notify: true });
    await boss.stop({ graceful: false });
  },

  async producer(dsn) {
    const boss = await start(dsn, { supervise: false });
    return {
      one: (job) => boss.send(queueOf(job), job.args, options(job)),
      prepare: (jobs) => [queueOf(jobs[0]), jobs.map((job) => ({ data: job.args, ...options(job) }))],
      bulk: ([queue, jobs]) => boss.insert(queue, jobs),
    };
  },

  async work(dsn, { lanes }, task) {
    const boss = await start(dsn);
    const handle = (jobs) => Promise.all(jobs.map((job) => task(job.data)));
    const polling = {
      pollingIntervalSeconds: 0.5,
      notifyPollingIntervalSeconds: 0.5,
      burstWhenBatchFull: true,
      localConcurrency: 2,
    };
    await boss.work(FREE, { batchSize: BATCH, ...polling }, handle);
    if (lanes) {
      const batchSize = Math.min(BATCH, Math.ceil(lanes / 2));
      await boss.work(LANES, { batchSize, ...polling }, handle);
    }
  },
});
