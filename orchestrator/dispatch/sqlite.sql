-- The queue beside the trace, in the same SQLite file. The rules are those of ticket.py; `rank` is the negative priority.

-- [migration 1]
CREATE TABLE queue (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    key TEXT,
    rank INTEGER NOT NULL,
    needs TEXT NOT NULL,
    state TEXT NOT NULL,
    at REAL NOT NULL,
    since REAL NOT NULL,
    worker TEXT NOT NULL DEFAULT '',
    epoch INTEGER NOT NULL DEFAULT 0,
    woken INTEGER NOT NULL DEFAULT 0,
    approval INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX queue_ready ON queue (rank, number) WHERE state = 'queued';
CREATE INDEX queue_timed ON queue (at) WHERE state IN ('later', 'waiting');
CREATE INDEX queue_held ON queue (worker, tenant) WHERE state = 'held';
CREATE TABLE queue_keys (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (tenant, key)
) WITHOUT ROWID;
CREATE INDEX queue_keys_by_run ON queue_keys (run_id);
CREATE TABLE queue_needs (needs TEXT PRIMARY KEY NOT NULL) WITHOUT ROWID;
CREATE TABLE workers (worker TEXT PRIMARY KEY NOT NULL, beat REAL NOT NULL) WITHOUT ROWID;
CREATE TRIGGER queue_submitted AFTER INSERT ON queue WHEN new.key IS NOT NULL BEGIN INSERT INTO queue_keys (tenant, key, run_id) VALUES (new.tenant, new.key, new.run_id); END;
CREATE TRIGGER queue_needing AFTER INSERT ON queue BEGIN INSERT OR IGNORE INTO queue_needs (needs) VALUES (new.needs); END;
CREATE TRIGGER queue_forgotten AFTER DELETE ON runs BEGIN DELETE FROM queue_keys WHERE run_id = old.run_id; DELETE FROM queue WHERE run_id = old.run_id; END;

-- [migration 2]
ALTER TABLE workers ADD COLUMN has TEXT;

-- [version table]
CREATE TABLE IF NOT EXISTS dispatch_schema (version INTEGER NOT NULL);

-- [version]
SELECT coalesce(max(version), 0) FROM dispatch_schema;

-- [set version]
INSERT INTO dispatch_schema VALUES (?);

-- [submit]
INSERT INTO queue (run_id, tenant, key, rank, needs, state, at, since) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- [keyed]
SELECT run_id FROM queue_keys WHERE tenant = ? AND key = ?;

-- [mature]
UPDATE queue SET state = 'queued', since = at, approval = 0 WHERE state IN ('later', 'waiting') AND at <= ?;

-- [held]
SELECT tenant, count(*) FROM queue WHERE state = 'held' GROUP BY tenant;

-- [needs]
SELECT needs FROM queue_needs;

-- [ready]
SELECT run_id, tenant FROM queue
WHERE state = 'queued' AND needs IN (SELECT value FROM json_each(:fit)) AND tenant NOT IN (SELECT value FROM json_each(:full))
ORDER BY rank, number LIMIT :page;

-- [fence]
INSERT INTO runs (run_id, epoch) SELECT value, 1 FROM json_each(?) WHERE true ON CONFLICT (run_id) DO UPDATE SET epoch = epoch + 1;

-- [claim]
UPDATE queue SET
    state = 'held', worker = :worker, woken = 0, since = :now,
    epoch = (SELECT runs.epoch FROM runs WHERE runs.run_id = queue.run_id)
WHERE run_id IN (SELECT value FROM json_each(:chosen))
RETURNING run_id, epoch, tenant;

-- [done]
DELETE FROM queue WHERE run_id = :run_id AND worker = :worker AND epoch = :epoch AND state = 'held';

-- [park]
UPDATE queue SET
    state = CASE woken WHEN 0 THEN 'waiting' ELSE 'queued' END, at = :until, since = :now, worker = '',
    approval = CASE woken WHEN 0 THEN :approval ELSE 0 END, woken = 0
WHERE run_id = :run_id AND worker = :worker AND epoch = :epoch AND state = 'held';

-- [release]
UPDATE queue SET state = 'queued', since = :now, worker = '', woken = 0
WHERE run_id = :run_id AND worker = :worker AND epoch = :epoch AND state = 'held';

-- [wake]
UPDATE queue SET
    woken = state = 'held',
    since = CASE WHEN state IN ('later', 'waiting') THEN :now ELSE since END,
    state = CASE state WHEN 'held' THEN 'held' ELSE 'queued' END,
    approval = 0
WHERE run_id = :run_id;

-- [woken]
SELECT run_id FROM queue
WHERE state = 'held' AND worker = :worker AND woken AND run_id IN (SELECT value FROM json_each(:held));

-- [heard]
UPDATE queue SET woken = 0 WHERE run_id IN (SELECT value FROM json_each(:heard)) AND worker = :worker;

-- [register]
INSERT INTO workers (worker, beat) VALUES (?, ?) ON CONFLICT (worker) DO UPDATE SET beat = excluded.beat;

-- [able]
UPDATE workers SET has = ? WHERE worker = ?;

-- [due needs]
SELECT needs FROM queue
WHERE run_id = :run_id AND (state = 'queued' OR state IN ('later', 'waiting') AND at <= :now);

-- [abilities]
SELECT has FROM workers WHERE beat >= :live AND has IS NOT NULL;

-- [registered]
SELECT 1 FROM workers WHERE worker = ?;

-- [sign off]
DELETE FROM workers WHERE worker = ?;

-- [orphans]
SELECT run_id FROM queue WHERE state = 'held' AND worker NOT IN (SELECT worker FROM workers WHERE beat >= ?);

-- [forget workers]
DELETE FROM workers WHERE beat < ?;

-- [held by]
SELECT run_id FROM queue WHERE state = 'held' AND worker = ?;

-- [put back]
UPDATE queue SET state = 'queued', since = :now, worker = '', woken = 0
WHERE run_id IN (SELECT value FROM json_each(:lost));

-- [lost runs]
SELECT runs.run_id, runs.tenant, entries.body FROM runs
JOIN entries ON entries.run_id = runs.run_id AND entries.seq = 1
WHERE runs.outcome IS NULL AND NOT EXISTS (SELECT 1 FROM queue WHERE queue.run_id = runs.run_id)
LIMIT ?;

-- [lost run]
SELECT runs.run_id, runs.tenant, entries.body FROM runs
JOIN entries ON entries.run_id = runs.run_id AND entries.seq = 1
WHERE runs.run_id = ? AND runs.outcome IS NULL;

-- [decided]
SELECT queue.run_id FROM queue JOIN runs ON runs.run_id = queue.run_id
WHERE queue.state = 'waiting' AND runs.outcome IS NULL AND runs.last_kind = 'decision';

-- [drop ended]
DELETE FROM queue
WHERE state != 'held' AND run_id IN (SELECT queue.run_id FROM queue JOIN runs ON runs.run_id = queue.run_id WHERE runs.outcome IS NOT NULL);

-- [depth]
SELECT
    coalesce(sum(state = 'queued' OR state IN ('later', 'waiting') AND at <= :now), 0),
    coalesce(:now - min(CASE WHEN state = 'queued' THEN since WHEN state IN ('later', 'waiting') AND at <= :now THEN at END), 0),
    coalesce(sum(state = 'later' AND at > :now), 0),
    coalesce(sum(state = 'held'), 0),
    coalesce(sum(state = 'waiting' AND at > :now), 0),
    coalesce(sum(state = 'waiting' AND approval AND at > :now), 0),
    (SELECT count(*) FROM workers WHERE beat >= :live)
FROM queue;
