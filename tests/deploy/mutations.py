"""Deliberate typos, one or more in each kind of file, and who must catch each. Applied to a copy, never to the files themselves."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.deploy.tree import ROOT, Tree

PARTS = ("deploy", "dashboards")
LINKED = ("orchestrator", "tools", "pyproject.toml", "requirements.lock", "README.md", "LICENSE")


@dataclass(frozen=True)
class Mutation:
    """In `file` (below deploy/), the first `old` becomes `new`; the validator `caught` refuses it."""

    file: str
    old: str
    new: str
    caught: str

    def __str__(self) -> str:
        return f"{self.file}: {self.old.strip()!r} → {self.new.strip()!r}"


@contextmanager
def mutated(mutation: Mutation) -> Iterator[Tree]:
    """A copy of the deployment files with the typo in it. AssertionError when there is nothing to change."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name in PARTS:
            shutil.copytree(ROOT / name, root / name)
        for name in LINKED:
            (root / name).symlink_to(ROOT / name)
        file = root / "deploy" / mutation.file
        text = file.read_text("utf-8")
        assert mutation.old in text, f"{mutation}: not in the file"
        file.write_text(text.replace(mutation.old, mutation.new, 1), "utf-8")
        yield Tree(root)


BASE = "kubernetes/base"
MUTATIONS = (
    Mutation("Dockerfile", "WORKDIR /src", "WORKDIRR /src", "hadolint"),
    Mutation("Dockerfile", 'ENTRYPOINT ["orchestrator"]', "ENTRYPOINT orchestrator", "hadolint"),
    Mutation("Dockerfile", "python:3.11-slim-bookworm\n", "python\n", "facts"),
    Mutation("Dockerfile", "COPY tools tools", "COPY tool tools", "facts"),
    Mutation("Dockerfile", "EXPOSE 9464", "EXPOSE 9465", "facts"),
    Mutation("Dockerfile", "9464/healthz", "9464/health", "facts"),
    Mutation("Dockerfile", "USER 10001:10001", "USER root", "facts"),
    Mutation("Dockerfile", 'CMD ["worker"]', 'CMD ["wroker"]', "facts"),
    Mutation("Dockerfile", "ORCHESTRATOR_CONFIG=", "ORCHESTRATOR_CONFG=", "facts"),
    Mutation("Dockerfile.dockerignore", "!tools", "!tool", "facts"),
    Mutation("compose.yaml", "stop_grace_period", "stop_grace_perid", "compose"),
    Mutation("compose.yaml", "service_healthy", "service_helthy", "compose"),
    Mutation("compose.yaml", "networks: [data, model, watch]", "networks: [data, modell, watch]", "compose"),
    Mutation("compose.yaml", "stop_grace_period: 45s", "stop_grace_period: 20s", "facts"),
    Mutation("compose.yaml", '"18181"]\n', '"18182"]\n', "facts"),
    Mutation("compose.yaml", '"--host", "0.0.0.0", "--port", "18181"', '"--hots", "0.0.0.0", "--port", "18181"', "facts"),
    Mutation("compose.yaml", "MODEL_API_KEY: ", "MODEL_APIKEY: ", "facts"),
    Mutation("compose.yaml", "../dashboards:", "../dashbords:", "facts"),
    Mutation("compose.yaml", "read_only: true", "read_only: false", "facts"),
    Mutation("compose.yaml", "127.0.0.1:9090:9090", "9090:9090", "facts"),
    Mutation("compose.yaml", "grafana:11.6.0", "grafana:10.6.0", "facts"),
    Mutation("example.env", "POSTGRES_PASSWORD", "POSTGRES_PASWORD", "compose"),
    Mutation("config/embedded.toml", "concurrency = 200", "concurency = 200", "facts"),
    Mutation("config/distributed.toml", "grace = 25.0", "grace = 60.0", "facts"),
    Mutation("config/distributed.toml", "demo-model:18181", "demo-model:18180", "facts"),
    Mutation(f"{BASE}/kustomization.yaml", "- deployment.yaml", "- deploymnt.yaml", "kustomize"),
    Mutation(f"{BASE}/kustomization.yaml", "configMapGenerator", "configMapGenrator", "kustomize"),
    Mutation(f"{BASE}/deployment.yaml", "          resources:", "          resource:", "kubernetes"),
    Mutation(f"{BASE}/deployment.yaml", "runAsNonRoot", "runAsNonroot", "kubernetes"),
    Mutation(f"{BASE}/deployment.yaml", "terminationGracePeriodSeconds: 45", "terminationGracePeriodSeconds: 15", "facts"),
    Mutation(f"{BASE}/deployment.yaml", "/readyz", "/ready", "facts"),
    Mutation(f"{BASE}/deployment.yaml", "MODEL_API_KEY", "MODEL_KEY", "facts"),
    Mutation(f"{BASE}/deployment.yaml", 'args: ["worker"]', 'args: ["work"]', "facts"),
    Mutation(f"{BASE}/deployment.yaml", "mountPath: /etc/orchestrator\n", "mountPath: /etc/orchestrater\n", "facts"),
    Mutation(f"{BASE}/orchestrator.toml", "port = 9464", "port = 9463", "facts"),
    Mutation(f"{BASE}/service.yaml", "targetPort: metrics", "targetPort: metric", "facts"),
    Mutation(f"{BASE}/service.yaml", "clusterIP", "clusterIp", "kubernetes"),
    Mutation(f"{BASE}/serviceaccount.yaml", "name: orchestrator", "name: orchestrater", "facts"),
    Mutation(f"{BASE}/poddisruptionbudget.yaml", "maxUnavailable", "maxUnavailible", "kubernetes"),
    Mutation(f"{BASE}/networkpolicy.yaml", "policyTypes", "policyType", "kubernetes"),
    Mutation(f"{BASE}/networkpolicy.yaml", "component: worker", "component: wroker", "facts"),
    Mutation("kubernetes/alerts/deployment.yaml", '"serve", "robot"', '"serv", "robot"', "facts"),
    Mutation("kubernetes/alerts/service.yaml", "port: 9094", "port: 9095", "facts"),
    Mutation("kubernetes/monitoring/servicemonitor.yaml", "interval: 15s", "intervall: 15s", "schemas"),
    Mutation("kubernetes/monitoring/servicemonitor.yaml", "/metrics", "/metric", "facts"),
    Mutation("kubernetes/monitoring/prometheusrule.yaml", "expr: |-", "exp: |-", "schemas"),
    Mutation("kubernetes/monitoring/prometheusrule.yaml", "increase(", "incraese(", "promtool"),
    Mutation("kubernetes/monitoring/prometheusrule.yaml", "> 0.05", "> 0.5", "facts"),
    Mutation("kubernetes/monitoring/prometheusrule.sh", "cat <<'HEAD'", "if cat <<'HEAD'", "shell"),
    Mutation("kubernetes/autoscaling/scaledobject.yaml", "pollingInterval", "poolingInterval", "schemas"),
    Mutation("kubernetes/autoscaling/scaledobject.yaml", "orchestrator_queue_depth", "orchestrator_queue_dept", "facts"),
    Mutation("kubernetes/autoscaling/scaledobject.yaml", "orchestrator_queue_depth", 'orchestrator_queue_runs{state="queued"}', "facts"),
    Mutation("kubernetes/autoscaling/kustomization.yaml", "/spec/replicas", "/spec/replica", "kustomize"),
    Mutation("kubernetes/production/kustomization.yaml", "../base", "../bas", "kustomize"),
    Mutation("systemd/orchestrator-worker.service", "TimeoutStopSec", "TimoutStopSec", "systemd"),
    Mutation("systemd/orchestrator-worker.service", "ProtectSystem=strict", "ProtectSystem=strikt", "systemd"),
    Mutation("systemd/orchestrator-worker.service", "TimeoutStopSec=45", "TimeoutStopSec=20", "facts"),
    Mutation("systemd/orchestrator-worker.service", "ORCHESTRATOR_WORKER__HOST", "ORCHESTRATOR_WORKER_HOST", "facts"),
    Mutation("systemd/orchestrator-worker.service", "bin/orchestrator worker", "bin/orchestrator wroker", "facts"),
    Mutation("systemd/orchestrator-monitor.service", "ExecStart=/opt/orchestrator", "ExecStart=/opt/orchestrater", "systemd"),
    Mutation("grafana/provisioning/datasources/prometheus.yaml", "access: proxy", "acess: proxy", "schemas"),
    Mutation("grafana/provisioning/datasources/prometheus.yaml", "$PROMETHEUS_URL", "$PROMETHEUS_ULR", "facts"),
    Mutation("grafana/provisioning/dashboards/orchestrator.yaml", "type: file", "type: files", "schemas"),
    Mutation("grafana/provisioning/dashboards/orchestrator.yaml", "grafana/dashboards", "grafana/dashbords", "facts"),
    Mutation("prometheus/prometheus.yml", "scrape_interval", "scrap_interval", "promtool"),
    Mutation("prometheus/prometheus.yml", "- rules.yml", "- rule.yml", "promtool"),
    Mutation("prometheus/prometheus.yml", "port: 9464", "port: 9465", "facts"),
    Mutation("prometheus/rules.yml", "increase(", "incraese(", "promtool"),
    Mutation("prometheus/rules.yml", "orchestrator_thought_actions_total", "orchestrator_thoughts_actions_total", "facts"),
    Mutation("prometheus/rules.test.yml", "severity: critical, rule", "severity: crtical, rule", "promtool"),
    Mutation("prometheus/alertmanager.yml", "group_wait", "group_wiat", "amtool"),
    Mutation("prometheus/alertmanager.yml", "receiver: wecom", "receiver: wecon", "amtool"),
    Mutation("prometheus/alertmanager.yml", "/alertmanager\n", "/alertmanger\n", "facts"),
)  # fmt: skip
