"""The Grafana boards as code: `python -m dashboards.build` writes the JSON files beside this one."""
