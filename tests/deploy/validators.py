"""The real validators, each with its version. They come from deploy/validators.sh; `make deploy-check` runs them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.deploy.facts import problems
from tests.deploy.tree import BIN, ROOT, Tree

TOOLS = ROOT / ".venv-deploy" / "bin"
BUILT = ("base", "alerts", "monitoring", "production")
CUSTOM = {"ScaledObject": "scaledobject", "ServiceMonitor": "servicemonitor", "PrometheusRule": "prometheusrule"}
EXPOSED = 20
"""systemd's exposure level, in tenths, that a unit must not exceed: 0 is confined, 100 is not at all."""


class Refused(Exception):
    """A validator said no; its words."""


@dataclass(frozen=True)
class Validator:
    """`check(tree)` raises Refused. `version` is the command that prints the version."""

    name: str
    version: tuple[str, ...]
    check: Callable[[Tree], None]


def run(*command: str | Path, cwd: Path | None = None, env: dict[str, str] | None = None, silent: bool = False) -> str:
    """stdout. Refused when the program fails, or, if it is to be silent, says anything on stderr."""
    path = f"{TOOLS}:{os.environ['PATH']}"
    done = subprocess.run(
        [str(each) for each in command],
        cwd=cwd, env={**os.environ, "PATH": path, **(env or {})}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if done.returncode or (silent and done.stderr.strip()):
        raise Refused((done.stdout + done.stderr).strip())
    return done.stdout


def hadolint(tree: Tree) -> None:
    run("hadolint", "--failure-threshold", "style", tree.deploy / "Dockerfile")


def compose(tree: Tree) -> None:
    run(
        "docker-compose",
        "--env-file",
        "example.env",
        "--file",
        "compose.yaml",
        "config",
        "--quiet",
        cwd=tree.deploy,
        silent=True,
    )


def kustomize(tree: Tree) -> None:
    for folder in BUILT:
        run("kubectl", "kustomize", tree.deploy / "kubernetes" / folder, silent=True)


def kubernetes(tree: Tree) -> None:
    """Strictly, by the schemas of Kubernetes itself; a resource without schema must be one that custom() looks at."""
    with tempfile.TemporaryDirectory() as folder:
        for name in BUILT:
            built = Path(folder) / f"{name}.yaml"
            built.write_text(run("kubectl", "kustomize", tree.deploy / "kubernetes" / name), "utf-8")
            said = run("kubernetes-validate", "--strict", built)
            unknown = [line for line in said.splitlines() if not line.startswith("INFO")]
            if any(not any(f"for kind {kind} with" in line for kind in CUSTOM) for line in unknown):
                raise Refused("\n".join(unknown))


def custom(tree: Tree) -> None:
    """KEDA's and the Prometheus Operator's resources, and Grafana's provisioning, by strict schemas of our own."""
    with tempfile.TemporaryDirectory() as folder:
        built = run("kubectl", "kustomize", tree.deploy / "kubernetes" / "production")
        for each in yaml.safe_load_all(built):
            if each["kind"] in CUSTOM:
                file = Path(folder) / f"{each['kind']}.yaml"
                file.write_text(yaml.safe_dump(each), "utf-8")
                schema(tree, CUSTOM[each["kind"]], file)
    for kind in ("datasources", "dashboards"):
        for file in sorted((tree.deploy / "grafana" / "provisioning" / kind).iterdir()):
            schema(tree, f"grafana-{kind}", file)


def schema(tree: Tree, name: str, file: Path) -> None:
    run("check-jsonschema", "--schemafile", tree.deploy / "schemas" / f"{name}.json", file)


def systemd(tree: Tree) -> None:
    """The units with a program in the place of ours, which is not installed here; any word on stderr is a refusal."""
    with tempfile.TemporaryDirectory() as folder:
        units = []
        for name in tree.units:
            unit = Path(folder) / Path(name).name
            unit.write_text(tree.text(name).replace(f"ExecStart={BIN}/orchestrator", "ExecStart=/bin/true"), "utf-8")
            units.append(unit)
        run("systemd-analyze", "--no-pager", "verify", *units, silent=True)
        for unit in units:
            run("systemd-analyze", "--no-pager", "security", "--offline=true", f"--threshold={EXPOSED}", unit)


def promtool(tree: Tree) -> None:
    """The configuration, the rules with every lint, the rules' own tests, and the rules as the Operator will have them."""
    folder = tree.deploy / "prometheus"
    run("promtool", "check", "config", "--lint=all", "--lint-fatal", folder / "prometheus.yml")
    run("promtool", "check", "rules", "--lint=all", "--lint-fatal", folder / "rules.yml")
    run("promtool", "test", "rules", *sorted(folder.glob("*.test.yml")), cwd=folder)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "rules.yml"
        file.write_text(yaml.safe_dump(tree.yaml("kubernetes/monitoring/prometheusrule.yaml")["spec"]), "utf-8")
        run("promtool", "check", "rules", "--lint=all", "--lint-fatal", file)


def amtool(tree: Tree) -> None:
    run("amtool", "check-config", tree.deploy / "prometheus" / "alertmanager.yml")


def shell(tree: Tree) -> None:
    for file in sorted(tree.deploy.rglob("*.sh")):
        run("sh", "-n", file, silent=True)


def facts(tree: Tree) -> None:
    found = problems(tree)
    if found:
        raise Refused("\n".join(found))


VALIDATORS = (
    Validator("hadolint", ("hadolint", "--version"), hadolint),
    Validator("compose", ("docker-compose", "version"), compose),
    Validator("kustomize", ("kubectl", "version", "--client"), kustomize),
    Validator("kubernetes", ("kubernetes-validate", "--version"), kubernetes),
    Validator("schemas", ("check-jsonschema", "--version"), custom),
    Validator("systemd", ("systemd-analyze", "--version"), systemd),
    Validator("promtool", ("promtool", "--version"), promtool),
    Validator("amtool", ("amtool", "--version"), amtool),
    Validator("shell", ("dash", "-c", "echo dash"), shell),
    Validator("facts", ("python3", "--version"), facts),
)


def version(validator: Validator) -> str:
    """The first line that the program says of itself."""
    path = f"{TOOLS}:{os.environ['PATH']}"
    done = subprocess.run(
        validator.version, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    return next(iter((done.stdout or done.stderr).splitlines()), "?").strip()
