#!/bin/sh
# What `make deploy-check` needs: the `deploy` group of pyproject.toml in .venv-deploy, and three programs of Debian.
set -eu
cd "$(dirname "$0")/.."

missing=
command -v promtool >/dev/null || missing="$missing prometheus"
command -v amtool >/dev/null || missing="$missing prometheus-alertmanager"
command -v systemd-analyze >/dev/null || missing="$missing systemd"
if [ -n "$missing" ]; then
  as_root=$([ "$(id -u)" = 0 ] || echo sudo)
  $as_root apt-get update -qq
  # shellcheck disable=SC2086  the packages are words
  DEBIAN_FRONTEND=noninteractive $as_root apt-get install -qq -y --no-install-recommends $missing >/dev/null
fi

ready=.venv-deploy/.ready
if [ ! -e "$ready" ] || [ pyproject.toml -nt "$ready" ]; then
  .venv/bin/python -m uv venv --quiet --allow-existing --python .venv/bin/python .venv-deploy
  .venv/bin/python -m uv pip install --quiet --python .venv-deploy/bin/python --group deploy
  touch "$ready"
fi
