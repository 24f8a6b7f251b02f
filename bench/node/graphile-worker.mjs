// The settings are those of the benchmark on graphile-worker's performance page, with a larger
// local queue. With lanes, the poll interval is short, so that a lane does not wait for seconds.
// graphile-worker's named queues are lanes, so a queue is a task identifier here.

import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import { main, queueName } from "./process.mjs";

const TASK = "work";
const logger = new Logger(() => () => {});

const spec = (job) => ({ identifier: job.queue || TASK, payload: job.args, ...options(job) });
const options = ({ priority, ...job }) => ({ queueName: queueNameOf(job), priority });

// A named queue runs one job at a time. So a key that may run N at a time has N named queues, to
// which its jobs are dealt out.
const queueNameOf = ({ lane, tool, width, place }) =>
  lane ? (tool === "lock" ? lane : `${lane}/${place % width}`) : undefined;

await main({
  async install(connectionString) {
    await runMigrations({ connectionString, logger });
  },

  async producer(connectionString) {
    const utils = await makeWorkerUtils({ connectionString, logger });
    return {
      one: (job) => utils.addJob(job.queue || TASK, job.args, options(job)),
      prepare: (jobs) => jobs.map(spec),
      bulk: (specs) => utils.addJobs(specs),
    };
  },

  async work(connectionString, { lanes, queues }, task) {
    const names = [TASK, ...Array.from({ length: queues }, (_, index) => queueName(index))];
    const runner = await run({
      taskList: Object.fromEntries(names.map((name) => [name, (payload) => task(payload)])),
      preset: {
        worker: {
          connectionString,
          logger,
          concurrentJobs: 24,
          maxPoolSize: 25,
          pollInterval: lanes ? 3 : 2000,
          localQueue: { size: 1000 },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
        },
      },
    });
    await runner.promise;
  },
});
