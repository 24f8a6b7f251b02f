"""The dashboard: the queue in a browser. See docs/dashboard.md.

app.mount("/queue", create_app(queue, authorize=decide))
"""

try:
    import jinja2 as jinja2
    import starlette as starlette
except ImportError:
    from inturn.errors import MissingExtra

    raise MissingExtra("The dashboard", "web") from None

from inturn.web.access import Access, BasicAuth, SecretLink, TrustedHeader
from inturn.web.app import create_app

__all__ = ["Access", "BasicAuth", "SecretLink", "TrustedHeader", "create_app"]
