"""One request of a browser: who it is, in which language, and how it is answered. The policy of every page stands here."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qs, quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import escape
from starlette.requests import Request
from starlette.responses import Response

from orchestrator.api.auth import COOKIE, Principal
from orchestrator.api.operation import body_of
from orchestrator.api.problems import Problem
from orchestrator.api.service import Service
from orchestrator.assembly import secrets_of
from orchestrator.console.waterfall import clock
from orchestrator.console.words import preferred, words
from orchestrator.core.clean import MASK
from orchestrator.show import plain, when

HERE = Path(__file__).parent
LARGEST_FORM = 256 * 1024
TELLING = 8
"""Characters of a configured secret that is looked for in whole pages; traces were masked when they were written."""
YEAR = 365 * 86_400
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SEALED = "sandbox; default-src 'none'; frame-ancestors 'none'"
"""For what somebody else wrote, shown as it is: nothing in it runs, loads or leads anywhere."""

Page: TypeAlias = Callable[["Visit"], Awaitable[Response]]

_pages = Environment(
    loader=FileSystemLoader(HERE / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_pages.filters |= {
    "when": when,
    "plain": plain,
    "seconds": "{:.2f}".format,
    "clock": lambda seconds: clock(seconds, 0.01 if seconds < 10 else 0.1),
    "percent": "{:.2f}%".format,
    "count": "{:,}".format,
    "link": lambda text: quote(plain(text), safe=""),
}


class Visit:
    """One request of a browser. `who` is None before signing in."""

    def __init__(self, service: Service, request: Request) -> None:
        self.service, self.request = service, request
        self.who: Principal | None = None
        asked = request.query_params.get("lang")
        self.language = preferred(asked, request.cookies.get("lang"), request.headers.get("accept-language", ""))

    @property
    def known(self) -> Principal:
        """Who it is. Problem 401 before signing in, 403 without leave to read."""
        if self.who is None:
            self.who = self.service.gate.who(self.request)
            self.who.need("read")
        return self.who

    def show(self, template: str, status: int = 200, **values: Any) -> Response:
        """A page."""
        other = urlencode({**self.request.query_params, "lang": "en" if self.language == "zh" else "zh"})
        common = {
            "t": words(self.language),
            "lang": self.language,
            "other_language": other,
            "who": self.who,
            "signed": COOKIE in self.request.cookies,
            "path": self.request.url.path,
        }
        text = _pages.get_template(template).render({**common, **values})
        for secret in secrets_of(self.service.settings):
            if len(secret) >= TELLING:
                text = text.replace(str(escape(secret)), MASK)
        body = text.encode("utf-8", "replace")
        response = Response(body, status, {"Content-Security-Policy": POLICY}, "text/html")
        if self.request.query_params.get("lang") in {"en", "zh"}:
            response.set_cookie("lang", self.language, YEAR, httponly=True, samesite="lax")
        return response

    def text(self, text: str) -> Response:
        """What somebody else wrote, as plain text in a sandbox."""
        body = plain(text).encode("utf-8", "replace")
        return Response(body, headers={"Content-Security-Policy": SEALED}, media_type="text/plain")

    async def form(self) -> Mapping[str, str]:
        """What was filled in; each field once."""
        raw = await body_of(self.request, LARGEST_FORM)
        try:
            fields = parse_qs(raw.decode(), keep_blank_values=True, strict_parsing=bool(raw), max_num_fields=20)
        except (UnicodeDecodeError, ValueError):
            raise Problem(422, "BAD_FORM", "this is no form of ours: reload the page and try again") from None
        return {name: values[-1] for name, values in fields.items()}

    async def signed_form(self) -> Mapping[str, str]:
        """A form that came from our own page. Problem 403 otherwise."""
        who, fields = self.known, await self.form()
        if not hmac.compare_digest(fields.get("form", "").encode(), who.form.encode()):
            raise Problem(
                403,
                "FOREIGN_FORM",
                "this form is not from this page, or you signed in anew: reload the page and try again",
            )
        return fields
