"""*Agent health*: is the agent still reasoning about what it does? The first row answers at a glance, the others say why."""

from __future__ import annotations

from dataclasses import replace

from dashboards.panel import Panel, Query, Row
from dashboards.rules import AGENT, RULES, mean, ratio, window

GAP, NOTICE, BLOAT = RULES["thought_action_gap"], RULES["error_propagation"], RULES["step_bloat"]
PERCENT = "percentunit"


def _rate(metric: str, by: str, where: str = AGENT, over: str = "rate") -> str:
    return f"sum by ({by}) ({over}({metric}{{{where}}}[{'$__rate_interval' if over == 'rate' else '15m'}]))"


def _coverage(metric: str, silent: str, over: str) -> str:
    """The share of samples that say anything at all."""
    total = f"sum(increase({metric}{{{AGENT}}}[{over}]))"
    return f'sum(increase({metric}{{result!="{silent}", {AGENT}}}[{over}])) / ({total} > 0)'


RATES = Row(
    "Is it still reasoning? Red fires an alert; the small figure beside says how much of the work the rate rests on",
    (
        Panel(
            "Thought-Action gap",
            "Share of Actions where the model says one tool and calls another, or announces a call and makes none. "
            "Red (above 5 %): open a run of the table below, compare each Thought with the Action under it. Usual causes: a new model version, "
            "two tools with like names. Runbook: thought_action_gap.",
            (Query(ratio(GAP)),), PERCENT, "stat", 5, 5, decimals=1,
        ).limited(GAP),
        Panel(
            "Gap coverage",
            "Share of Actions before which the model said anything about a tool. Low: the gap rests on little; silence is no health. "
            "Ask for a Thought in the agent's instructions, or use a model that reasons aloud.",
            (Query(_coverage("orchestrator_thought_actions_total", "unstated", window(GAP))),), PERCENT, "stat", 3, 5, decimals=0,
        ),
        Panel(
            "Error propagation",
            "Share of tool errors that the model's next turn takes notice of. Red (below 80 %): the model reads past errors and makes answers up. "
            "Look at the failing tool's Observation: does it name the error? Runbook: error_propagation.",
            (Query(ratio(NOTICE)),), PERCENT, "stat", 5, 5, decimals=0,
        ).limited(NOTICE),
        Panel(
            "Error coverage",
            "Share of error Observations whose next turn has any text. Low: the model acts without a word, see `corrected` among its turns.",
            (Query(_coverage("orchestrator_error_observations_total", "unstated", window(NOTICE))),), PERCENT, "stat", 3, 5, decimals=0,
        ),
        Panel(
            "Step bloat",
            "Steps of answered runs over the fewest that could have done it (a lower bound: steps that only decided where to look are not seen). "
            "Red (above 2): users wait and tokens are wasted; open a run of the table, look for repeated or aimless calls. Runbook: step_bloat.",
            (Query(mean(BLOAT)),), "none", "stat", 5, 5, decimals=2,
        ).limited(BLOAT),
        Panel(
            "Bloat coverage",
            "Share of answered runs for which a fewest number of steps is known. Low: most answers use nothing that a tool said; look at them.",
            (Query(
                f"sum(increase(orchestrator_step_bloat_ratio_count{{{AGENT}}}[1h]))"
                f' / (sum(increase(orchestrator_runs_total{{outcome="answered", {AGENT}}}[1h])) > 0)'
            ),), PERCENT, "stat", 3, 5, decimals=0, most=1,
        ),
        Panel(
            "Thought-Action gap, by agent and model",
            "The same over time. The dashed line is the alert's threshold. One model only: go back to its last version. All at once: a prompt or tool change.",
            (Query(ratio(GAP, "agent, model"), "{{agent}} on {{model}}"),), PERCENT, decimals=1,
        ).limited(GAP),
        Panel(
            "Error propagation, by agent and model",
            "The same over time; below the line fires. A sudden fall at one agent: one of its tools began to hide its errors.",
            (Query(ratio(NOTICE, "agent, model"), "{{agent}} on {{model}}"),), PERCENT, decimals=0, most=1,
        ).limited(NOTICE),
        Panel(
            "Step bloat by basis",
            "Mean index by where the minimum comes from: declared by the submitter, learned from earlier runs, or the trace's own backward slice. "
            "Above the line: see the table of runs. Only `declared` high: the declared minimum may be out of date.",
            (Query(mean(BLOAT, "basis"), "{{basis}}"),), "none", decimals=2,
        ).limited(BLOAT),
    ),
)  # fmt: skip

RUNS = Row(
    "What comes of the runs?",
    (
        Panel(
            "Runs by outcome",
            "Runs ended in each interval, by outcome. Much that is not `answered`: model_failed and deadline point at the endpoint (board Worker), "
            "format, truncated and refused at the model, tool_errors at a tool, no_progress, out_of_steps and out_of_budget at the task or the prompt.",
            (Query(f"sum by (outcome) (increase(orchestrator_runs_total{{{AGENT}}}[$__rate_interval])) > 0", "{{outcome}}"),), "short", "stacked", 8,
        ),
        Panel(
            "Runs that fail",
            "Share of runs that end in an error. Red (above 20 %): the outcome panel says which; `orchestrator runs --outcome NAME` lists them. Runbook: run_errors.",
            (Query(ratio(RULES["run_errors"], "agent"), "{{agent}}"),), PERCENT, width=8, decimals=0,
        ).limited(RULES["run_errors"]),
        Panel(
            "Anomalies by kind",
            "Oddities of turns a minute: forged Observations, cut replies, malformed calls, unknown tools, repeats. A kind that is new: a model changed. "
            "forged_observation and truncated have alerts of their own.",
            (Query(f"sum by (kind) (rate(orchestrator_anomalies_total{{{AGENT}}}[$__rate_interval])) * 60 > 0", "{{kind}}"),), "short", "stacked", 8,
        ),
        Panel(
            "Runs to look at first",
            "The worst runs that ended within the hour: a point for each gap, ignored error and forged Observation, what bloat is above 2, three for a bad end. "
            "Click a run to open it in the console, or: orchestrator show RUN.",
            (Query(f"sort_desc(sum by (run_id, agent, outcome) (orchestrator_worst_run_trouble{{{AGENT}}}))"),), "short", "table", 24, 7, decimals=1,
            links=(("Open in the console", "${console}${__data.fields.run}"),),
        ),
    ),
)  # fmt: skip

TOOLS = Row(
    "Which tool is at fault, and did the model notice?",
    (
        Panel(
            "Slowest tools",
            "95th percentile of a tool's seconds, retries included. A tool near its timeout: raise the timeout or mend the service; it holds runs up.",
            (Query("topk(8, histogram_quantile(0.95, sum by (tool, le) (rate(orchestrator_tool_seconds_bucket[15m]))) > 0)", "{{tool}}"),), "s", "bars", 6, decimals=2,
        ),
        Panel(
            "Failing tools",
            "Share of a tool's calls that gave an error Observation. Red (above 20 %): try it by hand, orchestrator tools call TOOL '{}'. "
            "__unknown__ is a tool that the model made up.",
            (Query(
                "topk(8, sum by (tool) (increase(orchestrator_tool_errors_total[15m])) / (sum by (tool) (increase(orchestrator_tool_seconds_count[15m])) > 0) > 0)",
                "{{tool}}",
            ),), PERCENT, "bars", 6, limit=0.2, decimals=0, most=1,
        ),
        Panel(
            "Error codes",
            "Error Observations of the last 15 minutes by code. INVALID_ARGUMENTS: the schema or its description misleads the model. "
            "TIMEOUTs and HTTP_5xx: the service. other: a code of a tool that is not on our list.",
            (Query("topk(8, sum by (code) (increase(orchestrator_tool_errors_total[15m])) > 0)", "{{code}}"),), "short", "bars", 6, decimals=0,
        ),
        Panel(
            "Did the model notice?",
            "Error Observations by what the next turn made of them. Much `ignored`: see Error propagation above. Much `unstated`: the model acts without words.",
            (Query(f"sum by (result) (increase(orchestrator_error_observations_total{{{AGENT}}}[$__rate_interval]))", "{{result}}"),), "short", "stacked", 6,
        ),
    ),
)  # fmt: skip

COST = Row(
    "What does it take?",
    (
        Panel(
            "Steps of a run",
            "Half and 95 % of the runs take at most so many steps. A rise without a rise in bloat: harder questions. With one: see Step bloat.",
            (
                Query(f"histogram_quantile(0.5, sum by (le) (rate(orchestrator_run_steps_bucket{{{AGENT}}}[15m])))", "half"),
                Query(f"histogram_quantile(0.95, sum by (le) (rate(orchestrator_run_steps_bucket{{{AGENT}}}[15m])))", "95 %"),
            ), "short", decimals=1,
        ),
        Panel(
            "Tokens a minute",
            "Tokens by type. Input growing faster than output: Observations or histories got longer. `cached` falling to 0: the provider's prompt cache is no longer hit.",
            (Query(_rate("orchestrator_tokens_total", "type") + " * 60", "{{type}}"),), "short", decimals=0,
        ),
        Panel(
            "Cost of the last hour",
            "In the price table's currency. Red (above 20): an agent loops or a schedule runs wild; `orchestrator runs --agent AGENT` and stop it. Runbook: cost_burn.",
            (Query(f"sum by (agent) (increase(orchestrator_cost_total{{{AGENT}}}[1h]))", "{{agent}}"),), "short", decimals=2,
        ).limited(RULES["cost_burn"]),
    ),
)  # fmt: skip


def _forged() -> Panel:
    rule = RULES["forged_observations"]
    return Panel(
        "Forged Observations",
        "Share of turns in which the model writes the tool's answer itself (it is cut off, and the real tool is asked). Red (above 2 %): "
        "check the endpoint's stop sequences, then the model. Runbook: forged_observations.",
        (Query(ratio(rule, "agent, model"), "{{agent}} on {{model}}"),), PERCENT, width=12, decimals=1,
    ).limited(rule)  # fmt: skip


def _truncated() -> Panel:
    rule = RULES["truncation"]
    return replace(
        _forged(),
        title="Replies cut off",
        says="Share of turns cut off at the token budget. Red (above 5 %): raise limits.max_output of the agent, or the model thinks without end. Runbook: truncation.",
        queries=(Query(ratio(rule, "agent, model"), "{{agent}} on {{model}}"),),
    ).limited(rule)  # fmt: skip


TURNS = Row("Are its turns well formed?", (_forged(), _truncated()))
ROWS = (RATES, RUNS, TOOLS, TURNS, COST)
