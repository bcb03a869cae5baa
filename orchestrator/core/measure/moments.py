"""Dates and times in the formats people write, compared by value. A missing year, or missing seconds, match any."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH: Final = (
    "(?i:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?"
    "|dec(?:ember)?)(?![A-Za-z])\\.?"
)
_OPEN: Final = r"(?<![0-9A-Za-z_])(?<![0-9][.,:/-])"
_SHUT: Final = r"(?![0-9A-Za-z_]|[.:/-][0-9A-Za-z])"
_HALVES: Final = "上午|下午|晚上|早上|凌晨|中午|傍晚"
_NTH: Final = "(?:st|nd|rd|th)?"

_MINUTES: Final = {"半": "30", "整": "0"}
_NIGHT: Final = frozenset({"晚上", "凌晨"})
_AFTERNOON: Final = frozenset({"下午", "晚上", "傍晚"})
_NOON: Final = 12
_FORENOON: Final = 10

MOMENT: Final = re.compile(
    f"(?=[0-9jfmasondJFMASOND上下晚早凌中傍]){_OPEN}(?:"
    rf"(?P<iso_y>[0-9]{{4}})(?P<joint>[-/.])(?P<iso_m>[0-9]{{1,2}})(?P=joint)(?P<iso_d>[0-9]{{1,2}}){_SHUT}"
    rf"|(?:(?P<zh_y>[0-9]{{4}}) ?年 ?)?(?P<zh_m>[0-9]{{1,2}}) ?月 ?(?P<zh_d>[0-9]{{1,2}}) ?[日号]"
    rf"|(?P<zhm_y>[0-9]{{4}}) ?年 ?(?P<zhm_m>[0-9]{{1,2}}) ?月"
    rf"|(?P<dm_d>[0-9]{{1,2}})(?:{_NTH} (?:of )?|-(?=[A-Za-z]{{3,9}}-[0-9]))(?P<dm_m>{_MONTH})(?:(?:,? |-)(?P<dm_y>[0-9]{{4}}){_SHUT})?"
    rf"|(?P<md_m>{_MONTH}) {{1,2}}(?P<md_d>[0-9]{{1,2}}){_NTH}{_SHUT}(?:,? (?P<md_y>[0-9]{{4}}){_SHUT})?"
    rf"|(?P<my_m>{_MONTH}),? (?P<my_y>[0-9]{{4}}){_SHUT}"
    rf"|(?P<ym_y>[0-9]{{4}})-(?P<ym_m>[0-9]{{2}}){_SHUT}"
    rf"|(?P<two_m>[0-9]{{1,2}})(?P<slash>[-/.])(?P<two_d>[0-9]{{1,2}})(?:(?P=slash)(?P<two_y>[0-9]{{4}}))?{_SHUT}"
    rf"|(?P<h>[0-9]{{1,2}}):(?P<min>[0-9]{{2}})(?::(?P<sec>[0-9]{{2}})(?:\.[0-9]{{1,9}})?)?(?![0-9:])(?: ?(?P<half>[aApP])\.?[mM](?![A-Za-z]))?"
    rf"|(?P<hour>[0-9]{{1,2}}) ?(?P<ampm>[aApP])\.?[mM](?![A-Za-z])"
    rf"|(?P<zh_half>{_HALVES}) ?(?P<zh_h>[0-9]{{1,2}})(?::(?P<zh_min>[0-9]{{2}})(?::(?P<zh_sec>[0-9]{{2}}))?(?![0-9:])"
    rf"| ?[点时](?: ?(?P<zh_part>半|(?<! )[0-9]{{1,2}}|[0-9]{{1,2}}(?= ?分)))?)"
    rf"|(?P<zt_h>[0-9]{{1,2}}) ?[点时] ?(?:(?P<zt_part>[0-9]{{1,2}}) ?分|(?P<zt_word>[半整]))"
    ")"
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A date or a time as keys. `numbers`: `06-12` may be a date or two numbers, and counts as both."""

    shows: tuple[str, ...]
    asks: tuple[str, ...]
    numbers: tuple[str, ...] = ()


def moment(match: re.Match[str]) -> Moment | None:
    """The moment that a match of MOMENT spells; None when there is no such day or hour."""
    for kind in ("iso", "zh", "dm", "md"):
        if match[f"{kind}_d"]:
            return _date(match[f"{kind}_y"], match[f"{kind}_m"], match[f"{kind}_d"])
    for kind in ("zhm", "my", "ym"):
        if match[f"{kind}_m"]:
            month = _month(match[f"{kind}_m"])
            return Moment(*(((f"m:{match[f'{kind}_y']}-{month}",),) * 2)) if month else None
    if match["two_y"]:
        return _either(match["two_y"], match["two_m"], match["two_d"])
    if match["two_d"]:
        return _short_date(match["two_m"], match["two_d"]) if match["slash"] != "." else None
    if match["h"]:
        return _time(match["h"], match["min"], match["sec"], match["half"])
    if match["hour"]:
        return _time(match["hour"], "0", None, match["ampm"])
    if match["zh_h"]:
        minute = match["zh_min"] or _MINUTES.get(match["zh_part"], match["zh_part"]) or "0"
        return _time(_hour(match["zh_half"], int(match["zh_h"])), minute, match["zh_sec"], None)
    return _time(match["zt_h"], match["zt_part"] or _MINUTES[match["zt_word"]], None, None)


def _hour(half: str, hour: int) -> str:
    """The hour of the day: 下午 4 is 16, 中午 1 is 13, 晚上 12 and 凌晨 12 are midnight."""
    if hour == _NOON and half in _NIGHT:
        return "0"
    later = half in _AFTERNOON or (half == "中午" and hour < _FORENOON)
    return str(hour + 12 if later and hour < _NOON else hour)


def _short_date(month: str, day: str) -> Moment | None:
    """`06-12`, which may also be two numbers; `6-12` is two numbers only."""
    date = _date(None, month, day) if len(month) == len(day) == len("06") else None
    return date and Moment(date.shows, date.asks, (month, day))


def _either(year: str, first: str, second: str) -> Moment | None:
    """A date whose day may stand before its month or after it: where both can be, it counts as both."""
    found = [each for each in (_date(year, first, second), _date(year, second, first)) if each]
    if not found:
        return None
    shows = dict.fromkeys(key for each in found for key in each.shows)
    asks = dict.fromkeys(key for each in found for key in each.asks)
    return Moment(tuple(shows), tuple(asks))


def _month(text: str) -> int:
    """1 to 12, 0 for none."""
    number = int(text) if text.isdecimal() else _MONTHS.index(text[:3].lower()) + 1
    return number if number <= 12 else 0


def _date(year: str | None, month: str, day: str) -> Moment | None:
    number = _month(month)
    if not number or not 1 <= int(day) <= 31:
        return None
    any_year = f"d:*-{number}-{int(day)}"
    no_year = f"d:-{number}-{int(day)}"
    if year is None:
        return Moment((any_year, no_year), (any_year,))
    full = f"d:{int(year)}-{number}-{int(day)}"
    return Moment((full, any_year), (full, no_year))


def _time(hour: str, minute: str, second: str | None, half: str | None) -> Moment | None:
    hours, minutes = int(hour), int(minute)
    if half and hours <= 12:
        hours = hours % 12 + (12 if half in "pP" else 0)
    if hours > 24 or minutes > 59:
        return None
    any_second = f"t:{hours}:{minutes}:*"
    no_second = f"t:{hours}:{minutes}:"
    if second is None:
        return Moment((any_second, no_second), (any_second,))
    full = f"t:{hours}:{minutes}:{int(second)}"
    return Moment((full, any_second), (full, no_second))
