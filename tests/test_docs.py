"""What the documents say is so: commands, options, targets, settings, variables, links, examples."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from pydantic import BaseModel

from orchestrator.cli import app
from orchestrator.cli.exits import Exit
from orchestrator.settings import Settings

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
README = (ROOT / "README.md").read_text("utf-8")
FOREIGN = frozenset({"ORCHESTRATOR_A__B"})


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command of the command line, with its words."""
    command = command or typer.main.get_command(app)
    yield path, command
    for name, each in getattr(command, "commands", {}).items():
        yield from commands(each, (*path, name))


COMMANDS = dict(commands())


def options(command: Any) -> dict[str, Any]:
    return {name: option for option in command.params for name in (*option.opts, *option.secondary_opts)}


def of_settings() -> set[str]:
    return {f"ORCHESTRATOR_{name.upper()}" for name in Settings.model_fields}


def of_options() -> set[str]:
    return {each.envvar for command in COMMANDS.values() for each in command.params if getattr(each, "envvar", None)}


def fields(model: type[BaseModel], above: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner = list(tables(field.annotation))
        if not inner or not above:
            yield above + name
        for each in inner:
            yield from fields(each, f"{above}{name}.")


def tables(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for each in typing.get_args(annotation):
        yield from tables(each)


def code(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_make_target_in_the_documents_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z-]+)", page.read_text("utf-8"), re.MULTILINE)) <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_option_in_the_documents_exists(page: Path) -> None:
    for line in re.findall(r"(?:^|`)orchestrator ([a-z][^`\n#]*)", page.read_text("utf-8"), re.MULTILINE):
        words = line.split()
        path: tuple[str, ...] = ()
        while words and (*path, words[0]) in COMMANDS:
            path = (*path, words.pop(0))
        assert path, f"{page.name}: there is no command `orchestrator {line}`"
        known = options(COMMANDS[path])
        assert {word for word in words if word.startswith("--")} <= set(known), f"{page.name}: `orchestrator {line}`"


def test_every_setting_is_documented_and_nothing_else_is() -> None:
    page = (ROOT / "docs" / "settings.md").read_text("utf-8")
    documented = {
        name for row in re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE) for name in re.findall(r"`([a-z_.]+)`", row)
    }
    assert documented == set(fields(Settings))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_variable_in_the_documents_is_read(page: Path) -> None:
    assert set(re.findall(r"ORCHESTRATOR_[A-Z_]+", page.read_text("utf-8"))) <= of_settings() | of_options() | FOREIGN


def test_every_variable_of_an_option_is_documented() -> None:
    page = (ROOT / "docs" / "settings.md").read_text("utf-8")
    assert of_options() - of_settings() <= set(re.findall(r"ORCHESTRATOR_[A-Z_]+", page))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_command_and_option_says_what_it_is_for(path: tuple[str, ...]) -> None:
    command = COMMANDS[path]
    assert command.help
    for option in command.params:
        assert getattr(option, "help", None) or option.name == "help", f"{' '.join(path)} {option.name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
        assert link.startswith("http") or (page.parent / link).exists(), f"{page.name}: {link}"


def test_the_exit_codes_in_the_readme_are_the_real_ones() -> None:
    sentence = re.search(r"0 answered.*?130 interrupted", README, re.DOTALL)
    assert sentence is not None
    assert {int(number) for number in re.findall(r"\d+", sentence[0])} == {code.value for code in Exit}


def test_the_python_in_the_readme_compiles() -> None:
    examples = code(README, "python")
    assert examples
    for example in examples:
        compile(example, "README.md", "exec")


def test_decisions_and_glossary_are_short() -> None:
    for page in (ROOT / "docs" / "decisions").glob("*.md"):
        assert page.read_text("utf-8").count("\n") <= 20, page.name
    glossary = (ROOT / "docs" / "architecture.md").read_text("utf-8").partition("| word | is |")[2]
    assert glossary.count("\n| ") <= 20
