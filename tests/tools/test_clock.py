"""The clock knows IANA zones and helps with names that are none."""

from datetime import date

import pytest

from tests.tools.call import call, refused
from tools import clock


@pytest.mark.parametrize(
    ("zone", "offset"), [("Asia/Shanghai", "+08:00"), ("Asia/Kolkata", "+05:30"), ("UTC", "+00:00")]
)
async def test_a_zone_has_its_offset(zone: str, offset: str) -> None:
    told = await call(clock.now, timezone=zone)
    assert (told["timezone"], told["utc_offset"]) == (zone, offset)
    assert date.fromisoformat(told["date"]).strftime("%A") == told["weekday"]
    assert len(told["time"]) == 8


@pytest.mark.parametrize("zone", ["Asia/Shangai", "../etc/passwd", "", "America", "x" * 5000, "\x00"])
async def test_an_unknown_zone_is_refused_with_a_hint(zone: str) -> None:
    error = await refused(clock.now, timezone=zone)
    assert error.code == "UNKNOWN_TIMEZONE"
    assert len(error.message) < 300


async def test_a_near_miss_names_the_right_zone() -> None:
    assert "Asia/Shanghai" in (await refused(clock.now, timezone="Asia/Shangai")).message
    assert "Europe/Paris" in (await refused(clock.now, timezone="Paris")).message
