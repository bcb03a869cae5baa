"""`[[permissions]]` and `[tool_overrides.NAME]`: what is written is what is ruled, and what is written wrong says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.assembly import RunRequest, make_toolbox, started
from orchestrator.core.permission import DEFAULT
from orchestrator.errors import ConfigError
from orchestrator.settings import Settings
from orchestrator.tool import tool

MODEL = '[models.m]\nprovider = "openai"\nbase_url = "http://127.0.0.1:9/v1"\nmodel = "m"\n'
RULE = '[[permissions]]\nname = "{name}"\nverdict = "refuse"\nreason = "No."\n'


def loaded(place: Path, text: str) -> Settings:
    file = place / "orchestrator.toml"
    file.write_text(MODEL + text, "utf-8")
    return Settings.load(file)


def test_the_operators_rules_stand_before_the_default_ones_in_each_run(tmp_path: Path) -> None:
    text = (
        RULE.format(name="no-mail")
        + 'tools = ["send_*"]\nkinds = ["email"]\norigins = ["untrusted", "model"]\nspent = 0.5\n'
    )
    first = started(loaded(tmp_path, text), (), RunRequest("Who?"))
    own, *default = first.permissions
    assert (own.name, own.tools, own.kinds, own.spent) == ("no-mail", ("send_*",), ("email",), 0.5)
    assert tuple(default) == DEFAULT


def test_without_rules_a_run_has_the_default_ones(tmp_path: Path) -> None:
    assert started(loaded(tmp_path, ""), (), RunRequest("Who?")).permissions == DEFAULT


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[permissions]]\nname = "x"\nverdict = "ask"\n', "write its `reason`"),
        (RULE.format(name="x") * 2, "two rules are called 'x'"),
        (RULE.format(name="reads"), "name of a default rule"),
        (RULE.format(name="No Mail"), "permissions.0.name"),
        (RULE.format(name="x") + 'tool = ["a"]\n', "permissions.0.tool"),
        (RULE.format(name="x") + 'effects = ["delete"]\n', "permissions.0.effects"),
        (RULE.format(name="x") + "spent = 2.0\n", "permissions.0.spent"),
        (RULE.format(name="x") + 'tools = [""]\n', "empty glob"),
        ('[tool_overrides.http_get]\neffect = "much"\n', "tool_overrides.http_get.effect"),
    ],
)
def test_a_rule_that_is_wrong_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=r"permissions|tool_overrides") as caught:
        loaded(tmp_path, text)
    assert says in str(caught.value)


def test_the_operator_has_the_last_word_on_a_tool(tmp_path: Path) -> None:
    text = '[tool_overrides.http_get]\neffect = "send"\ntrusted = true\nrequires_approval = true\n'
    specs = {spec.name: spec for spec in make_toolbox(loaded(tmp_path, text)).specs}
    changed, other = specs["http_get"], specs["calculator"]
    assert (changed.does, changed.trusted, changed.requires_approval) == ("send", True, True)
    assert (other.does, other.trusted) == ("read", True)


def test_an_override_of_a_tool_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tool_overrides\.http_gte: there is no such tool"):
        make_toolbox(loaded(tmp_path, '[tool_overrides.http_gte]\neffect = "send"\n'))


def test_what_comes_from_the_web_is_not_trusted(tmp_path: Path) -> None:
    specs = {spec.name: spec for spec in make_toolbox(loaded(tmp_path, "")).specs}
    assert not any(spec.trusted for name, spec in specs.items() if name.startswith(("http", "wiki", "get_weather")))
    assert {spec.does for spec in specs.values()} == {"read"}


def test_a_tool_says_what_it_does_to_the_world() -> None:
    @tool(effect="send")
    async def mail(to: str) -> str:
        """Mails."""
        return to

    assert mail.spec.does == "send"

    @tool(effect="send", roles={"at": "detail", "to": "reach"}, names={"to": ("id", "title")})
    async def plan(at: str, to: str = "") -> str:
        """Plans."""
        return at + to

    assert (plan.spec.roles["at"], plan.spec.names["to"]) == ("detail", ("id", "title"))
    with pytest.raises(ConfigError, match="roles says that 'when' is 'detail'"):
        tool(effect="send", roles={"when": "detail"})(plan.function)
    with pytest.raises(ConfigError, match=r"effect is 'much'"):

        @tool(effect="much")
        async def other(to: str) -> str:
            """Does much."""
            return to
