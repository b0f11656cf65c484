"""`manyarms add` and `manyarms exclude`: change which candidates a campaign may ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyarms.campaigns.text import counted
from manyarms.cli import new_options as options
from manyarms.cli.opening import opened
from manyarms.cli.output import CampaignArgument, JsonOption, PoolOption, guarded, print_json, say
from manyarms.cli.progress import bar


@guarded
def add(
    campaign: CampaignArgument,
    table: Annotated[
        Path, typer.Argument(metavar="TABLE", help="File with further candidates and the same columns.")
    ],
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    decimal: options.Decimal = None,
    sheet: options.Sheet = None,
    pool: PoolOption = None,
    as_json: JsonOption = False,
) -> None:
    """Add the candidates of a further table, which the next ask may choose."""
    form = {"delimiter": options.sign(delimiter), "encoding": encoding, "decimal": decimal, "sheet": sheet}
    with (
        bar("fingerprints", quiet=as_json) as progress,
        opened(campaign, pool, progress) as found,
    ):
        added, total = found.add(table, **form)
    if as_json:
        print_json({"added": added, "candidates": total})
    else:
        say(f"Added {counted(added, 'candidate')}; the campaign now has {total}.")


@guarded
def exclude(
    campaign: CampaignArgument,
    ids: Annotated[list[str], typer.Argument(metavar="IDS...", help="Ids of the candidates.")],
    undo: Annotated[bool, typer.Option("--undo", help="Allow these candidates again.")] = False,
    note: Annotated[str | None, typer.Option(help="Reason, stored with the exclusion.")] = None,
    pool: PoolOption = None,
    as_json: JsonOption = False,
) -> None:
    """Never ask for some candidates again; their results and open tickets stay valid."""
    with opened(campaign, pool) as found:
        changed, excluded = found.readmit(ids) if undo else found.exclude(ids, note)
    if as_json:
        print_json({"changed": changed, "excluded": excluded})
    else:
        done = "Allowed" if undo else "Excluded"
        total = counted(len(excluded), "candidate")
        say(f"{done} {counted(changed, 'candidate')}; {total} of the campaign excluded.")
