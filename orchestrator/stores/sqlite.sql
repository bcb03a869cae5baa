-- The trace in one SQLite file. A queue that shares the file adds its tables as the next migration.

-- [migration 1]
CREATE TABLE runs (
    run_id TEXT PRIMARY KEY NOT NULL,
    agent TEXT NOT NULL DEFAULT '',
    tenant TEXT NOT NULL DEFAULT '',
    goal TEXT NOT NULL DEFAULT '',
    protocol TEXT NOT NULL DEFAULT '',
    model TEXT NOT NULL DEFAULT '',
    kind TEXT,
    started_at REAL NOT NULL DEFAULT 0,
    ended_at REAL,
    outcome TEXT,
    steps INTEGER NOT NULL DEFAULT 0,
    last_seq INTEGER NOT NULL DEFAULT 0,
    last_at REAL NOT NULL DEFAULT 0,
    last_kind TEXT NOT NULL DEFAULT '',
    epoch INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX runs_by_start ON runs (started_at, run_id);
CREATE INDEX runs_by_tenant ON runs (tenant, started_at, run_id);
CREATE INDEX runs_by_outcome ON runs (outcome, started_at, run_id);
CREATE INDEX runs_by_end ON runs (ended_at) WHERE ended_at IS NOT NULL;
CREATE TABLE entries (
    run_id TEXT NOT NULL,
    seq INTEGER NOT NULL,
    at REAL NOT NULL,
    epoch INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
);
CREATE TABLE blobs (
    digest TEXT NOT NULL,
    run_id TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (digest, run_id)
);
CREATE INDEX blobs_by_run ON blobs (run_id);

-- [migration 2]
ALTER TABLE runs ADD COLUMN head BLOB;
ALTER TABLE entries ADD COLUMN hash BLOB;
CREATE TABLE hashing (since REAL NOT NULL);
INSERT INTO hashing
SELECT CASE WHEN EXISTS (SELECT 1 FROM entries) THEN (julianday('now') - 2440587.5) * 86400.0 ELSE 0.0 END;

-- [heads]
SELECT json_group_array(json_array(run_id, last_seq, epoch, hex(head))) FROM json_each(?) CROSS JOIN runs ON run_id = value;

-- [begin]
INSERT INTO runs (run_id, started_at, last_at, last_kind, last_seq, steps, head, agent, tenant, goal, protocol, model, kind)
VALUES /* rows */
ON CONFLICT (run_id) DO UPDATE SET
    started_at = excluded.started_at, last_at = excluded.last_at, last_kind = excluded.last_kind,
    last_seq = excluded.last_seq, steps = excluded.steps, head = excluded.head, agent = excluded.agent, tenant = excluded.tenant,
    goal = excluded.goal, protocol = excluded.protocol, model = excluded.model, kind = excluded.kind;

-- [advance]
INSERT INTO runs (run_id, last_at, last_kind, last_seq, steps, head) VALUES /* rows */
ON CONFLICT (run_id) DO UPDATE SET
    last_at = excluded.last_at, last_kind = excluded.last_kind, last_seq = excluded.last_seq, steps = steps + excluded.steps,
    head = excluded.head;

-- [finish]
INSERT INTO runs (run_id, ended_at, outcome) VALUES /* rows */
ON CONFLICT (run_id) DO UPDATE SET ended_at = excluded.ended_at, outcome = excluded.outcome;

-- [enter]
INSERT INTO entries (run_id, seq, at, epoch, body, hash) VALUES /* rows */;

-- [keep]
INSERT INTO blobs (digest, run_id, body) VALUES (?, ?, ?) ON CONFLICT DO NOTHING;

-- [bump]
INSERT INTO runs (run_id, epoch) VALUES (?, 1) ON CONFLICT (run_id) DO UPDATE SET epoch = epoch + 1;

-- [epoch]
SELECT epoch FROM runs WHERE run_id = ?;

-- [read]
SELECT seq, at, body FROM entries WHERE run_id = ? AND seq > ? ORDER BY seq LIMIT ?;

-- [blob]
SELECT body FROM blobs WHERE digest = ? LIMIT 1;

-- [row]
SELECT run_id, agent, tenant, goal, protocol, model, kind, started_at, ended_at, outcome, steps, last_seq, last_at, last_kind, epoch
FROM runs WHERE run_id = ? AND last_seq > 0;

-- [evidence line]
SELECT run_id, agent, tenant, goal, protocol, model, kind, started_at, ended_at, outcome, steps, last_seq, last_at, last_kind, epoch, CAST(head AS BLOB)
FROM runs WHERE run_id = ? AND last_seq > 0;

-- [evidence entries]
SELECT seq, at, epoch, CAST(body AS BLOB), CAST(hash AS BLOB) FROM entries WHERE run_id = ? ORDER BY seq;

-- [evidence bodies]
SELECT digest, CAST(body AS BLOB) FROM blobs WHERE run_id = ? ORDER BY digest;

-- [evidence since]
SELECT coalesce(max(since), 0.0) FROM hashing;

-- [traced]
SELECT run_id FROM runs WHERE last_seq > 0 AND started_at >= :since
UNION SELECT run_id FROM entries WHERE run_id NOT IN (SELECT run_id FROM runs WHERE last_seq > 0)
UNION SELECT run_id FROM blobs WHERE run_id NOT IN (SELECT run_id FROM runs WHERE last_seq > 0);

-- [list]
SELECT run_id, agent, tenant, goal, protocol, model, kind, started_at, ended_at, outcome, steps, last_seq, last_at, last_kind, epoch
FROM runs WHERE last_seq > 0/* filters */ ORDER BY started_at DESC, run_id DESC LIMIT :limit;

-- [old]
SELECT run_id FROM runs WHERE ended_at < ? ORDER BY ended_at LIMIT ?;

-- [forget entries]
DELETE FROM entries WHERE run_id = ?;

-- [forget blobs]
DELETE FROM blobs WHERE run_id = ?;

-- [forget runs]
DELETE FROM runs WHERE run_id = ?;
