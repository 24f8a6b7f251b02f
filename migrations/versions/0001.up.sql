-- The tables of the queue. Functions and views live in sql/ and are applied after the revisions.
-- Unqualified names: the migration runs with search_path set to the schema.

-- Live and finished jobs share one set of statuses. The view live_jobs has those that people see.
CREATE TYPE job_status AS ENUM (
    'todo',       -- may start; in a lane, it is the wake-up token that the next claim finds
    'blocked',    -- waits behind another job of its lane
    'limited',    -- waits for a slot or a token of its limit
    'paused',     -- its task is paused, and a claim has set it aside; people see it as blocked
    'scheduled',  -- not due yet, outside its lane
    'pending',    -- waits for the end of other jobs, outside its lane
    'claimed',    -- never stored: what people see if the job's worker has no slot for it yet
    'doing',      -- claimed by a worker
    'succeeded', 'failed', 'cancelled', 'aborted'
);

CREATE TYPE lane_state AS ENUM (
    'held',       -- a worker owns the lane and runs one job of it
    'retrying',   -- no worker owns it: job_id goes next, before everything else that waits
    'paused',     -- a person stopped it, perhaps until a given time
    'halted',     -- a job failed for good, and its policy is to stop the lane
    'delayed',    -- no worker owns it: an open transaction has locked its next job; claims retry
    'idle'        -- never stored: no worker owns it, and its next job waits for another lane
);

-- What happens to the lane while a job waits for its next attempt, and after a job failed for good.
CREATE TYPE retry_policy AS ENUM ('hold', 'release');
CREATE TYPE failure_policy AS ENUM ('continue', 'halt');
-- What happens to a job if one that it comes after does not succeed.
CREATE TYPE parent_policy AS ENUM ('cancel', 'go', 'hold');
-- What happens to a new job if another one waits under its queueing lock.
CREATE TYPE conflict_policy AS ENUM ('raise', 'skip', 'replace');
-- What happens to a batch: jobs join it, it is closed, a claim has to look at it again, or its jobs
-- end.
CREATE TYPE batch_event AS ENUM (
    'joined', 'closed', 'look', 'succeeded', 'failed', 'cancelled', 'aborted'
);

CREATE TYPE pause_kind AS ENUM ('queue', 'task');

-- The options of a job, as passed between the functions that create jobs. They are named like the
-- columns of `jobs`. The defaults are filled in, and `scheduled_at` includes any delay.
CREATE TYPE job_options AS (
    queue         text,
    lock          text,
    priority      integer,
    scheduled_at  timestamptz,
    delayed_at    timestamptz,
    on_retry      retry_policy,
    on_failure    failure_policy,
    queueing_lock text,
    timeout       interval,
    expires_at    timestamptz,
    limit_key     text,
    group_key     text,
    batch_id      bigint,
    locks         text[],   -- all locks of a job that has several, or shares one, sorted
    shared        text[],   -- the locks that it shares
    headers       jsonb
);

-- The lanes of a job that has `locks`, as passed between functions.
CREATE TYPE job_lanes AS (
    id     bigint,
    locks  text[],
    shared text[]
);

-- A job as `verify` judges it (see read_runs): its last run, and how it came to its lanes.
CREATE TYPE job_run AS (
    id           bigint,
    lives        boolean,
    ran          boolean,       -- it runs, or its last run has ended it
    waits        boolean,       -- it is in line, and has never started
    fence        bigint,
    began_at     timestamptz,   -- the start of its first run, as far as known
    started_at   timestamptz,
    sure_at      timestamptz,   -- by then, its last run had begun for certain
    ended_at     timestamptz,   -- infinity: not yet
    committed_at timestamptz,   -- when its row was written, if the server tracks that
    created_at   timestamptz,
    due_at       timestamptz,
    priority     integer,
    attempts     integer,
    releases     boolean,
    clash_from   timestamptz,   -- two of its own runs overlapped from then on
    clash_until  timestamptz,
    limit_key    text,
    batch_id     bigint,
    locks        text[],
    shared       text[]
);

-- What `verify` has seen of two jobs, or of one.
CREATE TYPE observation AS (
    promise  text,
    verdict  text,
    reason   text,
    lock     text,
    job_id   bigint,
    other_id bigint,
    seen     text,
    from_at  timestamptz,   -- these two times contradict each other
    until_at timestamptz
);

-- Which jobs a list, a count or a bulk selects. NULL means any. `matches` applies it.
CREATE TYPE job_filter AS (
    statuses      job_status[],
    queue         text,
    task          text,
    lock          text,
    queueing_lock text,
    worker_id     uuid,
    batch_id      bigint,
    group_key     text,
    lock_prefix   text,
    error         text,         -- a part of the last attempt's error
    before        timestamptz,  -- it ended before, or was deferred before if it has not ended
    ids           bigint[]
);

-- The rules for single columns of `jobs` are domains rather than CHECKs of the table. PostgreSQL
-- parses and plans each CHECK of a table again for every statement that writes to it, and most of
-- ours write one row. It keeps the rules of a domain parsed, and evaluates them only where a
-- statement sets the column. Drivers, functions and views see the base types.
--
-- COLLATE "C" for all names that are keys: they compare faster, and their order does not depend on
-- the operating system's collation library. If that order changed, the index that is the mutex of
-- the lanes would be corrupt.
--
-- Notifications carry queue names as a list, and `!` asks workers to abort jobs. The functions that
-- accept a name check each character (see has_invalid_queue).
CREATE DOMAIN queue_name AS text COLLATE "C" CONSTRAINT jobs_queue_name CHECK (
    octet_length(VALUE) BETWEEN 1 AND 63 AND strpos(VALUE, ',') = 0 AND VALUE <> '!'
);
CREATE DOMAIN task_name AS text COLLATE "C"
    CONSTRAINT jobs_task_length CHECK (octet_length(VALUE) BETWEEN 1 AND 512);
-- 1,024 bytes keep entries of the lane index below the B-tree limit of 2,704 bytes, even
-- uncompressed.
CREATE DOMAIN lock_name AS text COLLATE "C"
    CONSTRAINT jobs_lock_length CHECK (octet_length(VALUE) BETWEEN 1 AND 1024);
CREATE DOMAIN queueing_lock_name AS text COLLATE "C"
    CONSTRAINT jobs_queueing_lock_length CHECK (octet_length(VALUE) BETWEEN 1 AND 1024);
-- A pattern of limits ends with `*`, so no key has one.
CREATE DOMAIN limit_name AS text COLLATE "C" CONSTRAINT jobs_limit_key CHECK (
    octet_length(VALUE) BETWEEN 1 AND 1024 AND strpos(VALUE, '*') = 0
);
-- It is a key of jobs_turns, whose entries must stay below the B-tree limit too.
CREATE DOMAIN group_name AS text COLLATE "C" CONSTRAINT jobs_group_key CHECK (
    octet_length(VALUE) BETWEEN 1 AND 1024 AND strpos(VALUE, '*') = 0
);
CREATE DOMAIN job_args AS jsonb
    CONSTRAINT jobs_args_object CHECK (jsonb_typeof(VALUE) = 'object');
-- PostgreSQL writes a space after each comma and colon, so this is above Python's limit.
CREATE DOMAIN job_headers AS jsonb CONSTRAINT jobs_headers CHECK (
    jsonb_typeof(VALUE) = 'object' AND octet_length(VALUE::text) <= 16384
);
CREATE DOMAIN job_timeout AS interval CONSTRAINT jobs_timeout CHECK (
    VALUE >= interval '1 ms' AND VALUE <= interval '365 days'
);
-- Drivers cannot read times before year 1 or after 9999, in any zone. One such row would make every
-- reader fail.
CREATE DOMAIN due_time AS timestamptz CONSTRAINT jobs_scheduled_within CHECK (
    VALUE >= timestamptz '0002-01-01 00:00:00+00'
    AND VALUE < timestamptz '9999-01-01 00:00:00+00'
);
CREATE DOMAIN expiry_time AS timestamptz CONSTRAINT jobs_expires_within CHECK (
    VALUE >= timestamptz '0002-01-01 00:00:00+00'
    AND VALUE < timestamptz '9999-01-01 00:00:00+00'
);

-- Rises with every start of a job, for user code to compare. CACHE 1, so that a later start always
-- gets a higher number.
CREATE SEQUENCE fences AS bigint CACHE 1;

-- Live jobs only: finished ones move to finished_jobs, so that no cost grows with history.
CREATE TABLE jobs (
    -- The promised order needs CACHE 1 (the default): a session that caches ids uses them late.
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    claim_id     uuid,
    fence        bigint,
    -- A number from the sequence of ids, drawn when the job came back into its line. NULL: it never
    -- did, or came back without one (see line_from).
    back_id      bigint,
    worker_id    uuid,       -- no foreign key: a key-share lock per claim would make multixacts
    scheduled_at due_time,
    -- While it is scheduled: when scheduled_at was computed from a delay. NULL: the time was chosen
    -- (see recall_looks).
    delayed_at   timestamptz,
    created_at   timestamptz NOT NULL,
    started_at   timestamptz,
    status       job_status  NOT NULL,
    on_retry     retry_policy   NOT NULL DEFAULT 'hold',
    on_failure   failure_policy NOT NULL DEFAULT 'continue',
    abort        boolean     NOT NULL DEFAULT false,   -- asked to abort
    has_waiters  boolean     NOT NULL DEFAULT false,   -- a program waits for its end: notify it
    -- NULL means no, so they take no space in the rows of other jobs.
    has_children boolean,    -- jobs wait for its end: leave a row in ends
    has_parents  boolean,    -- it may have edges, and has not started
    timeout      job_timeout,                          -- how long a run may take
    expires_at   expiry_time,                          -- it must start before this time
    was_attempted boolean    NOT NULL DEFAULT false,   -- an attempt at it has ended, charged or not
    -- It came back to the queue without its queueing lock, because another job waited under it.
    lost_queueing_lock boolean NOT NULL DEFAULT false,
    priority     integer     NOT NULL DEFAULT 0,
    attempts     integer     NOT NULL DEFAULT 0,
    queue        queue_name  NOT NULL DEFAULT 'default',
    task         task_name   NOT NULL,
    lock         lock_name,
    queueing_lock queueing_lock_name,          -- at most one job waits under it
    args         job_args    NOT NULL DEFAULT '{}',
    errors       jsonb       NOT NULL DEFAULT '[]',
    limit_key    limit_name,                   -- how many jobs of a key may run: see limits
    group_key    group_name,                   -- it takes turns with the jobs of other groups
    batch_id     bigint,                       -- it belongs to this batch, or is its callback
    -- All locks of a job that has several, or that shares one. `lock` is the first of them. They
    -- are sorted, because lanes are always locked in one order. NULL for all other jobs.
    locks        text[]      COLLATE "C",
    shared       text[]      COLLATE "C",      -- the locks of lanes that it only reads, or NULL
    keeps_lanes  boolean,                      -- it has `locks`, and keeps its lanes for its retry
    headers      job_headers,                  -- names and values that travel with the job, or NULL
    -- Rules between columns. Each costs some microseconds per statement (see above).
    CONSTRAINT jobs_live CHECK (
        status IN ('todo', 'blocked', 'limited', 'paused', 'scheduled', 'pending', 'doing')),
    -- A claim exists exactly while the job is being done; finish relies on it (see finish.sql).
    CONSTRAINT jobs_claimed CHECK ((status = 'doing') = (claim_id IS NOT NULL)),
    CONSTRAINT jobs_owned CHECK ((worker_id IS NULL) = (claim_id IS NULL)),
    CONSTRAINT jobs_blocked_in_a_lane CHECK (status <> 'blocked' OR lock IS NOT NULL),
    CONSTRAINT jobs_limited_by CHECK (status <> 'limited' OR limit_key IS NOT NULL),
    CONSTRAINT jobs_scheduled_when CHECK (status <> 'scheduled' OR scheduled_at IS NOT NULL)
) WITH (
    fillfactor = 85,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off     -- truncation takes an exclusive lock that stalls every claim
);

-- The state that the stages of a claim pass on (see claim).
CREATE TYPE claim_round AS (
    -- about the whole claim:
    now          timestamptz,
    worker       uuid,
    served       text[],    -- the queues that the worker serves (NULL: all)
    queues       text[],    -- the queues to look in
    paused       text[],    -- tasks that are paused
    fair         boolean,   -- groups take turns
    tokens       boolean,   -- some lane has a token
    turns        jsonb,     -- where the turns continue
    since        bigint,    -- look only at jobs with higher ids (NULL: at the front)
    floors       jsonb,     -- where to begin in some of the lanes
    watches      boolean,   -- count what it reads in lanes, because it could begin at floors
    asked        integer,   -- how many jobs it may start
    slots        integer,   -- how many of them can begin now
    wanted       integer,   -- how many it may still start
    lanes_left   integer,   -- how many lanes it may still win
    reach        integer,   -- how many tokens it reads
    holds_none   boolean,   -- no gate, so it may wait for one (see take_slots)
    lost         text[],    -- lanes that other sessions took, or have locked
    missed       text[],    -- lanes that jobs with several lanes have lost
    -- what look_ahead has found:
    ids          bigint[],  -- the jobs to start: free ones, later also the heads
    limited      boolean,   -- some of them have a limit
    lanes        text[],    -- the best that can be acquired (see lane_tokens), at most lanes_left
    seen         bigint[],  -- the tokens of these lanes, in the same order
    behind       bigint[],  -- tokens to block, because another job of their lane is ahead
    behind_locks text[],    -- the lanes of these
    more         boolean,   -- the window was full, or there were more lanes than lanes_left
    widest       bigint,    -- how wide it may become: wider if many jobs in front stay locked
    several      bigint[],  -- the best tokens with several or shared lanes, at most lanes_left / 8
    shut         bigint[],  -- tokens like these that cannot start now, to be blocked
    windows      integer[], -- how many tokens it read in each queue
    short        boolean,   -- other claims took some of the free jobs
    -- what win_heads has won:
    won          text[],    -- lanes that we hold
    retries      bigint[],  -- the jobs that these lanes wait for, or NULL
    heads        bigint[],  -- the next jobs of these lanes that we may start
    used         text[],    -- the lanes in which we start a job
    -- what became of it:
    ahead        boolean,   -- some of the jobs take tokens that come later than now
    kept         bigint[],  -- heads that cannot start and stay tokens
    marked       boolean,   -- some jobs now wait for their limit, or for the end of a pause
    blocked      bigint,    -- how many tokens left the front; NULL: another claim is clearing it
    started      jobs[]     -- by start_several
);

-- Disjoint by predicate: a row is in the primary key and in as few of these as possible.
CREATE INDEX jobs_free ON jobs (queue, priority DESC, id)
    WHERE status = 'todo' AND lock IS NULL AND group_key IS NULL;
CREATE INDEX jobs_heads ON jobs (queue, priority DESC, id)
    WHERE status = 'todo' AND lock IS NOT NULL AND group_key IS NULL;
-- Claims go from group to group here. One index for both free jobs and lane tokens, since each
-- index costs every statement that writes a job. A number tells them apart, since the planner turns
-- a comparison with a constant boolean into something that is not in the index.
CREATE INDEX jobs_turns ON jobs (queue, ((lock IS NULL)::integer), priority DESC, group_key, id)
    WHERE group_key IS NOT NULL AND status = 'todo';
-- Here and below, the cheapest condition comes first: each is checked for each new row.
CREATE INDEX jobs_lane ON jobs (lock, priority DESC, id)
    WHERE lock IS NOT NULL AND keeps_lanes IS NULL
        AND status IN ('todo', 'blocked', 'limited', 'paused');
-- Those that may take a place before jobs that have already run: they had a time to wait for, an
-- attempt, or another priority (see line_from).
CREATE INDEX jobs_back ON jobs (lock, priority, back_id, id)
    WHERE lock IS NOT NULL AND keeps_lanes IS NULL
        AND (fence IS NOT NULL OR scheduled_at IS NOT NULL OR delayed_at IS NOT NULL)
        AND status IN ('todo', 'blocked', 'limited', 'paused');
-- Tokens that came back, for claims that look only at what is new (new_candidates).
CREATE INDEX jobs_returned ON jobs (back_id) WHERE back_id IS NOT NULL AND status = 'todo';
-- Jobs that wait at a gate, as the view gated_jobs names it. Jobs that lanes wait for go first.
CREATE INDEX jobs_gated ON jobs (
    (CASE WHEN status = 'paused' THEN 'task:' || task ELSE 'limit:' || limit_key END), queue,
    (was_attempted AND on_retry = 'hold' AND lock IS NOT NULL) DESC, priority DESC, id)
    INCLUDE (status, task, limit_key)   -- or the planner finds no index-only scan
    WHERE status IN ('limited', 'paused');
CREATE INDEX jobs_running ON jobs (worker_id) WHERE status = 'doing';
CREATE INDEX jobs_due ON jobs (status, scheduled_at) WHERE status IN ('scheduled', 'pending');
-- After the clock was set back, this finds times in the future (see recall_looks).
CREATE INDEX jobs_delayed ON jobs (delayed_at)
    WHERE status = 'scheduled' AND delayed_at IS NOT NULL;
CREATE INDEX jobs_expiring ON jobs (expires_at)
    WHERE expires_at IS NOT NULL AND status <> 'doing' AND NOT was_attempted;
CREATE INDEX jobs_batch ON jobs (batch_id, id) WHERE batch_id IS NOT NULL;
CREATE UNIQUE INDEX jobs_queueing ON jobs (queueing_lock)
    WHERE queueing_lock IS NOT NULL AND status <> 'doing' AND NOT lost_queueing_lock;
CREATE INDEX jobs_keeping ON jobs (id) WHERE keeps_lanes;

-- The lines of lanes, besides jobs_lane: a job with `locks` has a row for each of its lanes after
-- the first, exactly while it is in line.
CREATE TABLE waits (
    lock     lock_name NOT NULL,
    priority integer   NOT NULL,
    id       bigint    NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);

CREATE UNIQUE INDEX waits_lane ON waits (lock, priority DESC, id);
-- If a publication includes a table without an identity, PostgreSQL refuses to change its rows.
ALTER TABLE waits REPLICA IDENTITY USING INDEX waits_lane;

-- A row exists while something keeps others out of a lane: the lane is held, a job goes before all
-- others, or it is stopped. The row is the one and only mutex. Without a state, the lane is as free
-- as without a row: release_lanes keeps the rows of lanes in which an open snapshot makes a search
-- long, and reconcile deletes them.
--
-- The key includes the version (see gates), so it would not keep a lane from having two rows. A
-- session that inserts one locks the lane's name first (lock_key), and then checks again.
CREATE TABLE lanes (
    lock          text        COLLATE "C",
    worker_id     uuid,        -- held: the worker that runs its one job that is `doing`
    job_id        bigint,      -- the job that goes next, before all that wait
    since         timestamptz NOT NULL,
    stopped       lane_state,  -- while it is held, the stop takes effect when the running job ends
    stopped_at    timestamptz,
    stopped_until timestamptz, -- NULL: until a person resumes it
    look_at       timestamptz, -- delayed: when to look again at the job that must become a token
    failed_job_id bigint,      -- halted: the job that failed
    stopped_by    text,
    stop_reason   text,
    readers       integer,     -- how many jobs share it: running, or keeping it for a retry
    version       bigint      NOT NULL DEFAULT 0,   -- as in gates
    state         lane_state  GENERATED ALWAYS AS (
        -- This does not tell whether a reader runs or only keeps its share.
        CASE WHEN worker_id IS NOT NULL THEN 'held'::lane_state
             WHEN stopped IS NOT NULL THEN stopped
             WHEN readers IS NOT NULL THEN 'held'::lane_state
             WHEN job_id IS NOT NULL THEN 'retrying'::lane_state
             WHEN look_at IS NOT NULL THEN 'delayed'::lane_state END
    ) STORED,
    PRIMARY KEY (lock, version),
    CONSTRAINT lanes_held_or_reserved CHECK (num_nonnulls(worker_id, job_id, readers) <= 1),
    CONSTRAINT lanes_readers CHECK (readers > 0),
    CONSTRAINT lanes_stopped CHECK (stopped IN ('paused', 'halted')),
    CONSTRAINT lanes_stopped_when CHECK ((stopped IS NULL) = (stopped_at IS NULL)),
    CONSTRAINT lanes_looked_at CHECK (look_at IS NULL OR (worker_id IS NULL AND stopped IS NULL))
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);

-- One index for both, since a lane has at most one of them. Each claim reads it.
CREATE INDEX lanes_resume ON lanes (coalesce(look_at, stopped_until))
    WHERE coalesce(look_at, stopped_until) IS NOT NULL;
-- For people: finds stopped lanes, however many are in use.
CREATE INDEX lanes_stopped ON lanes (stopped, stopped_at) WHERE stopped IS NOT NULL;

-- Which job comes after which. A row is deleted when the parent succeeds or the child ends.
CREATE TABLE edges (
    parent    bigint        NOT NULL,
    child     bigint        NOT NULL,
    on_parent parent_policy NOT NULL,
    failed    boolean       NOT NULL DEFAULT false,   -- the parent did not succeed: hold
    -- The parent did not exist yet. Only a transaction with a lower id may add it.
    horizon   bigint,
    PRIMARY KEY (parent, child)
) WITH (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);

CREATE INDEX edges_child ON edges (child);

-- The ends of jobs that others come after. A job that ends only adds a row, and never waits. Later
-- claims handle the children (settle_ends).
CREATE TABLE ends (
    seq     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id  bigint      NOT NULL,
    told_at timestamptz NOT NULL,
    look_at timestamptz NOT NULL,   -- not before; later if the children are locked
    status  job_status  NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);

CREATE INDEX ends_job ON ends (job_id, seq);
CREATE INDEX ends_due ON ends (look_at, seq);

-- Jobs whose ends are counted together, and the job that runs when all of them have ended. After a
-- row is created, only claims write to it (settle_batches), so producers and ends never wait.
CREATE TABLE batches (
    id          bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text        NOT NULL,
    callback_id bigint,     -- the job that runs when all have ended (NULL: none)
    opened_at   timestamptz NOT NULL,
    closed_at   timestamptz,
    ended_at    timestamptz,
    total       bigint      NOT NULL DEFAULT 0,   -- as far as a claim has counted batch_events
    succeeded   bigint      NOT NULL DEFAULT 0,
    failed      bigint      NOT NULL DEFAULT 0,
    cancelled   bigint      NOT NULL DEFAULT 0,
    aborted     bigint      NOT NULL DEFAULT 0,
    CONSTRAINT batches_name_length CHECK (octet_length(name) BETWEEN 1 AND 1024)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);

CREATE INDEX batches_ended ON batches (ended_at) WHERE ended_at IS NOT NULL;

-- A row while jobs can join the batch. A transaction in which jobs join shares the row until it
-- ends (FOR KEY SHARE). The claim that ends the batch deletes the row, for which it needs it
-- exclusively. The end therefore comes after all joins, and no job joins a batch that has ended. It
-- is not the row of `batches`, because each update of a shared row would make a multixact.
CREATE TABLE batch_gates (
    batch_id bigint PRIMARY KEY
);

-- What has happened to batches since a claim last counted. Producers and ends only add rows, one
-- for each transaction, batch and event, so they never wait.
CREATE TABLE batch_events (
    batch_id bigint      NOT NULL,
    xact     bigint      NOT NULL,
    event    batch_event NOT NULL,
    jobs     bigint      NOT NULL,   -- how many; negative if they will run again
    at       timestamptz NOT NULL,
    due_at   timestamptz NOT NULL DEFAULT '-infinity',   -- look: not before
    PRIMARY KEY (batch_id, xact, event)
) WITH (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);

CREATE INDEX batch_events_due ON batch_events (due_at);

-- How many jobs of a key may run, and how often one may start. Only set_limit and remove_limit
-- write this table: they wake the jobs that a change lets start. A pattern that ends with `*`
-- applies to every key with this prefix, each by itself.
CREATE TABLE limits (
    pattern text     COLLATE "C" PRIMARY KEY,
    slots   integer,               -- how many may run at once (NULL: any number)
    rate    integer,               -- how many may start in each period (NULL: any number)
    period  interval,
    burst   integer,               -- how many may start at once after a quiet time
    CONSTRAINT limits_pattern CHECK (
        octet_length(pattern) BETWEEN 1 AND 1024
        AND strpos(pattern, '*') IN (0, length(pattern))),
    CONSTRAINT limits_slots CHECK (slots > 0),
    CONSTRAINT limits_rate CHECK (
        (rate > 0 AND period > interval '0' AND burst > 0) IS TRUE
        OR (rate IS NULL AND period IS NULL AND burst IS NULL)),
    CONSTRAINT limits_something CHECK (slots IS NOT NULL OR rate IS NOT NULL)
);
-- the lengths of patterns (see find_limit)
CREATE INDEX limits_lengths ON limits (length(pattern)) WHERE right(pattern, 1) = '*';

-- Where ready jobs wait for something other than their lane: `limit:` and a key, for a slot or a
-- token; or `task:` and a task, for the end of a pause. The row is the mutex of its gate: a job
-- takes a slot, gives it back, and starts to wait under its lock. There need not be a row.
--
-- Every start and end updates the row, and an open snapshot keeps its old versions. Calls made for
-- each job therefore read a key from its highest `version` down, and stop at the current row, and a
-- new version of a row is not compared with all of the old ones. Only some updates raise `version`
-- (next_version): each that does needs new index entries, and cannot be HOT.
CREATE TABLE gates (
    key         text        COLLATE "C",
    used        integer     NOT NULL DEFAULT 0,  -- how many jobs are `doing`
    tokens      double precision,  -- for starts, as of refilled_at; NULL: it has no rate
    refilled_at timestamptz,
    look_at     timestamptz,       -- when a claim must look at the jobs that wait here
    version     bigint      NOT NULL DEFAULT 0,  -- a new row has 0, so no key gets two
    PRIMARY KEY (key, version),
    CONSTRAINT gates_used CHECK (used >= 0)
) WITH (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);

CREATE INDEX gates_look ON gates (look_at) WHERE look_at IS NOT NULL;

-- Gates that the next claims must look at (see leave_looks). People, and claims that do not get a
-- gate, only add a row, so they never wait. The rows of a gate are deleted under its lock.
CREATE TABLE gate_looks (
    key     text COLLATE "C",
    id      uuid DEFAULT gen_random_uuid(),
    left_at timestamptz NOT NULL,
    PRIMARY KEY (key, id)
) WITH (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);

-- How many jobs of a group start in each of its turns. Operators write this table. A pattern that
-- ends with `*` applies to every group with this prefix, each by itself. A group without a row has
-- 1.
CREATE TABLE groups (
    pattern text     COLLATE "C" PRIMARY KEY,
    weight  integer  NOT NULL,
    CONSTRAINT groups_pattern CHECK (
        octet_length(pattern) BETWEEN 1 AND 1024
        AND strpos(pattern, '*') IN (0, length(pattern))),
    CONSTRAINT groups_weight CHECK (weight BETWEEN 1 AND 1000)
);

-- Paused queues, in which no job starts, and paused tasks, whose jobs do not start. Each claim
-- checks whether there is a row. A claim that meets a job of a paused task makes it wait at the
-- gate of the task (status `paused`), so that it holds up no other job.
CREATE TABLE pauses (
    kind      pause_kind,
    name      text        COLLATE "C",   -- '': all queues
    paused_at timestamptz NOT NULL,
    until     timestamptz,      -- NULL: until a person resumes it
    paused_by text        NOT NULL,
    reason    text,
    PRIMARY KEY (kind, name),
    CONSTRAINT pauses_name_length
        CHECK (octet_length(name) BETWEEN (kind = 'task')::integer AND 512)
) WITH (fillfactor = 50);

-- What people changed, and what the reconciler repaired. Changes of jobs and batches have a row
-- only if their author is named.
CREATE TABLE lane_audit (
    id        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        timestamptz NOT NULL,
    who       text        NOT NULL,
    operation text        NOT NULL,
    lock      text        COLLATE "C",    -- of a lane, or the name of a queue, task, limit or group
    jobs      bigint      NOT NULL,       -- how many it changed
    reason    text,
    job_id    bigint,
    batch_id  bigint
);

CREATE INDEX lane_audit_lock ON lane_audit (lock, id);
CREATE INDEX lane_audit_job ON lane_audit (job_id, id) WHERE job_id IS NOT NULL;

-- One row per worker process. Deleting the row makes the worker dead: claim refuses an unknown
-- worker, and rescue takes back the jobs of every worker that has no row.
CREATE TABLE workers (
    id           uuid        PRIMARY KEY,   -- random: a restarted process is a new worker
    name         text        NOT NULL,
    hostname     text        NOT NULL,
    pid          integer     NOT NULL,
    queues       text[],                    -- NULL: all
    tasks        text[],                    -- the tasks it knows; NULL: unknown
    schedules    text[],                    -- the schedules in its code, as task:periodic_id
    concurrency  integer     NOT NULL,
    started_at   timestamptz NOT NULL,
    heartbeat_at timestamptz NOT NULL,
    loop_turned_at timestamptz NOT NULL,    -- the heartbeat's thread continues if the loop blocks
    awake        boolean     NOT NULL DEFAULT false, -- needs no notification (see notify_workers)
    listens      boolean,                   -- notifications wake it; NULL: it wants none
    trouble      text,                      -- why the database refuses its calls; NULL: it does not
    heartbeat_every interval,               -- its heartbeat interval; NULL: unknown
    clock_ahead  interval,                  -- ahead of the server's, at its start; NULL: unknown
    -- For how many days it was told to keep the history. Infinity: for ever. NULL: not told.
    keep_history double precision,
    CONSTRAINT workers_keep_history CHECK (keep_history > 0)
) WITH (fillfactor = 50);

-- Periodic jobs: a row for each (task, periodic_id) that a worker has registered, none for its
-- instants.
CREATE TABLE schedules (
    task         text        COLLATE "C" NOT NULL,
    periodic_id  text        COLLATE "C" NOT NULL,
    cron         text        NOT NULL,
    tz           text        NOT NULL,
    since        timestamptz NOT NULL,   -- when a worker first registered it in its current form
    last_instant timestamptz,            -- only ever rises: no instant fires twice
    last_job_id  bigint,                 -- the job of that instant, which may be gone
    PRIMARY KEY (task, periodic_id),
    CONSTRAINT schedules_periodic_id_length CHECK (octet_length(periodic_id) <= 512)
) WITH (fillfactor = 50);

-- Append-only history, one partition per day, pruned by dropping partitions.
CREATE TABLE finished_jobs (
    id           bigint      NOT NULL,
    fence        bigint,
    worker_id    uuid,
    scheduled_at timestamptz,
    created_at   timestamptz NOT NULL,
    started_at   timestamptz,
    finished_at  timestamptz NOT NULL,
    status       job_status  NOT NULL,
    on_retry     retry_policy   NOT NULL,
    on_failure   failure_policy NOT NULL,
    priority     integer     NOT NULL,
    attempts     integer     NOT NULL,
    queue        text        COLLATE "C" NOT NULL,
    task         text        NOT NULL,
    lock         text        COLLATE "C",
    queueing_lock text       COLLATE "C",
    args         jsonb       NOT NULL,
    errors       jsonb       NOT NULL,
    result       jsonb,      -- what the task returned, or NULL
    timeout      interval,
    expires_at   timestamptz,
    limit_key    text        COLLATE "C",
    group_key    text        COLLATE "C",
    batch_id     bigint,
    locks        text[]      COLLATE "C",
    shared       text[]      COLLATE "C",
    headers      jsonb
) PARTITION BY RANGE (finished_at);

CREATE INDEX finished_jobs_id ON finished_jobs (id);
-- For people: finds recent failures, however many jobs succeeded.
CREATE INDEX finished_jobs_failed ON finished_jobs (finished_at) WHERE status = 'failed';
CREATE INDEX finished_jobs_batch ON finished_jobs (batch_id, id) WHERE batch_id IS NOT NULL;

-- The safety net of the daily partitions: holds jobs that finish on a day without one.
CREATE TABLE finished_jobs_default PARTITION OF finished_jobs DEFAULT;
-- Not inherited: prepare_history sets it for each day.
ALTER TABLE finished_jobs REPLICA IDENTITY FULL;
ALTER TABLE finished_jobs_default REPLICA IDENTITY FULL;

-- How many jobs ended in each five minutes and in each hour, and how long they waited and ran, as
-- histograms (see duration_bin). Only roll_up writes it, from the history.
CREATE TABLE rollups (
    minutes   smallint    NOT NULL,   -- the length of the bucket: 5 or 60
    at        timestamptz NOT NULL,   -- when the bucket began
    queue     text        COLLATE "C" NOT NULL,
    task      text        COLLATE "C" NOT NULL,
    succeeded bigint      NOT NULL,
    failed    bigint      NOT NULL,
    cancelled bigint      NOT NULL,
    aborted   bigint      NOT NULL,
    waits     integer[]   NOT NULL,   -- how many jobs waited for the time of each bin
    runs      integer[]   NOT NULL,
    PRIMARY KEY (minutes, at, queue, task)
) WITH (fillfactor = 80);

-- How far roll_up has counted each day of the history. All rows of transactions before
-- counted_below are counted. A pass under way counts those before counting_below.
CREATE TABLE rollup_days (
    day            date        PRIMARY KEY,
    file           oid         NOT NULL,   -- of the partition: another one has other transactions
    due_at         timestamptz,            -- when the next pass begins; NULL: the day is closed
    counted_below  bigint      NOT NULL DEFAULT 0,
    counted_at     timestamptz,            -- when the last whole pass began
    counting_below bigint,                 -- NULL: no pass is under way
    closing_below  bigint,                 -- the last pass counts all before it; NULL: unknown yet
    begun_at       timestamptz,
    pages          bigint      NOT NULL DEFAULT 0,   -- how many the pass has to read
    next_page      bigint      NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- Ends that left the history before they were counted, because the job was retried or deleted.
CREATE TABLE uncounted_ends (
    day          date        NOT NULL,
    page         bigint      NOT NULL,   -- where the row was in the partition of the day
    xact         bigint      NOT NULL,   -- the transaction that added it there
    queue        text        COLLATE "C" NOT NULL,
    task         text        NOT NULL,
    status       job_status  NOT NULL,
    created_at   timestamptz NOT NULL,
    scheduled_at timestamptz,
    started_at   timestamptz,
    finished_at  timestamptz NOT NULL
);

CREATE INDEX uncounted_ends_place ON uncounted_ends (day, page);
ALTER TABLE uncounted_ends REPLICA IDENTITY FULL;

-- How far jobs are, as reported by their tasks. A job whose task reports nothing has no row.
-- Nothing refers to the row, so it outlives the job for a while (see prune_progress). The fence
-- names the attempt: the row does not apply to a later one.
CREATE TABLE progress (
    job_id     bigint      PRIMARY KEY,
    fence      bigint      NOT NULL,
    done       bigint      NOT NULL,
    total      bigint,
    text       text,
    updated_at timestamptz NOT NULL,
    CONSTRAINT progress_counts CHECK (done >= 0 AND total >= 0),
    CONSTRAINT progress_text_length CHECK (length(text) <= 200)
) WITH (
    fillfactor = 50,   -- room for a new version beside each row, so that no index is touched
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0,
    vacuum_truncate = off
);

-- The highest fence that a resource of the user's has seen (see check_fence).
CREATE TABLE fences_seen (
    resource text   COLLATE "C" PRIMARY KEY,
    token    bigint NOT NULL,
    CONSTRAINT fences_seen_resource_length CHECK (octet_length(resource) BETWEEN 1 AND 1024)
) WITH (fillfactor = 50);

-- The database roles that have the rights of a producer, worker, operator or monitor (see
-- grant_to). Each migration grants them again. Names rather than oids, so that a backup can be
-- restored on a server without these roles.
CREATE TABLE granted_roles (
    role text COLLATE "C" PRIMARY KEY,
    kind text NOT NULL,
    CONSTRAINT granted_roles_kind CHECK (kind IN ('producer', 'worker', 'operator', 'monitor'))
);

-- If this schema is a cell: its number, the number of cells, and their map (docs/cells.md). At most
-- one row.
CREATE TABLE cell (
    number integer PRIMARY KEY,
    of     integer NOT NULL,
    map    uuid    NOT NULL,   -- the same in all cells of a queue
    home   text    NOT NULL,   -- the database; a copy elsewhere must not serve the cell too
    CONSTRAINT cell_number CHECK (number >= 0 AND number < of AND of <= 1024)
);

-- Which functions and views were applied, so that a worker can tell whether it knows them.
CREATE TABLE applied_code (
    checksum   text        PRIMARY KEY,
    applied_at timestamptz NOT NULL
);
