"""*Worker*: is work being done, how fast, and what holds it up? From the queue through the model to the store and the process."""

from __future__ import annotations

from dashboards.panel import Panel, Query, Row
from dashboards.rules import RULES

JOB = 'instance=~"$instance"'
PERCENT = "percentunit"


def _quantile(of: float, metric: str, by: str = "") -> str:
    labels = f"{by}, le" if by else "le"
    return f"histogram_quantile({of}, sum by ({labels}) (rate({metric}_bucket{{{JOB}}}[$__rate_interval])))"


def _rule(name: str, panel: Panel) -> Panel:
    return panel.limited(RULES[name])


NOW = Row(
    "Is work being done?",
    (
        Panel(
            "Workers",
            "Workers heard of within their lease. Red (none): nothing that is submitted is done; see the process manager, then the worker's log. Runbook: worker_absent.",
            (Query("max(orchestrator_workers)"),), "none", "stat", 3, 5, limit=1, below=True, decimals=0,
        ),
        _rule("queue_age", Panel(
            "Oldest in queue",
            "How long the longest-queued run has waited for a worker. Red (above 60 s): too few workers, or they hang; see Runs in hand and the event loop. Runbook: queue_age.",
            (Query("max(orchestrator_queue_oldest_seconds)"),), "s", "stat", 4, 5, decimals=0,
        )),
        Panel(
            "Slots in use",
            "Runs being driven over those that may be. Red (above 90 %): add workers, or raise worker.concurrency if CPU is left.",
            (Query(f"sum(orchestrator_worker_runs{{{JOB}}}) / sum(orchestrator_worker_concurrency{{{JOB}}})"),), PERCENT, "stat", 3, 5, limit=0.9, decimals=0,
        ),
        Panel(
            "Runs ended a minute",
            "All workers together. Zero while runs are queued: see the breakers and the log.",
            (Query(f"sum(rate(orchestrator_runs_total{{{JOB}}}[$__rate_interval])) * 60"),), "none", "stat", 4, 5, decimals=1,
        ),
        _rule("model_breaker_open", Panel(
            "Model endpoints out",
            "Model endpoints to which nothing but probes is sent. Red (any): try the endpoint by hand (`orchestrator doctor`), then its provider's status page. Runbook: model_breaker_open.",
            (Query('count(max by (target) (orchestrator_breaker_open{kind="model"}) > 0) or vector(0)'),), "none", "stat", 3, 5, decimals=0,
        )),
        _rule("approvals_waiting", Panel(
            "Oldest approval",
            "How long the oldest action has waited for a person. Red (above 30 min): `orchestrator status`, then approve or refuse. Runbook: approvals_waiting.",
            (Query("max(orchestrator_approval_oldest_seconds)"),), "s", "stat", 4, 5, decimals=0,
        )),
        _rule("loop_lag", Panel(
            "Event loop late by",
            "The longest delay of a worker's event loop of late. Red (above 250 ms): a tool blocks the loop; the log names the line. Runbook: loop_lag.",
            (Query(f"max(orchestrator_loop_lag_seconds{{{JOB}}})"),), "s", "stat", 3, 5, decimals=3,
        )),
    ),
)  # fmt: skip

THROUGHPUT = Row(
    "How much, how fast?",
    (
        Panel(
            "Turns and runs a minute",
            "Model turns and ended runs. Turns without runs: runs do not come to an end, see Agent health.",
            (
                Query(f"sum(rate(orchestrator_turns_total{{{JOB}}}[$__rate_interval])) * 60", "turns"),
                Query(f"sum(rate(orchestrator_runs_total{{{JOB}}}[$__rate_interval])) * 60", "runs ended"),
            ), "short",
        ),
        Panel(
            "Model latency",
            "Seconds of one model call, retries included. 95 % far above half: the provider throttles or some prompts are long; see Retries.",
            (Query(_quantile(0.5, "orchestrator_model_seconds"), "half of all"), Query(_quantile(0.95, "orchestrator_model_seconds", "model"), "{{model}} 95 %")),
            "s", decimals=2,
        ),
        Panel(
            "First token",
            "95 % of streamed replies begin within so many seconds. Rising with the same output: the endpoint queues requests.",
            (Query(_quantile(0.95, "orchestrator_first_token_seconds", "model"), "{{model}}"),), "s", decimals=2,
        ),
    ),
)  # fmt: skip

QUEUE = Row(
    "What waits?",
    (
        Panel(
            "Queue",
            "Runs that are due and wait for a worker, that run, that wait for a tool or a person, or are scheduled. `due` growing: add workers.",
            (Query("max(orchestrator_queue_depth)", "due"), Query("max by (state) (orchestrator_queue_runs)", "{{state}}")), "short", decimals=0,
        ),
        _rule("queue_age", Panel(
            "Age of the oldest due run",
            "Above the line: runs are not taken. Depth small and age large: no worker has the agent or tool version that the run needs.",
            (Query("max(orchestrator_queue_oldest_seconds)", "oldest"),), "s", decimals=0,
        )),
        Panel(
            "Slices a minute",
            "What becomes of claims. `conflicts` and `crashed` should be 0: a conflict is a claim lost to another worker, a crash is in the log. `aside`: runs given up on for an hour.",
            (Query(f"sum by (event) (rate(orchestrator_worker_slices_total{{{JOB}}}[$__rate_interval])) * 60", "{{event}}"),), "short",
        ),
    ),
)  # fmt: skip

POLICIES = Row(
    "What do endpoints and tools do to us?",
    (
        Panel(
            "Breakers",
            "1 while nothing but probes is sent to an endpoint or tool. A line at 1: it keeps failing; it comes back by itself when a probe succeeds.",
            (Query("topk(8, max by (kind, target) (orchestrator_breaker_open))", "{{kind}} {{target}}"),),
            "none", width=6, decimals=0, most=1,
        ),
        Panel(
            "Retries a minute, by cause",
            "Tries that failed before another was made. RATE_LIMITED: set a limit for the model. OVERLOADED, SERVER_ERROR, TIMEOUT: the endpoint; consider a stand-in (agents.models).",
            (Query(f"sum by (target, code) (rate(orchestrator_retries_total{{{JOB}}}[$__rate_interval])) * 60 > 0", "{{target}} {{code}}"),), "short", "stacked", 6,
        ),
        Panel(
            "Waiting, in calls",
            "Seconds per second that calls spend in backoff and in limits' queues: 1 is one call standing still all the time. High: limits or providers hold the runs up.",
            (
                Query(f"sum by (target) (rate(orchestrator_backoff_seconds_total{{{JOB}}}[$__rate_interval]))", "backoff {{target}}"),
                Query(f"sum by (target) (rate(orchestrator_limit_wait_seconds_sum{{{JOB}}}[$__rate_interval]))", "limit {{target}}"),
            ), "short", width=6, decimals=2,
        ),
        Panel(
            "Given up, and stand-ins",
            "Calls not tried again although the failure may pass (by why: attempts, time, budget), and calls that went to the next model. Many: the first model is out; put another first.",
            (
                Query(f"sum by (target, why) (increase(orchestrator_retries_given_up_total{{{JOB}}}[15m]))", "{{target}}: no more {{why}}"),
                Query(f"sum by (target, next) (increase(orchestrator_fallbacks_total{{{JOB}}}[15m]))", "{{target}} to {{next}}"),
            ), "short", width=6, decimals=0,
        ),
    ),
)  # fmt: skip

PROCESS = Row(
    "Is the process well?",
    (
        Panel(
            "Store: until an entry is durable",
            "Half and 99 % of appends. Above 100 ms: the disk or the database is slow; every step of every run waits for it.",
            (Query(_quantile(0.5, "orchestrator_append_seconds"), "half"), Query(_quantile(0.99, "orchestrator_append_seconds"), "99 %")), "s", width=6, limit=0.1, decimals=3,
        ),
        _rule("loop_lag", Panel(
            "Event loop late by, by worker",
            "Above the line: a tool blocks the loop, or the machine has no CPU left.",
            (Query(f"max by (instance) (orchestrator_loop_lag_seconds{{{JOB}}})", "{{instance}}"),), "s", width=6, decimals=3,
        )),
        Panel(
            "Memory",
            "Resident memory of each worker. It should level off; rising without end: note the release and `orchestrator status`, restart one worker (no run is lost).",
            (Query(f"max by (instance) (process_resident_memory_bytes{{{JOB}}})", "{{instance}}"),), "bytes", width=6, decimals=0,
        ),
        Panel(
            "CPU, stuck tools",
            "CPU cores of each worker (one event loop uses one at most), and calls that go on although nobody waits for them. Stuck calls growing: a tool ignores its timeout.",
            (
                Query(f"max by (instance) (rate(process_cpu_seconds_total{{{JOB}}}[$__rate_interval]))", "CPU {{instance}}"),
                Query(f"sum(orchestrator_tool_threads_abandoned{{{JOB}}}) + sum(orchestrator_tool_tasks_left_behind{{{JOB}}})", "stuck calls"),
            ), "short", width=6, decimals=2,
        ),
    ),
)  # fmt: skip
ROWS = (NOW, THROUGHPUT, QUEUE, POLICIES, PROCESS)
