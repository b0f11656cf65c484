"""`manyarms serve` and `manyarms token`: the service, and who may use it."""

from __future__ import annotations

import contextlib
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from manyarms.campaigns.text import counted, one_line
from manyarms.cli.output import JsonOption, guarded, print_json, print_table, say
from manyarms.errors import MissingExtraError, shown

PlaceArgument = Annotated[
    str,
    typer.Argument(
        metavar="PLACE", help="Folder of campaign files, or postgresql://user@host/database with campaigns."
    ),
]
token_app = typer.Typer(
    name="token", help="Make, list and revoke the tokens of a service.", no_args_is_help=True
)


@guarded
def serve(
    place: PlaceArgument,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at; 0: any free one.")] = 8765,
    certificate: Annotated[
        Path | None, typer.Option(help="File with the TLS certificate chain (PEM).")
    ] = None,
    key: Annotated[Path | None, typer.Option(help="File with the key of the certificate (PEM).")] = None,
    tables: Annotated[
        Path | None,
        typer.Option(help="Folder for uploaded tables of candidates, if PLACE is a database."),
    ] = None,
    client_authority: Annotated[
        Path | None,
        typer.Option(help="Refuse clients without a certificate of this authority (PEM): mutual TLS."),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Further name under which the service is reached, for example behind a proxy."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Serve campaigns over HTTP: to workers, to other programs and to browsers.

    Without options, only this machine can reach the service. If no token was ever made, everyone on this
    machine may use it. It refuses an address that others can reach without a certificate and a token.
    """
    try:
        from manyarms.service.server import Listening
        from manyarms.service.server import serve as serve_campaigns
    except ImportError as problem:
        raise MissingExtraError(str(problem.name), "serve", "the service") from None
    from manyarms.federation.mailbox import Mailbox
    from manyarms.service.places import Folder
    from manyarms.service.places import place as served_place

    found = served_place(place, tables)
    names = found.names()
    runs = Mailbox(found.path).count() if isinstance(found, Folder) else 0
    with contextlib.closing(found.tokens()) as tokens:
        is_open = not tokens.exist()

    def ready(address: str) -> None:
        if as_json:
            print_json({"address": address, "campaigns": names, "tokens_required": not is_open})
        else:
            also = f" and {counted(runs, 'run')} of agents" if runs else ""
            say(
                f"Serving {counted(len(names), 'campaign')}{also} of {found} at {address}. "
                "Press Ctrl-C to stop."
            )
            if is_open:
                say("No token exists, so everyone on this machine may use it; see `manyarms token --help`.")
        sys.stdout.flush()

    where = Listening(host, port, certificate, key, tuple(allow_host or ()), client_authority)
    serve_campaigns(found, where, on_ready=ready)
    if not as_json:
        say("Stopped.")


@token_app.command("new")
@guarded
def token_new(
    place: PlaceArgument,
    name: Annotated[str, typer.Option(help="Who or what will use the token.")],
    campaign: Annotated[
        str, typer.Option(help="Name of the only campaign that it is for.", show_default="every campaign")
    ] = "*",
    scope: Annotated[
        str,
        typer.Option(
            help="What it allows, separated by commas: read (look), ask (get tickets), tell (record and "
            "correct results), admin (everything)."
        ),
    ] = "read,ask,tell",
    days: Annotated[
        float | None, typer.Option(min=0, help="Days until it expires.", show_default="never")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a token. It is shown only now; the service stores a hash of it."""
    from manyarms.service.places import place as served_place

    scopes = {each.strip() for each in scope.split(",")}
    until = None if days is None else time.time() + days * 86_400
    found = served_place(place)
    with contextlib.closing(found.tokens()) as tokens:
        token, text = tokens.make(name, campaign, scopes, until)
    if campaign != "*" and campaign not in found.names():
        warning = f"the token is for a campaign {shown(campaign)}, which does not exist yet in {found}"
        print(f"manyarms: warning: {one_line(warning)}", file=sys.stderr)
    if as_json:
        print_json({"id": token.id, "token": text, "scopes": sorted(token.scopes), "campaign": campaign})
    else:
        print(text)


@token_app.command("list")
@guarded
def token_list(place: PlaceArgument, as_json: JsonOption = False) -> None:
    """List the tokens, without their secrets."""
    from manyarms.service.places import place as served_place

    with contextlib.closing(served_place(place).tokens()) as tokens:
        found = tokens.all()
    rows = [
        {
            "id": each.id, "name": each.name, "campaign": each.campaign,
            "scopes": ",".join(sorted(each.scopes)), "created_at": each.created_at,
            "expires_at": _shown(each.expires_at),
            "state": "revoked" if each.revoked_at else "valid" if each.is_valid(time.time()) else "expired",
        }
        for each in found
    ]  # fmt: skip
    if as_json:
        print_json({"tokens": rows})
    elif rows:
        print_table(list(rows[0]), [list(row.values()) for row in rows])
    else:
        say("There are no tokens; make one with `manyarms token new`.")


def _shown(moment: float | None) -> str | None:
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat(timespec="seconds")


@token_app.command("revoke")
@guarded
def token_revoke(
    place: PlaceArgument,
    id: Annotated[str, typer.Argument(metavar="ID", help="Id of the token, as `token list` shows it.")],
    as_json: JsonOption = False,
) -> None:
    """Revoke a token; it is refused at once, also by a service that is running."""
    from manyarms.service.places import place as served_place

    with contextlib.closing(served_place(place).tokens()) as tokens:
        token = tokens.revoke(id)
    if as_json:
        print_json({"revoked": token.id})
    else:
        say(f"Revoked token {token.id} ({token.name}).")
