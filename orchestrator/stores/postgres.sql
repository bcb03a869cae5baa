-- The trace in PostgreSQL, for many machines. Bodies are bytea: JSON that may hold what jsonb and text refuse (\u0000, lone
-- surrogates); beyond 2 KB the server itself moves and compresses them out of line (TOAST), so they need no table of ours.

-- [migration 1]
CREATE TABLE runs (
    run_id text COLLATE "C" PRIMARY KEY,
    agent text NOT NULL DEFAULT '',
    tenant text NOT NULL DEFAULT '',
    goal text NOT NULL DEFAULT '',
    protocol text NOT NULL DEFAULT '',
    model text NOT NULL DEFAULT '',
    kind text,
    started_at double precision NOT NULL DEFAULT 0,
    ended_at double precision,
    outcome text,
    steps bigint NOT NULL DEFAULT 0,
    last_seq bigint NOT NULL DEFAULT 0,
    last_at double precision NOT NULL DEFAULT 0,
    last_kind text NOT NULL DEFAULT '',
    epoch bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 70);
CREATE INDEX runs_by_start ON runs (started_at, run_id);
CREATE INDEX runs_by_tenant ON runs (tenant, started_at, run_id);
CREATE INDEX runs_by_outcome ON runs (outcome, started_at, run_id);
CREATE INDEX runs_by_end ON runs (ended_at) WHERE ended_at IS NOT NULL;
CREATE TABLE entries (
    run_id text COLLATE "C" NOT NULL,
    seq bigint NOT NULL,
    at double precision NOT NULL,
    epoch bigint NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (run_id, seq)
);
CREATE TABLE blobs (
    digest text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (digest, run_id)
);
CREATE INDEX blobs_by_run ON blobs (run_id);

-- [migration 2]
ALTER TABLE runs ADD COLUMN head bytea;
ALTER TABLE entries ADD COLUMN hash bytea;
CREATE TABLE hashing (since double precision NOT NULL);
INSERT INTO hashing
SELECT CASE WHEN EXISTS (SELECT 1 FROM entries) THEN extract(epoch FROM clock_timestamp())::float8 ELSE 0 END;

-- [lock schema]
SELECT pg_advisory_xact_lock(hashtext('orchestrator schema'));

-- [version table]
CREATE TABLE IF NOT EXISTS orchestrator_schema (version integer NOT NULL);

-- [version]
SELECT coalesce(max(version), 0) FROM orchestrator_schema;

-- [set version]
INSERT INTO orchestrator_schema VALUES (%s);

-- [configure]
SELECT
    set_config('idle_in_transaction_session_timeout', '4s', false),
    CASE current_setting('synchronous_commit') WHEN 'off' THEN set_config('synchronous_commit', 'on', false) END;

-- [append]
-- `chain` is what the append adds to its run's hash chain in one piece, 36 bytes a hash; the last of them, with the seal behind it, is the head.
WITH incoming AS (
    SELECT * FROM unnest(
        %(run_id)s::text[], %(seq)s::bigint[], %(last)s::bigint[], %(epoch)s::bigint[], %(at)s::float8[],
        %(last_kind)s::text[], %(steps)s::bigint[], %(ended_at)s::float8[], %(outcome)s::text[],
        %(agent)s::text[], %(tenant)s::text[], %(goal)s::text[], %(protocol)s::text[], %(model)s::text[], %(kind)s::text[],
        %(before)s::bytea[], %(chain)s::bytea[]
    ) AS i (run_id, seq, last, epoch, at, last_kind, steps, ended_at, outcome, agent, tenant, goal, protocol, model, kind, before, chain)
), moved AS (
    UPDATE runs SET
        last_seq = i.last, last_at = i.at, last_kind = i.last_kind, steps = runs.steps + i.steps,
        ended_at = coalesce(i.ended_at, runs.ended_at), outcome = coalesce(i.outcome, runs.outcome),
        head = substr(i.chain, 36 * (i.last - i.seq - 1)::int + 1)
    FROM incoming i
    WHERE i.seq > 0 AND runs.run_id = i.run_id AND runs.last_seq = i.seq AND runs.epoch <= i.epoch
        AND coalesce(runs.head, '') = i.before
    RETURNING runs.run_id
), begun AS (
    INSERT INTO runs (run_id, last_seq, started_at, last_at, last_kind, steps, ended_at, outcome, agent, tenant, goal, protocol, model, kind, head)
    SELECT run_id, last, at, at, last_kind, steps, ended_at, outcome, agent, tenant, goal, protocol, model, kind,
        substr(chain, 36 * (last - 1)::int + 1)
    FROM incoming WHERE seq = 0
    ON CONFLICT (run_id) DO UPDATE SET
        last_seq = excluded.last_seq, started_at = excluded.started_at, last_at = excluded.last_at,
        last_kind = excluded.last_kind, steps = excluded.steps, ended_at = excluded.ended_at, outcome = excluded.outcome,
        agent = excluded.agent, tenant = excluded.tenant, goal = excluded.goal, protocol = excluded.protocol,
        model = excluded.model, kind = excluded.kind, head = excluded.head
    WHERE runs.last_seq = 0 AND runs.epoch <= (SELECT i.epoch FROM incoming i WHERE i.run_id = runs.run_id)
    RETURNING runs.run_id
), taken AS (
    SELECT run_id FROM moved UNION ALL SELECT run_id FROM begun
), entered AS (
    INSERT INTO entries (run_id, seq, at, epoch, body, hash)
    SELECT e.run_id, e.seq, i.at, i.epoch, e.body, substr(i.chain, 36 * (e.seq - i.seq - 1)::int + 1, 36)
    FROM unnest(%(entry_run)s::text[], %(entry_seq)s::bigint[], %(entry_body)s::bytea[]) AS e (run_id, seq, body)
    JOIN incoming i ON i.run_id = e.run_id
    WHERE e.run_id IN (SELECT run_id FROM taken)
), kept AS (
    INSERT INTO blobs (digest, run_id, body)
    SELECT b.digest, b.run_id, b.body
    FROM unnest(%(blob_digest)s::text[], %(blob_run)s::text[], %(blob_body)s::bytea[]) AS b (digest, run_id, body)
    WHERE b.run_id IN (SELECT run_id FROM taken)
    ON CONFLICT DO NOTHING
)
SELECT run_id FROM taken;

-- [heads]
SELECT run_id, last_seq, epoch, coalesce(head, '') FROM runs WHERE run_id = ANY(%s);

-- [written]
SELECT at, epoch, body FROM entries WHERE run_id = %s AND seq > %s AND seq <= %s ORDER BY seq;

-- [bump]
INSERT INTO runs (run_id, epoch) VALUES (%s, 1) ON CONFLICT (run_id) DO UPDATE SET epoch = runs.epoch + 1 RETURNING epoch;

-- [read several]
SELECT asked.place, found.seq, found.at, found.body
FROM unnest(%s::text[], %s::bigint[]) WITH ORDINALITY AS asked(run_id, after, place)
CROSS JOIN LATERAL (
    SELECT seq, at, body FROM entries WHERE run_id = asked.run_id AND seq > asked.after ORDER BY seq
) AS found
ORDER BY asked.place, found.seq;

-- [read]
SELECT seq, at, body FROM entries WHERE run_id = %s AND seq > %s ORDER BY seq LIMIT %s;

-- [blob]
SELECT body FROM blobs WHERE digest = %s LIMIT 1;

-- [row]
SELECT run_id, agent, tenant, goal, protocol, model, kind, started_at, ended_at, outcome, steps, last_seq, last_at, last_kind, epoch
FROM runs WHERE run_id = %s AND last_seq > 0;

-- [snapshot]
SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY;

-- [evidence line]
SELECT run_id, agent, tenant, goal, protocol, model, kind, started_at, ended_at, outcome, steps, last_seq, last_at, last_kind, epoch, head
FROM runs WHERE run_id = %s AND last_seq > 0;

-- [evidence entries]
SELECT seq, at, epoch, body, hash FROM entries WHERE run_id = %s ORDER BY seq;

-- [evidence body names]
SELECT digest FROM blobs WHERE run_id = %s ORDER BY digest;

-- [evidence body]
SELECT body FROM blobs WHERE run_id = %s AND digest = %s;

-- [evidence since]
SELECT coalesce(max(since), 0) FROM hashing;

-- [traced]
SELECT run_id FROM runs WHERE last_seq > 0 AND started_at >= %(since)s
UNION SELECT run_id FROM entries e WHERE NOT EXISTS (SELECT FROM runs r WHERE r.run_id = e.run_id AND r.last_seq > 0)
UNION SELECT run_id FROM blobs b WHERE NOT EXISTS (SELECT FROM runs r WHERE r.run_id = b.run_id AND r.last_seq > 0);

-- [list]
SELECT run_id, agent, tenant, goal, protocol, model, kind, started_at, ended_at, outcome, steps, last_seq, last_at, last_kind, epoch
FROM runs WHERE last_seq > 0/* filters */ ORDER BY started_at DESC, run_id DESC LIMIT %(limit)s;

-- [purge]
WITH old AS (
    SELECT run_id FROM runs WHERE ended_at < %s ORDER BY ended_at LIMIT %s FOR UPDATE SKIP LOCKED
), without_entries AS (
    DELETE FROM entries USING old WHERE entries.run_id = old.run_id
), without_blobs AS (
    DELETE FROM blobs USING old WHERE blobs.run_id = old.run_id
)
DELETE FROM runs USING old WHERE runs.run_id = old.run_id;

-- [listen]
LISTEN orchestrator_entries;

-- [notify]
SELECT pg_notify('orchestrator_entries', %s);
