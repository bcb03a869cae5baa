"""The one place that knows the HTTP client of model calls. Bytes out, bytes in, four clocks; what a status means is the codecs' business.

It is aiohttp's, asked directly: httpx's own pool costs 0.8 ms a call for one run and 7 ms for a thousand; httpx over aiohttp's
connections costs three times what they cost by themselves (docs/decisions/0001). All waiting is on the loop's clock
(`asyncio.timeout`), so a virtual-time loop drives it. A connection whose call was cancelled is closed, never reused.
"""

from __future__ import annotations

from orchestrator.http.connections import Answer, Connections, Content
from orchestrator.http.endpoint import Endpoint, Streamed, Timeouts

__all__ = ["Answer", "Connections", "Content", "Endpoint", "Streamed", "Timeouts"]
