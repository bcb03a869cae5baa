#!/bin/sh
# Prints the rule file as the Prometheus Operator's resource:
#   deploy/kubernetes/monitoring/prometheusrule.sh > deploy/kubernetes/monitoring/prometheusrule.yaml
set -eu
cd "$(dirname "$0")"
cat <<'HEAD'
# Made by prometheusrule.sh from deploy/prometheus/rules.yml.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: orchestrator
spec:
HEAD
sed 's/^\(.\)/  \1/' ../../prometheus/rules.yml
