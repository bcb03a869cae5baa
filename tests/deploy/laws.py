"""What must hold between the deployment files and the code. Each law yields what is wrong, as a sentence."""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from unittest.mock import patch

from orchestrator.errors import ConfigError
from orchestrator.settings import Settings, WorkerSettings
from orchestrator.worker.work import LAST_WORDS
from tests.dashboards.labels import wrong_matchers
from tests.deploy import code
from tests.deploy.tree import BIN, MOUNT, Tree, secrets_named

Law = Callable[[Tree], Iterator[str]]
MARGIN = 5.0
"""Seconds beside the grace that a worker has to close its connections and to end."""


def settings_are_read(tree: Tree) -> Iterator[str]:
    """Every settings file is one: no unknown table, no unknown field, no value of a wrong kind."""
    for path in tree.settings_files:
        given = dict.fromkeys(secrets_named(path), "http://127.0.0.1:9/key")
        with patch.dict(os.environ, given):
            try:
                Settings.load(path)
            except ConfigError as error:
                yield f"{path.relative_to(tree.root)}: {error}"


def variables_exist(tree: Tree) -> Iterator[str]:
    """Every ORCHESTRATOR_ variable is a setting or an option, and each process has the variables its settings take secrets from."""
    for file in sorted(tree.deploy.rglob("*")):
        if file.is_file():
            for name in set(re.findall(r"ORCHESTRATOR_[A-Z0-9_]+", file.read_text("utf-8"))):
                if not any(pattern.fullmatch(name) for pattern in code.variables()):
                    yield f"{file.relative_to(tree.root)}: {name} configures nothing"
    for load in tree.workloads:
        if load.command[0] != "orchestrator":
            continue
        named = secrets_named(load.settings) if load.settings.exists() else set()
        if not load.open_env and not named <= load.env:
            yield f"{load} does not set {', '.join(sorted(named - load.env))}, which {load.settings.name} takes a secret from"
        for name in sorted(load.env - named - code.FROM_THE_LIBRARIES):
            if not any(pattern.fullmatch(name) for pattern in code.variables()):
                yield f"{load} sets {name}, which nothing reads"


def compose_variables_are_given(tree: Tree) -> Iterator[str]:
    """What compose.yaml demands stands in example.env, and nothing else does."""
    text = tree.text("compose.yaml")
    used, demanded = set(re.findall(r"\$\{([A-Z_]+)", text)), set(re.findall(r"\$\{([A-Z_]+):\?", text))
    given = set(re.findall(r"^([A-Z_]+)=", tree.text("example.env"), re.MULTILINE))
    yield from (f"example.env lacks {name}, which compose.yaml demands" for name in sorted(demanded - given))
    yield from (f"example.env sets {name}, which compose.yaml does not use" for name in sorted(given - used))


def commands_exist(tree: Tree) -> Iterator[str]:
    """Every process is a command of ours with options that it has, or a module of ours; so is what comments tell to run."""
    for load in tree.workloads:
        program, *words = load.command
        if program == "python" and words[0] == "-m":
            yield from _module(str(load), words[1], words[2:])
        elif program == "orchestrator":
            yield from _command(str(load), words)
        else:
            yield f"{load} starts {program}, which is neither `orchestrator` nor `python -m`"
    for file in (each for each in tree.deploy.rglob("*") if each.is_file()):
        for line in re.findall(r"(?:`|worker |bin/)orchestrator ([a-z][^`\n]*)", file.read_text("utf-8")):
            yield from _command(str(file.relative_to(tree.root)), line.split())


def _command(place: str, words: list[str]) -> Iterator[str]:
    path: tuple[str, ...] = ()
    while words and (*path, words[0]) in code.commands():
        path = (*path, words.pop(0))
    if not path:
        yield f"{place}: there is no command `orchestrator {' '.join(words)}`"
        return
    unknown = {word.partition("=")[0] for word in words if word.startswith("-")} - code.commands()[path]
    yield from (f"{place}: `orchestrator {' '.join(path)}` has no option {word}" for word in sorted(unknown))


def _module(place: str, name: str, words: list[str]) -> Iterator[str]:
    spec = importlib.util.find_spec(name) if name.startswith("orchestrator.") else None
    if spec is None or spec.origin is None:
        yield f"{place}: there is no module {name}"
        return
    source = Path(spec.origin).read_text("utf-8")
    yield from (
        f"{place}: {name} has no option {word}" for word in words if word.startswith("--") and f'"{word}"' not in source
    )


def metrics_exist(tree: Tree) -> Iterator[str]:
    """Every metric that is asked for is exported (recorded series are the rules' own)."""
    for file in (each for each in tree.deploy.rglob("*.y*ml") if each.is_file()):
        for name in set(re.findall(r"(?<![:\w./-])orchestrator_[a-z0-9_]+", file.read_text("utf-8"))):
            if name not in code.metrics():
                yield f"{file.relative_to(tree.root)}: no metric {name} is exported"


def labels_exist(tree: Tree) -> Iterator[str]:
    """A series is asked for by labels that it has, and by values that they can have."""
    for file in (each for each in tree.deploy.rglob("*.y*ml") if each.is_file()):
        for problem in wrong_matchers(file.read_text("utf-8"), code.series()):
            yield f"{file.relative_to(tree.root)}: {problem}"


def rules_are_generated(tree: Tree) -> Iterator[str]:
    """The PrometheusRule is made from the rule file."""
    made = subprocess.run(
        ["sh", tree.deploy / "kubernetes/monitoring/prometheusrule.sh"], capture_output=True, check=False, text=True
    )
    if made.returncode or made.stdout != tree.text("kubernetes/monitoring/prometheusrule.yaml"):
        yield "kubernetes/monitoring/prometheusrule.yaml is not what prometheusrule.sh makes: run it"


def grace_is_granted(tree: Tree) -> Iterator[str]:
    """Nobody kills a worker that is draining: the time to stop is more than the grace and the last words."""
    for load in tree.workers:
        if load.source == "Dockerfile":
            continue
        needed = worker_of(load.settings).grace + 2 * LAST_WORDS + MARGIN
        if load.stop is None or load.stop < needed:
            yield f"{load} is killed after {load.stop} s; its drain may take {needed:g} s"


def worker_of(path: Path) -> WorkerSettings:
    with patch.dict(os.environ, dict.fromkeys(secrets_named(path), "http://127.0.0.1:9/key")):
        return Settings.load(path).worker


def paths_exist(tree: Tree) -> Iterator[str]:
    """What is copied or mounted is there; the settings are where ORCHESTRATOR_CONFIG says; programs are where the image has them."""
    ignored = [line for line in tree.text("Dockerfile.dockerignore").splitlines() if line and not line.startswith("#")]
    for rest in tree.docker("COPY"):
        *sources, _ = rest.split()
        for each in sources if not rest.startswith("--from") else ():
            if not (tree.root / each).exists():
                yield f"Dockerfile copies {each}, which does not exist"
            if is_ignored(each, ignored):
                yield f"Dockerfile copies {each}, which Dockerfile.dockerignore keeps out"
    for name, service in tree.compose["services"].items():
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            if source.startswith(".") and not (tree.deploy / source).exists():
                yield f"compose.yaml: {name} mounts {source}, which does not exist"
    places = {"Dockerfile": tree.image_env["ORCHESTRATOR_CONFIG"]}
    places |= {
        file: " ".join(keys["Environment"]).partition("ORCHESTRATOR_CONFIG=")[2].split()[0]
        for file, keys in tree.units.items()
    }
    yield from (
        f"{file}: ORCHESTRATOR_CONFIG is {place}, not {MOUNT}" for file, place in places.items() if place != MOUNT
    )
    for load in tree.workloads:
        if not load.settings.exists():
            yield f"{load} has no settings mounted at {MOUNT}"
        if load.source.startswith("kubernetes/"):
            mounts = [
                each["mountPath"] for each in load.extra["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
            ]
            if str(Path(MOUNT).parent) not in mounts:
                yield f"{load} mounts no settings at {Path(MOUNT).parent}"
    yield from (
        f"{file}: ExecStart is not {BIN}/orchestrator"
        for file, keys in tree.units.items()
        if not keys["ExecStart"][0].startswith(f"{BIN}/orchestrator ")
    )


def is_ignored(path: str, patterns: list[str]) -> bool:
    """By the last pattern that matches it or a folder above it, as Docker does."""
    out = False
    for pattern in patterns:
        bare = pattern.removeprefix("!")
        if any(fnmatch(str(each), bare) for each in (Path(path), *Path(path).parents)):
            out = not pattern.startswith("!")
    return out


def dashboards_are_mounted(tree: Tree) -> Iterator[str]:
    """Grafana looks where compose puts the boards, and its datasource is the Prometheus of compose."""
    (provider,) = tree.yaml("grafana/provisioning/dashboards/orchestrator.yaml")["providers"]
    grafana = tree.compose["services"]["grafana"]
    mounts = dict(volume.split(":")[1::-1] for volume in grafana["volumes"])
    source = mounts.get(provider["options"]["path"])
    if source is None or not list((tree.deploy / source).glob("*.json")):
        yield f"no board lies at {provider['options']['path']}, where Grafana looks"
    if mounts.get("/etc/grafana/provisioning") != "./grafana/provisioning":
        yield "compose.yaml: the provisioning files are not mounted at /etc/grafana/provisioning"
    (datasource,) = tree.yaml("grafana/provisioning/datasources/prometheus.yaml")["datasources"]
    for name in re.findall(r"\$(\w+)", datasource["url"]):
        if name not in grafana["environment"]:
            yield f"grafana/provisioning/datasources/prometheus.yaml: compose.yaml does not set {name}"


def published_on_loopback(tree: Tree) -> Iterator[str]:
    """Nothing of compose.yaml is reachable from other machines."""
    for name, service in tree.compose["services"].items():
        for port in service.get("ports", ()):
            address = port.rpartition(":")[0].rpartition(":")[0]
            if not address or not ipaddress.ip_address(address).is_loopback:
                yield f"compose.yaml: {name} publishes {port} beyond loopback"
