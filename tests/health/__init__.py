"""Labelled traces for the three health metrics, and their score.

`python -m tests.health FILE.jsonl ...` scores any file of the schema in docs; `score(paths)` is what the gate asserts.
"""
