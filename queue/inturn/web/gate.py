"""The checks on every request: no cross-site posts, and no framed or cached responses."""

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LONGEST_BODY = 64 * 1024  # bytes; forms are short
LONGEST_URL = 8 * 1024
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",  # for browsers that do not know frame-ancestors
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
FORM = "application/x-www-form-urlencoded"


class Gate:
    """Refuses requests that no page of the dashboard sends, and adds security headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(HEADERS)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        refusal = judge(scope)
        if refusal is not None:
            status, reason = refusal
            answer = PlainTextResponse(f"{reason}\n", status)
            await answer(scope, receive, send_safely)
            return
        await self._app(scope, receive, send_safely)


def judge(scope: Scope) -> tuple[int, str] | None:
    """Return the status and the reason of a refusal, or None."""
    if len(scope.get("raw_path") or scope["path"]) + len(scope["query_string"]) > LONGEST_URL:
        return 414, "This address is too long."
    if scope["method"] in ("GET", "HEAD"):
        return None
    if scope["method"] != "POST":
        return 405, "The dashboard supports GET, HEAD and POST."
    headers = Headers(scope=scope)
    if not is_same_origin(headers):
        return 403, "This request does not come from a page of the dashboard, so it was refused."
    if headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        return 415, f"The dashboard accepts only forms: {FORM}."
    length = headers.get("content-length", "")
    if not length.isdecimal() or int(length) > LONGEST_BODY:
        return 413, "This form is too large or has no Content-Length."
    return None


def is_same_origin(headers: Headers) -> bool:
    """Return True if a page of this host sent the request.

    Browsers send Sec-Fetch-Site only over https and on localhost, and Origin with every form.
    Those present must all match, and a request with neither is refused.
    """
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if origin is None:
        return site == "same-origin"
    scheme, _, host = origin.partition("://")
    asked = headers.get("host", "")
    return (
        site in (None, "same-origin")
        and scheme in ("http", "https")
        and bool(asked)
        and host.lower() == asked.lower()
    )
