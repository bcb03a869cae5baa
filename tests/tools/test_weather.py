"""The weather tool over answers in the shape of the real Open-Meteo API."""

import httpx
import pytest

from tests.tools.call import answering, call, refused
from tools import weather


def recorded(request: httpx.Request) -> str:
    if request.url.host == "api.open-meteo.com":
        assert request.url.params["latitude"] == "39.9075"
        return "open_meteo_forecast.json"
    return "open_meteo_geocoding.json" if request.url.params["name"] == "北京" else "open_meteo_nothing.json"


async def test_the_weather_has_units_and_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weather, "transport", answering(recorded))
    assert await call(weather.get_weather, city=" 北京 ") == {
        "place": "北京, 北京市, 中国",
        "temperature": "3.4 °C",
        "condition": "overcast",
        "humidity": "41 %",
        "wind_speed": "7.9 km/h",
        "local_time": "2026-11-30T17:15",
    }


async def test_an_unknown_place_and_an_empty_name_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weather, "transport", answering(recorded))
    assert (await refused(weather.get_weather, city="Atlantis")).code == "NOT_FOUND"
    assert (await refused(weather.get_weather, city=" ")).code == "INVALID_PARAM"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (httpx.Response(400, json={"error": True, "reason": "bad"}), "HTTP_400"),
        (httpx.Response(200, json={"results": [{"latitude": 1, "longitude": 2}]}), "BAD_RESPONSE"),
        (httpx.Response(200, json={"results": [{"name": "x"}]}), "BAD_RESPONSE"),
        (httpx.Response(200, text="no"), "BAD_RESPONSE"),
        (httpx.Response(200, json=[1]), "BAD_RESPONSE"),
    ],
)
async def test_a_bad_answer_is_named(monkeypatch: pytest.MonkeyPatch, answer: httpx.Response, code: str) -> None:
    monkeypatch.setattr(weather, "transport", answering(lambda _request: answer))
    assert (await refused(weather.get_weather, city="x")).code == code
