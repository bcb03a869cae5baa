"""Public bug reports of agent frameworks, each as a fact about ours: a test here, a test that stands elsewhere, or a reason.

The ids are those of our collection of 36 reports (A loops, B side effects, C cancellation, D resources, E retries, F data); it names
the repositories and issues where they were reported.
"""

from __future__ import annotations

import ast
import asyncio
import gc
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestrator.core.decide import AskModel
from orchestrator.core.events import Anomaly, Event, ModelTurn, Observation, Outcome, RunStarted, Trace
from orchestrator.core.run import Run, replay
from orchestrator.core.spec import Limits
from orchestrator.errors import StoreError
from orchestrator.log import log_entry
from orchestrator.metrics import Metrics
from orchestrator.runner import Observer, Ports, drive
from orchestrator.stores import Store
from orchestrator.stores.memory import MemoryStore
from orchestrator.stores.sqlite import SqliteStore
from orchestrator.tool import Tool, context, tool
from orchestrator.toolbox import Toolbox
from tests.build import ScriptedModel, acts, final, malformed

ROOT = Path(__file__).parent.parent
IDS = (  # noqa: SIM905  a table reads better
    "A1 A2 A3 A4 A5 A6 A7 B3 B4 B5 B7 B8 C1 C2 C3 C5 C8 C9 C10 C11 C12 D1 D3 D7 D8 E2 E3 E4 E6 E7 F1 F2 F3 F4 F5 F6"
).split()

ELSEWHERE: dict[str, tuple[str, ...]] = {
    "A1": ("core/test_decide.py::test_the_same_call_for_ever_runs_twice_is_refused_and_ends",),
    "A3": (
        "core/test_guard.py::test_the_articles_fourth_pit_is_seen_from_its_third_barren_lookup_on",
        "test_pits.py::test_pit_4_the_reworded_loop_ends_honestly_within_six_steps",
    ),
    "A4": ("core/test_decide.py::test_unusable_turns_are_bounded",),
    "A5": ("demo/test_whole.py::test_what_is_no_answer_never_becomes_one",),
    "A6": ("demo/test_codecs.py::test_thinking_that_ate_the_budget_is_no_answer",),
    "A7": (
        "policy/test_fallback.py::test_a_context_overflow_is_never_asked_twice_of_the_same_model",
        "policy/test_retry.py::test_what_cannot_pass_is_asked_once",
    ),
    "B3": (
        "policy/test_stack.py::test_a_payment_that_timed_out_is_not_made_again",
        "test_toolbox.py::test_a_timeout_of_a_tool_that_may_not_run_twice_leaves_the_outcome_unknown",
    ),
    "B4": ("test_toolbox.py::test_only_a_repeatable_tool_is_tried_again_and_under_the_same_key",),
    "B5": (
        "core/test_native.py::test_a_reply_that_did_not_end_normally_runs_nothing_and_ends_nothing",
        "core/test_decide.py::test_a_truncated_reply_gets_a_larger_budget_once_and_keeps_it",
    ),
    "B7": (
        "worker/test_work.py::test_a_frozen_worker_appends_nothing_once_another_has_its_run",
        "dispatch/test_processes.py::test_a_frozen_process_that_thaws_is_told_that_its_lease_is_over",
        "chaos/test_chaos.py::test_workers_are_killed_and_frozen_and_every_run_ends_with_each_effect_once",
    ),
    "B8": (
        "worker/test_work.py::test_a_heartbeat_that_hangs_costs_the_lease_before_it_ends",
        "dispatch/test_engine.py::test_a_heartbeat_that_gets_no_answer_gives_up_before_the_lease_ends",
    ),
    "C1": (
        "policy/test_retry.py::test_cancellation_is_never_retried",
        "worker/test_work.py::test_a_cancel_ends_a_run_within_a_tenth_of_a_second_in_this_process",
    ),
    "C2": (
        "worker/test_work.py::test_a_tool_that_swallows_its_cancellation_does_not_keep_the_run_alive",
        "policy/test_timeout.py::test_a_swallowed_cancellation_reaches_the_caller_all_the_same",
    ),
    "C3": ("policy/test_timeout.py::test_a_cancellation_in_the_moment_of_completion_is_not_lost",),
    "C5": (
        "test_tool.py::test_an_abandoned_thread_is_counted_until_it_ends_and_a_pool_of_such_refuses",
        "test_tool.py::test_threads_do_not_hold_up_the_end_of_the_process",
    ),
    "C8": ("test_runner.py::test_one_failing_call_never_cancels_its_siblings",),
    "C10": (
        "core/test_decide.py::test_a_cancelled_run_tells_the_truth_about_each_action",
        "core/test_render.py::test_each_call_has_exactly_one_result_right_after_it_and_ids_are_never_used_twice",
        "core/test_native.py::test_a_call_without_an_observation_still_has_its_one_honest_result",
    ),
    "C11": ("core/test_decide.py::test_a_started_action_that_is_not_repeatable_is_not_run_again",),
    "C12": ("test_http.py::test_fifty_streams_cancelled_twice_leave_no_connection_behind",),
    "D1": ("test_http.py::test_cancel_churn_while_connecting_leaves_the_endpoint_usable",),
    "D7": ("stores/test_follow.py::test_a_paused_reader_never_blocks_writers",),
    "D8": (
        "worker/test_process.py::test_a_killed_worker_loses_no_run",
        "dispatch/test_claims.py::test_reconcile_heals_a_lost_line_and_leaves_live_runs_alone",
        "sim/test_sim.py::test_whatever_fails_no_run_is_lost_and_nothing_happens_twice",
    ),
    "E2": (
        "policy/test_retry.py::test_ten_runs_against_a_404_ask_once_each",
        "policy/test_retry.py::test_ten_runs_do_not_come_back_in_lockstep",
    ),
    "E3": (
        "policy/test_retry.py::test_retry_after_is_a_floor",
        "policy/test_retry.py::test_a_retry_after_that_does_not_fit_fails_early",
        "providers/test_failure.py::test_a_failure_has_its_name_and_its_delay",
    ),
    "E4": (
        "providers/test_failure.py::test_a_failure_has_its_name_and_its_delay",
        "test_corpus.py::test_a_provider_response_is_decoded_by_the_rulings",
    ),
    "E6": (
        "policy/test_retry.py::test_a_listener_is_told_to_discard_before_each_further_try",
        "policy/test_fallback.py::test_a_listener_is_told_to_discard_when_another_model_begins",
    ),
    "E7": (
        "policy/test_breaker.py::test_of_a_hundred_waiting_calls_exactly_the_probes_go_through",
        "policy/test_breaker.py::test_a_failed_probe_reopens_for_twice_as_long",
        "policy/test_breaker.py::test_a_cancelled_probe_frees_its_place",
    ),
    "F1": ("providers/test_requests.py::test_what_is_replayed_is_valid_whatever_came_in",),
    "F2": (
        "core/test_native.py::test_damaged_ids_are_made_anew_in_pairs",
        "test_corpus.py::test_a_provider_response_is_decoded_by_the_rulings",
    ),
    "F3": ("providers/test_requests.py::test_signed_thinking_goes_back_byte_for_byte_to_the_same_model_only",),
    "F4": (
        "test_health.py::test_no_label_takes_what_a_model_or_a_tool_wrote",
        "metrics/test_live.py::test_a_worker_with_20_tools_and_3_models_exports_at_most_1000_series",
    ),
}
"""Report -> the tests that hold it, under tests/."""

NOT_OURS: dict[str, str] = {
    "C9": "there is no abort-on-first-failure policy: calls of a batch stand side by side, and none cancels another (C8)",
}
"""Report -> why it does not apply."""

CALLS: Counter[str] = Counter()
KEYS: list[str] = []
Script = Sequence[ModelTurn] | Callable[[Run, AskModel], ModelTurn]


@tool(repeatable=True)
async def search(q: str) -> list[str]:
    """Finds nothing."""
    CALLS[q] += 1
    return []


@tool
async def pay(q: str) -> str:
    """Pays."""
    KEYS.append(context().key)
    return f"paid {q} {len(KEYS)}"


@tool(repeatable=True)
async def whose(q: str) -> str:
    """Says for whom it runs, on the loop."""
    await asyncio.sleep(0)
    return f"{context().tenant} {context().run_id} {q}"


@tool(repeatable=True)
def whose_thread(q: str) -> str:
    """Says for whom it runs, in a thread."""
    return f"{context().tenant} {context().run_id} {q}"


@tool(repeatable=True)
async def page(q: str) -> str:
    """A page of the Internet."""
    return f"{q}: half a character \ud800, its escape \\ud83d, a NUL \0 and more\udfff"


TOOLS: tuple[Tool, ...] = (search, pay, whose, whose_thread, page)


async def played(
    script: Script,
    *,
    limits: Limits | None = None,
    store: Store | None = None,
    run_id: str = "r1",
    tenant: str = "",
    observers: tuple[Observer, ...] = (),
) -> Run:
    """Begin a run and drive it to its end."""
    store = store or MemoryStore()
    await store.open()
    toolbox = Toolbox(TOOLS)
    first = RunStarted("Who?", limits=limits or Limits(), tools=toolbox.specs, tenant=tenant)
    clock = asyncio.get_running_loop().time
    await store.append(run_id, 0, [first], at=clock())
    return await drive(run_id, Ports(store, ScriptedModel(script), toolbox, observers, clock=clock))


def outcome(run: Run) -> Outcome:
    assert run.ended is not None
    return run.ended.outcome


def test_every_report_has_its_test_or_its_reason() -> None:
    here = set(re.findall(r"^(?:async )?def test_([A-F]\d+)_", Path(__file__).read_text("utf-8"), re.MULTILINE))
    assert set(IDS) == {*ELSEWHERE, *NOT_OURS, *here}
    assert not set(NOT_OURS) & {*ELSEWHERE, *here}


@pytest.mark.parametrize("place", sorted({place for places in ELSEWHERE.values() for place in places}))
def test_the_test_that_holds_a_report_is_there(place: str) -> None:
    file, _, name = place.partition("::")
    tree = ast.parse((ROOT / "tests" / file).read_text("utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.virtual
async def test_A1_the_same_call_for_ever_runs_twice_and_ends_well_before_the_last_step() -> None:
    CALLS.clear()
    run = await played([acts(1, ("search", {"q": "x"}))], limits=Limits(max_steps=50))
    assert (CALLS["x"], outcome(run)) == (2, Outcome.NO_PROGRESS)
    assert len(run.steps) < 10
    assert "REPEATED_ACTION" in {each.code for step in run.steps for each in step.observations}


@pytest.mark.virtual
async def test_A2_a_model_that_ignores_every_warning_is_stopped_by_them() -> None:
    def ignores(run: Run, ask: AskModel) -> ModelTurn:
        return acts(run.step, ("search", {"q": "x"}), ("search", {"q": f"x {run.step % 2}"}))

    CALLS.clear()
    run = await played(ignores, limits=Limits(max_steps=5000, tool_errors=5000))
    assert outcome(run) is Outcome.NO_PROGRESS
    assert len(run.steps) < 10


@pytest.mark.virtual
async def test_A4_prose_for_ever_ends_by_its_name_with_the_tokens_it_cost() -> None:
    run = await played([malformed()], limits=Limits(max_steps=50))
    assert (outcome(run), len(run.steps)) == (Outcome.FORMAT, Limits().malformed)
    assert run.usage.tokens == 20 * Limits().malformed


@pytest.mark.virtual
async def test_A6_silence_after_a_tool_is_asked_again_a_few_times_and_is_never_success() -> None:
    run = await played([acts(1, ("pay", {"q": "a"})), malformed(Anomaly.EMPTY)], limits=Limits(max_steps=50))
    assert run.ended is not None
    assert (run.ended.outcome, run.ended.answer) == (Outcome.EMPTY, None)
    assert len(run.steps) == 1 + Limits().malformed


@pytest.mark.virtual
async def test_B4_the_key_is_the_actions_own_and_a_deliberate_repeat_has_another() -> None:
    KEYS.clear()
    await played([acts(1, ("pay", {"q": "a"})), acts(2, ("pay", {"q": "a"})), final()])
    assert KEYS == ["r1:1.0", "r1:2.0"]


@pytest.mark.virtual
async def test_C11_after_a_crash_the_filler_says_that_nobody_knows_and_is_an_error() -> None:
    class Dying(MemoryStore):
        dead = False

        async def append(self, run_id: str, seq: int, events: Sequence[Event], **more: Any) -> Trace:
            if isinstance(events[0], Observation) and not self.dead:
                self.dead = True
                raise StoreError("the process ends here")
            return await super().append(run_id, seq, events, **more)

    KEYS.clear()
    store, turns = Dying(), [acts(1, ("pay", {"q": "a"})), final()]
    with pytest.raises(StoreError):
        await played(turns, store=store)
    clock = asyncio.get_running_loop().time
    run = await drive("r1", Ports(store, ScriptedModel(turns), Toolbox(TOOLS), clock=clock))
    (told,) = run.steps[0].observations
    assert (told.status, told.code, KEYS) == ("error", "OUTCOME_UNKNOWN", ["r1:1.0"])
    assert "cancel" not in told.content


async def test_D3_what_has_ended_is_forgotten() -> None:
    store = MemoryStore()

    async def some(count: int) -> int:
        for number in range(count):
            await played([acts(1, ("whose", {"q": "a"})), final()], store=store, run_id=f"r{number}")
        await store.purge(1e12)
        gc.collect()
        return len(gc.get_objects())

    await some(50)
    before = await some(50)
    after = await some(400)
    assert after - before < 400, "objects are kept for runs that have ended"
    assert len(asyncio.all_tasks()) == 1


async def test_F5_each_of_fifty_runs_sees_its_own_tenant_on_the_loop_and_in_threads() -> None:
    def script(run: Run, ask: AskModel) -> ModelTurn:
        if run.step > 3:
            return final()
        given = {"q": f"question {run.step}"}
        return acts(run.step, ("whose", given), ("whose_thread", given))

    names = {f"r{number}": f"tenant-{number % 2}" for number in range(50)}
    runs = await asyncio.gather(*(played(script, run_id=run_id, tenant=tenant) for run_id, tenant in names.items()))
    for run in runs:
        said = [each.content for step in run.steps for each in step.observations]
        assert len(said) == 6
        assert all(f"{names[run.run_id]} {run.run_id} " in each for each in said)


async def test_F6_half_characters_pass_through_the_loop_the_trace_the_log_and_the_metrics(tmp_path: Path) -> None:
    metrics = Metrics()
    turns = [
        acts(1, ("page", {"q": "a\ud800"}), thought="half \udfff of it"),
        acts(2, ("page", {"q": "b"})),
        final("done \ud83d"),
    ]
    async with SqliteStore(tmp_path / "runs.db") as store:
        run = await played(turns, store=store, observers=(log_entry, metrics.observe))
        assert outcome(run) is Outcome.ANSWERED
        assert replay(await store.read("r1")) == run
    text, _ = metrics.render()
    assert b"orchestrator_" in text
