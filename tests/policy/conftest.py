"""Jitter starts at the same number in every test."""

from __future__ import annotations

import random

import pytest


@pytest.fixture(autouse=True)
def same_jitter() -> None:
    random.seed(7)
