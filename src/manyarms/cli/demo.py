"""`manyarms demo`: the demonstration, and the live page of its campaign."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from manyarms import demo as demonstration
from manyarms.cli.output import guarded, say
from manyarms.errors import MissingExtraError


@guarded
def demo(
    folder: Annotated[Path, typer.Option(help="Folder of the demonstration.")] = demonstration.FOLDER,
    serve: Annotated[
        bool,
        typer.Option("--serve", help="Open the live page of the campaign; run it first if needed."),
    ] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="With --serve: port; 0: any free one.")] = 8765,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="With --serve: open a browser.")
    ] = True,
) -> None:
    """Run a whole campaign on a generated table: five thousand recipes, batches of fifty, no options."""
    if not serve or not (folder / "demo.db").is_file():
        demonstration.main(folder)
    if serve:
        _open_page(folder, port, browser)


def _open_page(folder: Path, port: int, browser: bool) -> None:
    try:
        from manyarms.service.server import Listening
        from manyarms.service.server import serve as serve_campaigns
    except ImportError as problem:
        raise MissingExtraError(str(problem.name), "serve", "the live page") from None
    from manyarms.service.places import place

    def ready(address: str) -> None:
        page = f"{address}/page/demo"
        say(f"The live page of the campaign: {page}\nPress Ctrl-C to stop.")
        sys.stdout.flush()
        if browser:
            webbrowser.open(page)

    serve_campaigns(place(str(folder)), Listening(port=port), on_ready=ready)
    say("Stopped.")
