"""Labelled traces for the three health metrics, and their score.

`python -m tests.health FILE.jsonl ...` scores any file of this schema (case.py reads it); tests/test_health.py is the gate.
`data/cases.jsonl` was given, `data/own.jsonl` is ours, each line labelled by hand before the code saw it.
"""
