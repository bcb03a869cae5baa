"""Settings that cannot be: one line that says where the value is written, which one, and what to write; never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestrator.errors import ConfigError
from orchestrator.settings import Settings

MODEL = '[models.main]\nprovider = "openai"\nmodel = "m"\n'


@pytest.fixture(autouse=True)
def _empty(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_BASE_URL", "OPENAI_MODEL", "ANTHROPIC_BASE_URL", "ANTHROPIC_MODEL"):
        monkeypatch.delenv(name, raising=False)


def refused(file: str = "", **env: str) -> str:
    if file:
        Path("orchestrator.toml").write_text(file, "utf-8")
    with pytest.MonkeyPatch.context() as patch, pytest.raises(ConfigError) as caught:
        for name, value in env.items():
            patch.setenv(name, value)
        Settings.load()
    return str(caught.value)


@pytest.mark.parametrize("name", ["TOOLS", "MODELS", "AGENTS", "WORKER", "EGRESS", "PERMISSIONS", "ALERTS", "MCP"])
@pytest.mark.parametrize("value", ["nope", '{"a"', "[", "tools/, more/"])
def test_a_variable_that_should_be_json_and_is_none_names_itself(name: str, value: str) -> None:
    told = refused(**{f"ORCHESTRATOR_{name}": value})
    assert told.startswith(f'settings (ORCHESTRATOR_{name}): the value is no JSON: write a list as \'["a"')


def test_a_value_of_a_variable_is_not_said_to_stand_in_the_file() -> None:
    told = refused('store = "memory"', ORCHESTRATOR_WORKER__PORT="x")
    assert told.startswith("settings (ORCHESTRATOR_WORKER__PORT): worker.port: Input should be a valid integer")


def test_a_variable_in_lower_case_is_named_as_it_is_written() -> None:
    assert refused(orchestrator_tools="[3]").startswith("settings (orchestrator_tools): tools.0: ")


def test_a_value_of_the_file_is_said_to_stand_there() -> None:
    assert refused("[worker]\nport = 99999").startswith("settings (orchestrator.toml): worker.port: ")


def test_no_file_is_named_that_is_not_there() -> None:
    assert refused(OPENAI_BASE_URL="nope").startswith(
        "settings (OPENAI_* variables): models.openai.base_url: must start"
    )


def test_the_words_are_ours_without_the_librarys_label() -> None:
    told = refused('[agents.default]\nmodels = ["nope"]')
    assert told == "settings (orchestrator.toml): agents.default.models names 'nope'; configured are none"


@pytest.mark.parametrize("value", ["3", "[]", '"main"', "true"])
def test_models_that_are_no_table_are_refused(value: str) -> None:
    assert "models: Input should be a valid dictionary" in refused(f"models = {value}")


@pytest.mark.parametrize("path", ["/chat/completions", "/v1/messages", "/chat/completions/"])
def test_a_base_url_with_the_path_that_is_added_to_it_is_refused(path: str) -> None:
    told = refused(f'{MODEL}base_url = "http://h/v1{path}"')
    assert "models.main.base_url: must not end with" in told
    assert told.endswith("write http://h/v1")


def test_a_file_that_is_not_there_says_both_ways_to_name_one() -> None:
    assert "(--config, ORCHESTRATOR_CONFIG)" in refused(ORCHESTRATOR_CONFIG="nope.toml")
