"""The deployment files as data: every process that they start, from whichever kind of file, in one shape."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent.parent
MOUNT = "/etc/orchestrator/orchestrator.toml"
BIN = "/opt/orchestrator/bin"


@dataclass(frozen=True)
class Workload:
    """One process of ours. `command` begins with `orchestrator` or `python`; `settings` is the file that it reads."""

    source: str
    name: str
    command: tuple[str, ...]
    env: frozenset[str]
    settings: Path
    ports: frozenset[int] = frozenset()
    probes: frozenset[tuple[int, str]] = frozenset()
    stop: float | None = None
    open_env: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.source}: {self.name}"


@dataclass(frozen=True)
class Tree:
    """deploy/ below a root, read lazily; the mutations read a changed copy through the same class."""

    root: Path = ROOT

    @property
    def deploy(self) -> Path:
        return self.root / "deploy"

    def text(self, path: str) -> str:
        return (self.deploy / path).read_text("utf-8")

    def yaml(self, path: str) -> Any:
        return yaml.safe_load(self.text(path))

    @cached_property
    def compose(self) -> dict[str, Any]:
        found: dict[str, Any] = self.yaml("compose.yaml")
        return found

    @cached_property
    def dockerfile(self) -> tuple[tuple[str, str], ...]:
        """(instruction, rest) of each line, continuations joined."""
        lines = [line for line in self.text("Dockerfile").splitlines() if not line.startswith("#")]
        joined = "\n".join(lines).replace("\\\n", " ")
        return tuple(
            (word.upper(), rest.strip())
            for word, _, rest in (line.partition(" ") for line in joined.splitlines())
            if word
        )

    def docker(self, instruction: str) -> list[str]:
        return [rest for word, rest in self.dockerfile if word == instruction]

    @cached_property
    def image_env(self) -> dict[str, str]:
        return dict(re.findall(r"([A-Z_]+)=(\S+)", " ".join(self.docker("ENV"))))

    @cached_property
    def resources(self) -> tuple[tuple[str, dict[str, Any]], ...]:
        """(file, resource) of each Kubernetes resource."""
        files = sorted((self.deploy / "kubernetes").rglob("*.yaml"))
        named = ((str(file.relative_to(self.deploy)), yaml.safe_load(file.read_text("utf-8"))) for file in files)
        return tuple((name, each) for name, each in named if "kustomize" not in each["apiVersion"])

    def of_kind(self, kind: str) -> list[tuple[str, dict[str, Any]]]:
        return [(name, each) for name, each in self.resources if each["kind"] == kind]

    @cached_property
    def units(self) -> dict[str, dict[str, list[str]]]:
        """The settings of each systemd unit, whichever section, in order."""
        found: dict[str, dict[str, list[str]]] = {}
        for file in sorted((self.deploy / "systemd").glob("*.service")):
            keys: dict[str, list[str]] = {}
            for line in file.read_text("utf-8").splitlines():
                key, equals, value = line.partition("=")
                if equals and not line.startswith("#"):
                    keys.setdefault(key, []).append(value)
            found[f"systemd/{file.name}"] = keys
        return found

    @cached_property
    def settings_files(self) -> tuple[Path, ...]:
        return tuple(sorted(self.deploy.rglob("*.toml")))

    @cached_property
    def workloads(self) -> tuple[Workload, ...]:
        return (self._image(), *self._services(), *self._pods(), *self._services_of_systemd())

    @cached_property
    def workers(self) -> tuple[Workload, ...]:
        return tuple(each for each in self.workloads if each.command[:2] == ("orchestrator", "worker"))

    def _image(self) -> Workload:
        return Workload(
            "Dockerfile",
            "image",
            (*json.loads(self.docker("ENTRYPOINT")[0]), *json.loads(self.docker("CMD")[0])),
            frozenset(self.image_env),
            self.root / next(rest.split()[0] for rest in self.docker("COPY") if rest.endswith(MOUNT)),
            frozenset(map(int, self.docker("EXPOSE"))),
            frozenset(probed(self.docker("HEALTHCHECK")[0])),
            open_env=True,
        )

    def _services(self) -> Iterator[Workload]:
        for name, service in self.compose["services"].items():
            if not service["image"].startswith("orchestrator:"):
                continue
            mounts = dict(volume.split(":")[1::-1] for volume in service.get("volumes", ()))
            entry = service.get("entrypoint") or json.loads(self.docker("ENTRYPOINT")[0])
            health = json.dumps(service.get("healthcheck", {}).get("test", ""))
            yield Workload(
                "compose.yaml",
                name,
                (*entry, *service["command"]),
                frozenset(service.get("environment") or ()) | frozenset(self.image_env),
                self.deploy / mounts.get(MOUNT, "missing"),
                frozenset(map(int, service.get("expose", ()))),
                frozenset(probed(health)),
                seconds(service.get("stop_grace_period", "10s")),
                extra=service,
            )

    def _pods(self) -> Iterator[Workload]:
        for file, deployment in self.of_kind("Deployment"):
            pod = deployment["spec"]["template"]["spec"]
            (container,) = pod["containers"]
            ports = {port["name"]: port["containerPort"] for port in container["ports"]}
            gets = [probe["httpGet"] for key, probe in container.items() if key.endswith("Probe")]
            yield Workload(
                file,
                deployment["metadata"]["name"],
                (*json.loads(self.docker("ENTRYPOINT")[0]), *container["args"]),
                frozenset(each["name"] for each in container.get("env", ())) | frozenset(self.image_env),
                (self.deploy / file).with_name("orchestrator.toml"),
                frozenset(ports.values()),
                frozenset((ports.get(get["port"], 0), get["path"]) for get in gets),
                float(pod["terminationGracePeriodSeconds"]),
                extra=deployment,
            )

    def _services_of_systemd(self) -> Iterator[Workload]:
        for file, keys in self.units.items():
            program, *words = shlex.split(keys["ExecStart"][-1])
            yield Workload(
                file,
                Path(file).stem,
                (program.removeprefix(f"{BIN}/"), *words),
                frozenset(pair.partition("=")[0] for pair in keys["Environment"]),
                self.deploy / "config" / "embedded.toml",
                stop=seconds(keys["TimeoutStopSec"][-1]),
                open_env="EnvironmentFile" in keys,
            )


def probed(text: str) -> Iterator[tuple[int, str]]:
    """(port, path) of each local URL."""
    for port, path in re.findall(r"http://127\.0\.0\.1:(\d+)(/\w*)", text):
        yield int(port), path


def seconds(value: str) -> float:
    """`45s`, `45` or `1m`."""
    found = re.fullmatch(r"(\d+)(s|m)?", value)
    assert found, f"{value!r} is no duration that is read here"
    return float(found[1]) * (60 if found[2] == "m" else 1)


def toml(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text("utf-8"))


def secrets_named(path: Path) -> set[str]:
    """The variables that a settings file takes secrets from."""
    return set(re.findall(r'"env:([A-Z0-9_]+)"', path.read_text("utf-8")))
