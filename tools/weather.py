"""The weather now, from Open-Meteo (https://open-meteo.com/en/docs): no key, free for non-commercial use."""

from typing import Any

import httpx

from orchestrator.tool import ToolError, tool, web_client

GEOCODING = "https://geocoding-api.open-meteo.com/v1/search"
FORECAST = "https://api.open-meteo.com/v1/forecast"
CURRENT = "temperature_2m,relative_humidity_2m,wind_speed_10m,weather_code"

# WMO code table 4677, as far as Open-Meteo uses it.
CONDITIONS = {
    0: "clear", 1: "mainly clear", 2: "partly cloudy", 3: "overcast", 45: "fog", 48: "freezing fog",
    51: "light drizzle", 53: "drizzle", 55: "heavy drizzle", 56: "light freezing drizzle", 57: "freezing drizzle",
    61: "light rain", 63: "rain", 65: "heavy rain", 66: "light freezing rain", 67: "freezing rain",
    71: "light snow", 73: "snow", 75: "heavy snow", 77: "snow grains", 80: "light showers", 81: "showers",
    82: "violent showers", 85: "light snow showers", 86: "snow showers", 95: "thunderstorm",
    96: "thunderstorm with hail", 99: "thunderstorm with heavy hail",
}  # fmt: skip

transport: httpx.AsyncBaseTransport | None = None


@tool(
    repeatable=True,
    timeout=15.0,
    trusted=False,
    aliases=("天气接口",),
    facts={"temperature": "/temperature", "condition": "/condition", "humidity": "/humidity", "wind": "/wind_speed"},
)
async def get_weather(city: str) -> dict[str, Any]:
    """The weather now in a city, by its name in any language: temperature, condition, humidity, wind. 当前天气。"""
    if not city.strip():
        raise ToolError("INVALID_PARAM", "city must be a non-empty string")
    async with web_client("get_weather", inner=transport) as http:
        language = "zh" if any("\u4e00" <= char <= "\u9fff" for char in city) else "en"
        places = await get(
            http, GEOCODING, {"name": city.strip(), "count": "1", "language": language, "format": "json"}
        )
        if not places.get("results"):
            raise ToolError("NOT_FOUND", f'no place is called "{city[:80]}"')
        place = places["results"][0]
        where = {axis: str(place.get(axis)) for axis in ("latitude", "longitude")}
        forecast = await get(http, FORECAST, {**where, "current": CURRENT, "timezone": "auto"})
    try:
        current, units = forecast["current"], forecast["current_units"]
        return {
            "place": ", ".join(str(place[part]) for part in ("name", "admin1", "country") if place.get(part)),
            "temperature": f"{current['temperature_2m']} {units['temperature_2m']}",
            "condition": CONDITIONS.get(current["weather_code"], f"WMO code {current['weather_code']}"),
            "humidity": f"{current['relative_humidity_2m']} {units['relative_humidity_2m']}",
            "wind_speed": f"{current['wind_speed_10m']} {units['wind_speed_10m']}",
            "local_time": current["time"],
        }
    except (KeyError, TypeError) as error:
        raise ToolError("BAD_RESPONSE", f"Open-Meteo's answer lacks {error}") from error


async def get(http: httpx.AsyncClient, url: str, params: dict[str, str]) -> dict[str, Any]:
    """GET a JSON object; whatever else comes is a ToolError with a code."""
    try:
        response = await http.get(url, params=params)
        body = response.json()
    except httpx.TimeoutException as error:
        raise ToolError("API_TIMEOUT", f"{url} did not answer in time") from error
    except httpx.HTTPError as error:
        raise ToolError("UNAVAILABLE", f"{url} cannot be reached: {error}") from error
    except ValueError as error:
        raise ToolError("BAD_RESPONSE", f"{url} sent something that is not JSON") from error
    if response.is_error:
        reason = body.get("reason", "") if isinstance(body, dict) else ""
        raise ToolError(f"HTTP_{response.status_code}", f"{url} answered {response.status_code} {reason}".strip())
    if not isinstance(body, dict):
        raise ToolError("BAD_RESPONSE", f"{url} sent JSON that is no object")
    return body
