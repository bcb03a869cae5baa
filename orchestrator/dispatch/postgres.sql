-- What procrastinate does not know of a run's slices, beside procrastinate's own tables in the database of the trace. A line of
-- `slices` stands for an open run, with exactly one job: `todo` while nobody holds the run, `doing` while `worker` does. `at` is
-- when the run is due, 0 when it is so by any clock; `since` when it was last put into the queue.

-- [migration 1]
CREATE TABLE lanes (
    name text COLLATE "C" PRIMARY KEY,
    tenant text NOT NULL,
    needs text NOT NULL
);
CREATE TABLE slices (
    run_id text COLLATE "C" PRIMARY KEY REFERENCES runs ON DELETE CASCADE,
    job_id bigint NOT NULL,
    tenant text NOT NULL,
    lane text COLLATE "C" NOT NULL,
    priority integer NOT NULL,
    at double precision NOT NULL,
    since double precision NOT NULL,
    worker bigint,
    epoch bigint NOT NULL DEFAULT 0,
    woken boolean NOT NULL DEFAULT false,
    parked boolean NOT NULL DEFAULT false,
    approval boolean NOT NULL DEFAULT false
) WITH (fillfactor = 70);
CREATE INDEX slices_held ON slices (worker, tenant) WHERE worker IS NOT NULL;
CREATE INDEX slices_by_lane ON slices (lane, at) WHERE worker IS NULL;
CREATE TABLE slice_keys (
    tenant text NOT NULL,
    key text NOT NULL,
    run_id text COLLATE "C" NOT NULL REFERENCES runs ON DELETE CASCADE,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX slice_keys_by_run ON slice_keys (run_id);

-- [migration 2]
CREATE TABLE worker_abilities (
    worker bigint PRIMARY KEY REFERENCES procrastinate_workers ON DELETE CASCADE,
    has text NOT NULL
);

-- [lock schema]
SELECT pg_advisory_xact_lock(hashtext('orchestrator schema'));

-- [version table]
CREATE TABLE IF NOT EXISTS dispatch_schema (version integer NOT NULL);

-- [version]
SELECT coalesce(max(version), 0) FROM dispatch_schema;

-- [set version]
INSERT INTO dispatch_schema VALUES (%s);

-- [submit]
WITH known AS (
    INSERT INTO lanes (name, tenant, needs) VALUES (%s::text, %s::text, %s::text) ON CONFLICT DO NOTHING
), job AS (
    SELECT unnest(procrastinate_defer_jobs_v1(ARRAY[
        ROW(%s::varchar, %s::varchar, %s::integer, NULL, %s::text, %s::jsonb, to_timestamp(%s::float8))
    ]::procrastinate_job_to_defer_v1[])) AS id
)
INSERT INTO slices (run_id, job_id, tenant, lane, priority, at, since)
SELECT %s::text, job.id, %s::text, %s::text, %s::integer, %s::float8, %s::float8 FROM job;

-- [key]
INSERT INTO slice_keys (tenant, key, run_id) VALUES (%s, %s, %s);

-- [keyed]
SELECT run_id FROM slice_keys WHERE tenant = %s AND key = %s;

-- [known worker]
SELECT 1 FROM procrastinate_workers WHERE id = %s AND last_heartbeat >= now() - make_interval(secs => %s::float8);

-- [able]
INSERT INTO worker_abilities (worker, has) VALUES (%s, %s) ON CONFLICT (worker) DO UPDATE SET has = excluded.has;

-- [due needs]
SELECT lanes.needs FROM slices JOIN lanes ON lanes.name = slices.lane
WHERE slices.run_id = %s AND slices.worker IS NULL AND slices.at <= %s::float8;

-- [abilities]
SELECT able.has FROM worker_abilities able JOIN procrastinate_workers known ON known.id = able.worker
WHERE known.last_heartbeat >= now() - make_interval(secs => %s::float8);

-- [in order]
SELECT set_config('enable_sort', 'off', true), set_config('enable_bitmapscan', 'off', true);

-- [lock claims]
SELECT pg_advisory_xact_lock(hashtext('orchestrator claims'));

-- [held]
SELECT tenant, count(*) FROM slices WHERE worker IS NOT NULL GROUP BY tenant;

-- [lanes]
SELECT lanes.name, lanes.tenant, lanes.needs, ready.count FROM lanes, LATERAL (
    SELECT count(*) AS count FROM (
        SELECT 1 FROM slices WHERE slices.lane = lanes.name AND worker IS NULL AND at <= %(now)s::float8 LIMIT %(most)s
    ) AS due
) AS ready
WHERE ready.count > 0;

-- [hold]
WITH bumped AS (
    UPDATE runs SET epoch = epoch + 1 WHERE run_id = ANY(%(runs)s) RETURNING run_id, epoch
)
UPDATE slices SET worker = %(worker)s, epoch = bumped.epoch, woken = false, parked = false, approval = false
FROM bumped WHERE slices.run_id = bumped.run_id
RETURNING slices.run_id, slices.epoch, slices.tenant;

-- [done]
WITH ended AS (
    DELETE FROM slices USING unnest(%(runs)s::text[], %(epochs)s::bigint[]) AS told (run_id, epoch)
    WHERE slices.run_id = told.run_id AND slices.epoch = told.epoch AND slices.worker = %(worker)s
    RETURNING slices.job_id
)
SELECT ended.job_id FROM ended JOIN procrastinate_jobs job ON job.id = ended.job_id AND job.status IN ('todo', 'doing');

-- [soon]
SET LOCAL synchronous_commit = off;

-- [mine]
SELECT run_id, job_id, lane, priority, woken FROM slices WHERE run_id = %s AND worker = %s AND epoch = %s FOR UPDATE;

-- [line]
SELECT run_id, job_id, lane, priority, worker IS NOT NULL, at > 0 FROM slices WHERE run_id = %s FOR UPDATE;

-- [put]
UPDATE slices SET job_id = %s, worker = NULL, woken = false, at = %s, since = %s, parked = %s, approval = %s WHERE run_id = %s;

-- [wake holder]
UPDATE slices SET woken = true WHERE run_id = %s;

-- [notify]
SELECT pg_notify('orchestrator_slices', %s::text);

-- [woken]
UPDATE slices SET woken = false WHERE worker = %s AND woken AND run_id = ANY(%s) RETURNING run_id;

-- [fence]
UPDATE runs SET epoch = epoch + 1 WHERE run_id = ANY(%s);

-- [held lines]
SELECT run_id, job_id, lane, priority FROM slices WHERE worker IS NOT NULL AND job_id = ANY(%s) FOR UPDATE;

-- [held by]
SELECT run_id, job_id FROM slices WHERE worker = %s;

-- [lock sweep]
SELECT pg_advisory_xact_lock(hashtext('orchestrator sweep'));

-- [lost runs]
SELECT runs.run_id, runs.tenant, entries.body FROM runs
JOIN entries ON entries.run_id = runs.run_id AND entries.seq = 1
WHERE runs.outcome IS NULL AND NOT EXISTS (SELECT 1 FROM slices WHERE slices.run_id = runs.run_id)
LIMIT %s;

-- [lost run]
SELECT runs.run_id, runs.tenant, entries.body FROM runs
JOIN entries ON entries.run_id = runs.run_id AND entries.seq = 1
WHERE runs.run_id = %s AND runs.outcome IS NULL AND NOT EXISTS (SELECT 1 FROM slices WHERE slices.run_id = runs.run_id);

-- [lost jobs]
SELECT slices.run_id, slices.job_id, slices.lane, slices.priority FROM slices
LEFT JOIN procrastinate_jobs job ON job.id = slices.job_id
WHERE slices.worker IS NULL AND job.status IS DISTINCT FROM 'todo'
FOR UPDATE OF slices;

-- [decided]
SELECT slices.run_id, slices.job_id, slices.lane, slices.priority FROM slices
JOIN runs ON runs.run_id = slices.run_id
JOIN procrastinate_jobs job ON job.id = slices.job_id AND job.status = 'todo'
WHERE slices.worker IS NULL AND slices.parked AND slices.at > %s::float8 AND runs.outcome IS NULL AND runs.last_kind = 'decision'
FOR UPDATE OF slices;

-- [drop ended]
DELETE FROM slices USING runs
WHERE runs.run_id = slices.run_id AND runs.outcome IS NOT NULL AND slices.worker IS NULL
RETURNING slices.job_id;

-- [depth]
SELECT
    count(*) FILTER (WHERE worker IS NULL AND at <= %(now)s::float8),
    coalesce(greatest(0, %(now)s::float8 - min(greatest(at, since)) FILTER (WHERE worker IS NULL AND at <= %(now)s::float8)), 0),
    count(*) FILTER (WHERE worker IS NULL AND NOT parked AND at > %(now)s::float8),
    count(*) FILTER (WHERE worker IS NOT NULL),
    count(*) FILTER (WHERE worker IS NULL AND parked AND at > %(now)s::float8),
    count(*) FILTER (WHERE worker IS NULL AND approval AND at > %(now)s::float8),
    (SELECT count(*) FROM procrastinate_workers WHERE last_heartbeat >= now() - make_interval(secs => %(lease)s::float8))
FROM slices;
