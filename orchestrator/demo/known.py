"""What a conversation has brought so far: entries, hits, answers, errors, and which calls were made.

Observations are read in whatever rendering the host chose: JSON (an envelope or the bare data), or the plain lines
`entity / field: value | field: value` of the article.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from orchestrator.demo.conversation import Call, Conversation

MOST_OBJECTS = 50
CODE = re.compile(r"\b(?:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|HTTP_\d{3}|TIMEOUT|UNAVAILABLE|REFUSED)\b")
ACTION = re.compile(r"^[^\w\n]*Action\s*\d*[ \t]*[:：][ \t]*`?([\w.-]+)[ \t]*([\[({].*)$", re.MULTILINE | re.IGNORECASE)
LABEL = re.compile(r"^Observation\s*\d*\s*[:：][ \t]*", re.MULTILINE | re.IGNORECASE)
DECODER = json.JSONDecoder()


@dataclass(slots=True)
class Known:
    """`records` holds fields by entity, `hits` those that only a lookup showed, `asked` the calls, `error` the last step's code."""

    records: dict[str, dict[str, str]] = field(default_factory=dict)
    hits: list[tuple[str, str, str]] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    error: str = ""
    failed_tool: str = ""

    def was_asked(self, tool: str, argument: str) -> bool:
        """This very call was made before."""
        return (tool, argument) in self.asked


def known(conversation: Conversation) -> Known:
    """Fold the conversation; text after the goal counts as Observations in the text protocol."""
    found = Known()
    for index, turn in enumerate(conversation.turns):
        if turn.role == "assistant":
            found.error = found.failed_tool = ""
            found.asked += [key(call) for call in (*turn.calls, *text_calls(turn.text))]
            continue
        texts = [text for _, text in turn.results]
        if index and not turn.results:
            texts = LABEL.split(turn.text)[1:]
        for text in texts:
            learn(found, text)
    return found


def key(call: Call) -> tuple[str, str]:
    """A call as one compares it: the tool and its first argument."""
    return call.name, next((str(value) for value in call.input.values()), "")


def text_calls(text: str) -> Iterator[Call]:
    """The first Action line of a text turn: `tool[argument]`, or `tool {"parameter": "argument"}`."""
    match = ACTION.search(text)
    if match is None:
        return
    tool, rest = match.group(1), match.group(2).strip().rstrip("`")
    if rest.startswith("{"):
        yield Call("", tool, rest)
    else:
        yield Call("", tool, json.dumps({"": rest[1:-1] if rest[-1] in "])" else rest[1:]}))


def learn(found: Known, text: str) -> None:
    """Add one Observation."""
    found.texts.append(text)
    status_error = re.search(r"status\W{1,4}error", text[:200]) is not None
    values = list(json_objects(text))
    for value in values:
        status_error |= value.get("status") == "error"
        learn_object(found, value)
    if not values:
        for line in text.splitlines():
            learn_line(found, line, whole=True)
    code = CODE.search(text)
    if code is not None and (status_error or not values):
        found.error = code.group()
        found.failed_tool = found.asked[-1][0] if found.asked else ""


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects that stand in a text, outermost first; linear, and no more than a few."""
    at = 0
    for _ in range(MOST_OBJECTS):
        at = text.find("{", at)
        if at < 0:
            return
        try:
            value, at = DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
            continue
        if isinstance(value, dict):
            yield value


def learn_object(found: Known, value: dict[str, Any]) -> None:
    """The shapes the shipped tools return, bare or inside an envelope's `data`."""
    data = value.get("data", value)
    if not isinstance(data, dict):
        return
    entity, fields = data.get("entity"), data.get("fields")
    if isinstance(entity, str) and isinstance(fields, dict):
        found.records.setdefault(entity, {}).update({str(name): str(each) for name, each in fields.items()})
    hits = data.get("hits")
    for line in hits if isinstance(hits, list) else ():
        learn_line(found, str(line), whole=False)


def learn_line(found: Known, line: str, *, whole: bool) -> None:
    """`entity / field: value | field: value`: an entry if it has several fields, else a hit."""
    entity, slash, rest = line.strip().partition(" / ")
    if not slash:
        return
    pairs = [pair.partition(": ") for pair in rest.split(" | ")]
    fields = {name.strip(): value.strip() for name, colon, value in pairs if colon}
    asked_for = ("search", entity) in found.asked
    if whole and fields and (len(fields) > 1 or asked_for):
        found.records.setdefault(entity, {}).update(fields)
    else:
        found.hits += [(entity, name, value) for name, value in fields.items()]
