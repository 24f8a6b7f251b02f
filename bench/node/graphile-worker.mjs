// The settings are those of the benchmark on graphile-worker's performance page. With lanes, the
// poll interval is short, so that a lane does not wait for seconds.

import { Logger, makeWorkerUtils, run, runMigrations } from "graphile-worker";
import { main } from "./process.mjs";

const TASK = "work";
const logger = new Logger(() => () => {});

const spec = (job) => ({ identifier: TASK, payload: job, queueName: job.lane || undefined });

await main({
  async install(connectionString) {
    await runMigrations({ connectionString, logger });
  },

  async producer(connectionString) {
    const utils = await makeWorkerUtils({ connectionString, logger });
    return {
      one: (job) => utils.addJob(TASK, job, job.lane ? { queueName: job.lane } : {}),
      prepare: (jobs) => jobs.map(spec),
      bulk: (specs) => utils.addJobs(specs),
    };
  },

  async work(connectionString, lanes, task) {
    const runner = await run({
      taskList: { [TASK]: (payload) => task(payload) },
      preset: {
        worker: {
          connectionString,
          logger,
          concurrentJobs: 24,
          maxPoolSize: 25,
          pollInterval: lanes ? 3 : 2000,
          localQueue: { size: 500 },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0,
        },
      },
    });
    await runner.promise;
  },
});
