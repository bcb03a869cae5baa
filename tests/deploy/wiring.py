"""What must hold between the deployment files: ports, addresses, probes, selectors, and that every container is confined."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

from pydantic import SecretStr

from orchestrator.alerts.settings import HookSettings
from orchestrator.demo.server import Demo, application
from orchestrator.health import serve
from orchestrator.hooks.adapter import Adapter, Robot
from tests.deploy.laws import worker_of
from tests.deploy.tree import Tree, Workload, toml

NAME, COMPONENT = "app.kubernetes.io/name", "app.kubernetes.io/component"


def port_of(load: Workload) -> int:
    """The port that a process listens on by its own command line or settings."""
    words = list(load.command)
    if "--port" in words:
        return int(words[words.index("--port") + 1])
    return int(worker_of(load.settings).port)


def host_of(load: Workload) -> str:
    words = list(load.command)
    return words[words.index("--host") + 1] if "--host" in words else str(worker_of(load.settings).host)


@cache
def paths_of(command: str) -> frozenset[str]:
    """The paths that a process answers, asked of the code that serves them."""
    if command == "python":
        return frozenset(resource.canonical for resource in application(Demo()).router.resources())
    if command == "alerts":
        robot = Robot("robot", HookSettings(kind="wecom", url=SecretStr("http://127.0.0.1:9/")))
        return frozenset(resource.canonical for resource in Adapter(robot, "en").app().router.resources())
    with serve("127.0.0.1", 0, lambda: None, lambda _accept: (b"", "text/plain")) as url:
        return frozenset(path for path in ("/healthz", "/readyz", "/metrics") if answers(url + path))


def answers(url: str) -> bool:
    try:
        with urlopen(url, timeout=5) as reply:  # noqa: S310  a loopback URL of our own
            return int(reply.status) == 200
    except HTTPError:
        return False


def served(load: Workload) -> frozenset[str]:
    return paths_of("python" if load.command[0] == "python" else load.command[1])


def listens(load: Workload) -> bool:
    return load.command[1:2] != ("monitor",)


def ports_agree(tree: Tree) -> Iterator[str]:
    """Each process is exposed at the port it listens on, at every address, and probed there at a path that it answers."""
    for load in filter(listens, tree.workloads):
        port = port_of(load)
        for other in load.ports - {port}:
            yield f"{load} exposes {other}, but listens on {port}"
        if load.source != "compose.yaml" and load.ports == frozenset() and not load.source.startswith("systemd/"):
            yield f"{load} exposes nothing"
        if load.ports and host_of(load) != "0.0.0.0":
            yield f"{load} listens on {host_of(load)}: nobody outside the container can reach it"
        for probe, path in load.probes:
            if probe != port:
                yield f"{load} is probed at port {probe}, but listens on {port}"
            if path not in served(load):
                yield f"{load} is probed at {path}, which it does not answer"


def addresses_agree(tree: Tree) -> Iterator[str]:
    """Whoever is told an address of compose.yaml finds that service listening there: Prometheus, Alertmanager, the model's URL, the store."""
    loads = {each.name: each for each in tree.workloads if each.source == "compose.yaml"}
    for place, host, port, path in told(tree):
        if host not in tree.compose["services"]:
            yield f"{place}: there is no service {host}"
        elif host in loads and (port != port_of(loads[host])):
            yield f"{place}: {host} listens on {port_of(loads[host])}, not {port}"
        elif host in loads and path and path not in served(loads[host]):
            yield f"{place}: {host} does not answer {path}"
        elif host not in loads and port != WELL_KNOWN[host]:
            yield f"{place}: {host} listens on {WELL_KNOWN[host]}, not {port}"


WELL_KNOWN = {"postgres": 5432, "prometheus": 9090, "alertmanager": 9093, "grafana": 3000}


def told(tree: Tree) -> Iterator[tuple[str, str, int, str]]:
    """(place, host, port, path) of each address that one service is told of another."""
    prometheus = tree.yaml("prometheus/prometheus.yml")
    for job in prometheus["scrape_configs"]:
        path = job.get("metrics_path", "/metrics")
        for found in job.get("dns_sd_configs", ()):
            yield from (("prometheus.yml", name, found["port"], path) for name in found["names"])
        for found in job.get("static_configs", ()):
            yield from (("prometheus.yml", *split(target), path) for target in found["targets"])
    for manager in prometheus["alerting"]["alertmanagers"]:
        yield from (
            ("prometheus.yml", *split(target), "") for found in manager["static_configs"] for target in found["targets"]
        )
    for receiver in tree.yaml("prometheus/alertmanager.yml")["receivers"]:
        for hook in receiver.get("webhook_configs", ()):
            yield ("alertmanager.yml", *located(hook["url"]))
    settings = toml(tree.deploy / "config" / "distributed.toml")
    yield ("config/distributed.toml", *located(settings["store"])[:2], "")
    for model in settings["models"].values():
        yield ("config/distributed.toml", *located(model["base_url"] + "/chat/completions"))
    yield ("compose.yaml", *located(tree.compose["services"]["grafana"]["environment"]["PROMETHEUS_URL"]))


def split(target: str) -> tuple[str, int]:
    host, _, port = target.partition(":")
    return host, int(port)


def located(url: str) -> tuple[str, int, str]:
    parts = urlsplit(url)
    return parts.hostname or "", parts.port or 0, parts.path


def names_are_resolved(tree: Tree) -> Iterator[str]:
    """Ports by name, config maps, accounts and scale targets of Kubernetes are there, and each selector finds its pods."""
    pods = {load.extra["metadata"]["name"]: load.extra["spec"]["template"] for load in pods_of(tree)}
    known = {NAME: {"orchestrator"}, COMPONENT: {"worker", "alerts"}}
    ports = {port["name"] for pod in pods.values() for port in pod["spec"]["containers"][0]["ports"]}
    for file, each in tree.resources:
        for selector in selectors(each):
            for label, value in selector.items():
                if label in known and value not in known[label]:
                    yield f"{file} selects {label}={value}, which no pod bears"
        text = json.dumps(each)
        for name in re.findall(r'"(?:targetPort|port)": "(\w+)"', text):
            if name not in ports:
                yield f"{file} names the port {name}, which no container has"
        for name in re.findall(r'"serviceAccountName": "([\w-]+)"', text):
            if name not in {account["metadata"]["name"] for _, account in tree.of_kind("ServiceAccount")}:
                yield f"{file}: there is no ServiceAccount {name}"
    for file, scaled in tree.of_kind("ScaledObject"):
        if scaled["spec"]["scaleTargetRef"]["name"] not in pods:
            yield f"{file} scales {scaled['spec']['scaleTargetRef']['name']}, which is no Deployment"
    for file, each in (*tree.of_kind("Service"), *tree.of_kind("NetworkPolicy"), *tree.of_kind("PodDisruptionBudget")):
        if not any(selectors(each)):
            yield f"{file} selects nothing, or everything"
    for file, monitor in tree.of_kind("ServiceMonitor"):
        for endpoint in monitor["spec"]["endpoints"]:
            if endpoint["path"] not in paths_of("worker"):
                yield f"{file} scrapes {endpoint['path']}, which a worker does not answer"


def selectors(resource: dict[str, Any]) -> Iterator[dict[str, str]]:
    """The selectors of our own pods in a resource."""
    spec = resource.get("spec", {})
    for key in ("selector", "podSelector"):
        found = spec.get(key) or {}
        if isinstance(found, dict) and found:
            yield found.get("matchLabels", found)


def pods_of(tree: Tree) -> list[Workload]:
    return [each for each in tree.workloads if each.source.startswith("kubernetes/")]


def services_offer_the_port(tree: Tree) -> Iterator[str]:
    """A Service offers the port that its pods listen on."""
    ports = {load.extra["metadata"]["name"]: port_of(load) for load in pods_of(tree)}
    for file, service in tree.of_kind("Service"):
        name = service["metadata"]["name"]
        if [port["port"] for port in service["spec"]["ports"]] != [ports.get(name)]:
            yield f"{file} does not offer {ports.get(name)}, where {name} listens"


def images_are_pinned(tree: Tree) -> Iterator[str]:
    """No image without a version, none that moves; Grafana is the one that the boards are made for."""
    images = {name: each["image"] for name, each in tree.compose["services"].items()}
    images |= dict(re.findall(r"(\w*IMAGE)=(\S+)", " ".join(tree.docker("ARG"))))
    for name, image in images.items():
        _, colon, tag = image.partition(":")
        if not colon or tag == "latest":
            yield f"{name}: {image} has no fixed version"
    boards = re.search(r"grafana-foundation-sdk==\d+!([\d.]+)", (tree.root / "pyproject.toml").read_text("utf-8"))
    if boards is None or not images["grafana"].endswith(f":{boards[1]}"):
        yield f"{images['grafana']} is not the Grafana that the boards are made for"


def containers_are_confined(tree: Tree) -> Iterator[str]:
    """Not root, one and the same user everywhere, a root that is read-only, no capability, no way to more privileges."""
    user = tree.docker("USER")[-1].partition(":")[0]
    if not user.isdigit() or user == "0":
        yield f"Dockerfile: USER {user} is root, or no number (runAsNonRoot needs one)"
    for load in tree.workloads:
        if load.source == "compose.yaml":
            given = load.extra
            confined = (
                given.get("read_only")
                and given.get("cap_drop") == ["ALL"]
                and "no-new-privileges:true" in given.get("security_opt", ())
            )
            if not confined or any("uid=" in each and f"uid={user}," not in each for each in given["tmpfs"]):
                yield f"{load} is not confined: read_only, cap_drop, no-new-privileges, the image's user"
        if load.source.startswith("kubernetes/"):
            yield from _pod(load, user)
    for file, keys in tree.units.items():
        wanted = {
            "NoNewPrivileges": "yes",
            "ProtectSystem": "strict",
            "CapabilityBoundingSet": "",
            "DynamicUser": "yes",
        }
        yield from (f"{file}: {key} is not {value!r}" for key, value in wanted.items() if keys.get(key) != [value])


def _pod(load: Workload, user: str) -> Iterator[str]:
    spec = load.extra["spec"]["template"]["spec"]
    pod, own = spec["securityContext"], spec["containers"][0]["securityContext"]
    fine = (
        pod.get("runAsNonRoot") is True
        and str(pod.get("runAsUser")) == user
        and pod.get("seccompProfile") == {"type": "RuntimeDefault"}
        and own.get("allowPrivilegeEscalation") is False
        and own.get("readOnlyRootFilesystem") is True
        and own.get("capabilities") == {"drop": ["ALL"]}
    )
    if not fine:
        yield f"{load} is not confined as the pod security standard `restricted` demands"
    if spec.get("automountServiceAccountToken") is not False or spec.get("enableServiceLinks") is not False:
        yield f"{load} mounts a token, or lets the cluster write variables named like settings"


def workers_are_enough(tree: Tree) -> Iterator[str]:
    """Two workers at least, so that one may go."""
    counts = {"compose.yaml": tree.compose["services"]["worker"]["deploy"]["replicas"]}
    counts |= {load.source: load.extra["spec"]["replicas"] for load in pods_of(tree) if load in tree.workers}
    counts |= {file: each["spec"]["minReplicaCount"] for file, each in tree.of_kind("ScaledObject")}
    yield from (f"{file}: {count} worker" for file, count in counts.items() if count < 2)
