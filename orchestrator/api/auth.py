"""Who asks, and what they may do. A bearer token, or for browsers the same token in a cookie; on loopback perhaps nobody in particular."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from starlette.requests import HTTPConnection

from orchestrator.api.problems import Problem
from orchestrator.api.tokens import EVERY_TENANT, SCOPES, Scope, TokenFile, TokensUnreadable
from orchestrator.egress.address import is_loopback
from orchestrator.errors import ConfigError

COOKIE = "orchestrator_token"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_WHO = {"WWW-Authenticate": 'Bearer realm="orchestrator"'}


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody. `tenant` None: the runs of all tenants. `form` is what their forms carry against forgery; `token` is its id."""

    name: str
    tenant: str | None
    scopes: frozenset[Scope]
    form: str = ""
    token: str = ""

    def may(self, scope: Scope) -> bool:
        """Has this scope; admin has every one."""
        return scope in self.scopes or "admin" in self.scopes

    def need(self, scope: Scope) -> None:
        """Problem 403 without this scope."""
        if not self.may(scope):
            raise Problem(
                403, "SCOPE_MISSING", f"the token {self.name!r} lacks the scope `{scope}`: ask for one that has it"
            )

    def sees(self, tenant: str) -> bool:
        """May know of this tenant's runs."""
        return self.tenant is None or self.tenant == tenant


LOCAL = Principal("local", None, frozenset(SCOPES))
"""Whoever is on this machine, where no token was ever made."""


class Gate:
    """Lets in by token. `loopback`: bound to this machine only; then, as long as no token was ever made, everybody is `local`."""

    def __init__(self, tokens: TokenFile, *, loopback: bool, clock: Callable[[], float] = time.time) -> None:
        """ConfigError: the file of tokens cannot be read; or bound to the world, and no token that would let anybody in."""
        self._tokens, self._clock = tokens, clock
        self._key = secrets.token_bytes(32)
        self._loopback = loopback
        try:
            known = tokens.all()
        except TokensUnreadable as error:
            raise ConfigError(
                f"api.tokens: {error.path} {error.why}: restore the file, or remove it and make new tokens"
            ) from None
        if not loopback and not known:
            raise ConfigError(
                "api.host is not this machine alone and there is no token: run `orchestrator token create NAME`, or bind to 127.0.0.1"
            )

    @property
    def open(self) -> bool:
        """Nobody needs a token: there never was one."""
        return self._loopback and self._tokens.never()

    def who(self, request: HTTPConnection) -> Principal:
        """Problem 401 without a good token; 403 for what a foreign page makes a browser do."""
        text = _bearer(request)
        by_browser = text is None
        if by_browser and request.scope.get("method", "GET") not in SAFE:
            self.same_origin(request)
        if text is None and self.open:
            if not is_loopback(_host(request)):
                raise Problem(403, "FOREIGN_HOST", "without tokens this server answers only to 127.0.0.1 and localhost")
            return self._signed_in(LOCAL, "")
        return self.known(text or request.cookies.get(COOKIE, ""))

    def known(self, text: str) -> Principal:
        """Whose token this is. Problem 401 when it is nobody's."""
        token = self._tokens.find(text, self._clock())
        if token is None:
            raise Problem(
                401,
                "UNAUTHORISED",
                "send `Authorization: Bearer TOKEN` with a token of `orchestrator token create`",
                _WHO,
            )
        tenant = None if token.tenant == EVERY_TENANT else token.tenant
        return self._signed_in(Principal(token.name, tenant, frozenset(token.scopes), token=token.id), text)

    def same_origin(self, request: HTTPConnection) -> None:
        """Problem 403 when another site's page makes this browser ask."""
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site", "same-origin")
        if site not in {"same-origin", "none"} or (
            origin is not None and origin.partition("://")[2] != _netloc(request)
        ):
            raise Problem(
                403, "FOREIGN_ORIGIN", "another site's page may not do this: use this server's own pages, or a token"
            )

    def _signed_in(self, who: Principal, text: str) -> Principal:
        form = hmac.digest(text.encode("utf-8", "surrogatepass") or self._key, b"form", hashlib.sha256).hex()
        return replace(who, form=form)


def _bearer(request: HTTPConnection) -> str | None:
    """The text of the Authorization header, "" for one that is no bearer token, None without one."""
    header = request.headers.get("authorization")
    if header is None:
        return None
    kind, _, text = header.partition(" ")
    return text.strip() if kind.lower() == "bearer" else ""


def _netloc(request: HTTPConnection) -> str:
    return request.headers.get("host", "")


def _host(request: HTTPConnection) -> str:
    """The host that the client believes to talk to, without its port."""
    netloc = _netloc(request)
    return netloc[1:].partition("]")[0] if netloc.startswith("[") else netloc.rpartition(":")[0] or netloc
