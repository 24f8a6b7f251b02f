"""`queue web`: the dashboard."""

import os
from typing import Any

import click

from inturn.cli.processes.web_server import PORT, describe_address, listen, make_app, serve
from inturn.cli.settings import Settings, bind_option, database_options, find_app, find_connector
from inturn.cli.values import ANY_PORT
from inturn.errors import ConfigurationError

LOCAL = ("127.0.0.1", "::1", "localhost")
USERS = "INTURN_WEB_USERS"


@click.command(
    "web",
    epilog="""\b
Examples:
  queue web
  queue web --read-only --port 9000
  INTURN_WEB_USERS="ana=$HASH" queue web --bind 0.0.0.0
  queue web --bind 0.0.0.0 --auth-header X-Forwarded-User --proxy 10.0.0.5""",
)
@click.option(
    "--port", type=ANY_PORT, default=PORT, show_default=True, help="The port to serve on."
)
@bind_option(help="The address to serve on. A non-local address requires authentication.")
@click.option("--read-only", is_flag=True, help="Offer no actions.")
@click.option(
    "--auth-header",
    metavar="NAME",
    help="The header in which a proxy sends the user's name. Needs --proxy.",
)
@click.option("--proxy", metavar="ADDRESS", help="The address or network of that proxy.")
@click.option("--insecure-no-auth", is_flag=True, help="Serve everyone who can reach the port.")
@click.option("--hash-password", is_flag=True, help="Ask for a password and print its hash.")
@database_options
def command(
    settings: Settings,
    port: int,
    bind: str,
    read_only: bool,
    auth_header: str | None,
    proxy: str | None,
    insecure_no_auth: bool,
    hash_password: bool,
) -> None:
    """Serve the dashboard: lanes and jobs in a browser.

    Without a password, it prints a link with a secret, and serves only browsers that opened it.
    The link grants full access. To require a name and a password, set INTURN_WEB_USERS to one or
    more `name=hash`, separated by spaces. --hash-password makes a hash.
    """
    from inturn.web import SecretLink, access, create_app

    if hash_password:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True)
        click.echo(access.hash_password(password))
        return
    authorize = _choose_authorize(auth_header, proxy, insecure_no_auth)
    if authorize is None and bind.lower() not in LOCAL:
        raise ConfigurationError(
            f"The dashboard can change jobs, so it does not serve {bind} without a password. "
            f"Set {USERS}, use --auth-header, or, if you must, --insecure-no-auth."
        )
    link = SecretLink()
    app = make_app(find_connector(settings)) if settings.app is None else find_app(settings)
    site = create_app(app, read_only=read_only, authorize=authorize or link)
    with listen(bind, port) as listener:
        query = "" if authorize else link.query
        click.echo(f"serving {describe_address(bind, listener)}{query}", err=True)
        serve(site, listener)


def _choose_authorize(header: str | None, proxy: str | None, insecure: bool) -> Any:
    from inturn.web.access import BasicAuth, TrustedHeader, allow_everybody

    users = os.environ.get(USERS, "").split()
    if bool(header) != bool(proxy):
        raise ConfigurationError("Give --auth-header and --proxy together.")
    if header and proxy:
        try:
            return TrustedHeader(header, proxy=proxy)
        except ValueError as error:
            raise ConfigurationError(f"--proxy {proxy!r} is not an address: {error}") from None
    if users:
        pairs = [user.partition("=") for user in users]
        if not all(name and digest for name, _, digest in pairs):
            raise ConfigurationError(
                f"{USERS} is not name=hash. Make one: queue web --hash-password"
            )
        return BasicAuth({name: digest for name, _, digest in pairs})
    return allow_everybody if insecure else None
