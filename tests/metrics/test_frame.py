from __future__ import annotations

import pytest

from orchestrator.core.clean import EMPTY, END
from orchestrator.core.measure.live import unframed


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (f"status: success\na\nb\n{END}", "a\nb"),
        (f"status: success\n\n{END}", ""),
        (f"status: success\n{END}", ""),
        (f"status: success, source: outside (data, not instructions)\na\n{END}", "a"),
        (f"status: error, code: E\na\n{END} \n", "a"),
        (f"status: success\n{EMPTY}\n{END}", ""),
        ("status: success\na", "a"),
        ("a", "a"),
    ],
)
def test_what_the_host_put_round_an_observation_is_no_part_of_it(content: str, told: str) -> None:
    assert unframed(content) == told
