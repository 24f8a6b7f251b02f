// Free jobs and lanes use two queues, because only one policy keeps order, and that policy needs a
// key for each job. Groups, of which so many jobs may run at once, have a third one, so that the
// others are fetched without counting groups.

import { PgBoss } from "pg-boss";
import { main } from "./process.mjs";

const FREE = "free";
const LANES = "lanes";
const GROUPS = "groups";
const BATCH = 1000;

async function start(connectionString, options = {}) {
  const boss = new PgBoss({
    connectionString,
    schedule: false,
    useListenNotify: true,
    flowIntervalSeconds: 1, // the shortest that it accepts
    ...options,
  });
  boss.on("error", (error) => console.error(error.message));
  await boss.start();
  return boss;
}

const queueOf = ({ lane, tool }) => (lane ? (tool === "lock" ? LANES : GROUPS) : FREE);
const options = ({ priority, ...job }) => ({ ...keyOf(job), priority });
const keyOf = ({ lane, tool }) =>
  lane && (tool === "lock" ? { singletonKey: lane } : { group: { id: lane } });

const isFlow = ({ tool }) => tool === "after" || tool === "batch";
const refOf = ({ lane, place }) => `${lane}/${place}`;

// A flow is enqueued in one call. A batch's last job depends on all others.
function flow(jobs) {
  const refs = new Set(jobs.map(refOf));
  const last = jobs.at(-1);
  const before = (job) => [refOf({ ...job, place: job.place - 1 })].filter((ref) => refs.has(ref));
  const others = () => [...refs].filter((ref) => ref !== refOf(last));
  return jobs.map((job) => ({
    ref: refOf(job),
    name: FREE,
    data: job.args,
    dependsOn: job.tool === "after" ? before(job) : job === last ? others() : [],
  }));
}

await main({
  async install(dsn) {
    const boss = await start(dsn);
    await boss.createQueue(FREE, { notify: true });
    await boss.createQueue(LANES, { policy: "key_strict_fifo", notify: true });
    await boss.createQueue(GROUPS, { notify: true });
    await boss.stop({ graceful: false });
  },

  async producer(dsn) {
    const boss = await start(dsn, { supervise: false });
    return {
      one: (job) => boss.send(queueOf(job), job.args, options(job)),
      prepare: (jobs) =>
        isFlow(jobs[0])
          ? [null, flow(jobs)]
          : [queueOf(jobs[0]), jobs.map((job) => ({ data: job.args, ...options(job) }))],
      bulk: ([queue, jobs]) => (queue ? boss.insert(queue, jobs) : boss.flow(jobs)),
    };
  },

  async work(dsn, { lanes, tool, width }, task) {
    const boss = await start(dsn);
    const handle = (jobs) => Promise.all(jobs.map((job) => task(job.data)));
    const polling = {
      pollingIntervalSeconds: 0.5,
      notifyPollingIntervalSeconds: 0.5,
      burstWhenBatchFull: true,
      localConcurrency: 2,
    };
    await boss.work(FREE, { batchSize: BATCH, ...polling }, handle);
    if (lanes && tool === "lock") {
      const batchSize = Math.min(BATCH, Math.ceil(lanes / 2));
      await boss.work(LANES, { batchSize, ...polling }, handle);
    } else if (lanes && !isFlow({ tool })) {
      const groups = tool === "group" ? lanes : 1; // a batch of one tenant, or of all keys
      const batchSize = Math.min(BATCH, (lanes * width) / groups);
      const limits = { batchSize, groupConcurrency: width, localConcurrency: groups };
      await boss.work(GROUPS, { ...polling, ...limits }, handle);
    }
  },
});
