"""A ModelTurn as it may be recorded: without the configured secrets, wherever the model wrote one.

It is hidden before anything is decided, so what is recorded is what runs: a secret never travels to a tool as an argument, a
resumed run does what the first try would have done, and who approves an action sees what will run.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from orchestrator.core.clean.hide import hidden, hide, net, texts
from orchestrator.core.events import Action, Actions, Final, Intent, Malformed, ModelTurn


def concealed(turn: ModelTurn, secrets: tuple[str, ...]) -> ModelTurn:
    """The turn without these secrets; the very same one, after one look, where it holds none."""
    if not secrets or not net(secrets).holds("\n".join(_words(turn))):
        return turn
    return replace(
        turn,
        thought=hide(turn.thought, secrets),
        reasoning=hide(turn.reasoning, secrets),
        intent=_intent(turn.intent, secrets),
        opaque=hidden(turn.opaque, secrets),
    )


def _words(turn: ModelTurn) -> list[str]:
    words = [turn.thought, turn.reasoning, *texts(turn.opaque)]
    match turn.intent:
        case Actions(actions=actions):
            for action in actions:
                words += (action.tool, *texts(action.input))
        case Final(answer=answer, missing=missing):
            words += (answer, missing or "")
        case Malformed(detail=detail):
            words.append(detail)
        case _ as unknown:
            assert_never(unknown)
    return words


def _intent(intent: Intent, secrets: tuple[str, ...]) -> Intent:
    match intent:
        case Actions(actions=actions):
            safe = (Action(each.id, hide(each.tool, secrets), hidden(each.input, secrets)) for each in actions)
            return Actions(tuple(safe))
        case Final(answer=answer, missing=missing):
            return Final(hide(answer, secrets), None if missing is None else hide(missing, secrets))
        case Malformed(problem=problem, detail=detail):
            return Malformed(problem, hide(detail, secrets))
        case _ as unknown:
            assert_never(unknown)
