"""The wall clock, for tools that answer "what day is it": the prompt itself never holds the time."""

from datetime import datetime
from difflib import get_close_matches
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from orchestrator.tool import ToolError, tool


@tool(repeatable=True, timeout=5.0, aliases=("当前时间",))
def now(timezone: str = "UTC") -> dict[str, Any]:
    """The date and time now in an IANA time zone such as Asia/Shanghai or Europe/Paris. 当前日期和时间。"""
    zone = timezone.strip()
    known = available_timezones()
    if zone not in known:
        place = zone.replace(" ", "_").split("/")[-1]
        near = get_close_matches(zone, known, n=3) or [name for name in sorted(known) if name.endswith("/" + place)][:3]
        hint = f"did you mean {', '.join(near)}?" if near else "write Area/City, e.g. Asia/Shanghai"
        raise ToolError("UNKNOWN_TIMEZONE", f'there is no IANA time zone "{zone[:60]}"; {hint}')
    moment = datetime.now(ZoneInfo(zone))
    offset = moment.strftime("%z")
    return {
        "timezone": zone,
        "date": moment.date().isoformat(),
        "time": moment.strftime("%H:%M:%S"),
        "weekday": moment.strftime("%A"),
        "utc_offset": f"{offset[:3]}:{offset[3:5]}",
    }
