"""`manyarms new`: from options and a TOML file to a campaign."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from manyarms.campaigns import views
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.settings import AUTO, read_request
from manyarms.cli.output import CampaignArgument, JsonOption, guarded, print_json, say
from manyarms.cli.progress import bar
from manyarms.errors import SettingsError


def _listed(given: list[str] | None) -> tuple[str, ...] | None:
    """Names from repeated options and comma-separated lists; a name with a comma is put in double quotes."""
    if not given:
        return None
    return tuple(name for text in given for name in next(csv.reader([text], skipinitialspace=True)))


def _numbers(given: str | None) -> Any:
    if given is None or given == "auto":
        return given
    try:
        numbers = tuple(float(part) for part in given.split(","))
    except ValueError:
        raise SettingsError(
            f"--lengthscale is 'auto' or numbers with commas between, not {given!r}"
        ) from None
    return numbers if len(numbers) > 1 else numbers[0]


def _options(given: list[str] | None) -> dict[str, Any] | None:
    if not given:
        return None
    options = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise SettingsError(f"--option is NAME=VALUE, not {text!r}")
        try:
            options[name.strip()] = json.loads(value)
        except ValueError:
            options[name.strip()] = value
    return options


def _number_or_word(given: str | None) -> Any:
    if given is None:
        return None
    try:
        return float(given)
    except ValueError:
        return given


@guarded
def new(
    campaign: CampaignArgument,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with these settings; options given here win.")
    ] = None,
    pool: Annotated[
        str | None, typer.Option(help="The table of candidates: CSV, TSV, Parquet, npy or npz.")
    ] = None,
    id: Annotated[
        str | None, typer.Option("--id", help="Column that names the candidates. [default: row number]")
    ] = None,
    features: Annotated[
        list[str] | None, typer.Option(help="Columns of numbers, with commas between. [default: all others]")
    ] = None,
    categories: Annotated[
        list[str] | None, typer.Option(help="Columns of texts, each one of a few kinds, with commas between.")
    ] = None,
    smiles: Annotated[str | None, typer.Option(help="Column of molecules, instead of features.")] = None,
    bits: Annotated[str | None, typer.Option(help="Column of texts of 0 and 1, instead of features.")] = None,
    maximize: Annotated[
        bool | None, typer.Option("--maximize/--minimize", help="What is better. [default: maximize]")
    ] = None,
    kernel: Annotated[
        str | None,
        typer.Option(help="matern, rbf, linear, tanimoto or hamming. [default: learned from the results]"),
    ] = None,
    lengthscale: Annotated[
        str | None,
        typer.Option(help="Beside a kernel: one number or one per feature, in their units. [default: auto]"),
    ] = None,
    smoothness: Annotated[float | None, typer.Option(help="ν of the Matérn kernel. [default: 2.5]")] = None,
    noise: Annotated[
        str | None,
        typer.Option(
            help="Beside a kernel: standard deviation of a measurement, in its units. [default: auto]"
        ),
    ] = None,
    signal: Annotated[
        str | None,
        typer.Option(help="Beside a kernel: standard deviation of the true values. [default: auto]"),
    ] = None,
    mean: Annotated[
        str | None, typer.Option(help="Beside a kernel: average of the true values. [default: auto]")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(help="The algorithm. [default: BBKB, by its local rule without a kernel]")
    ] = None,
    width: Annotated[
        str | None,
        typer.Option(help="β: standard deviations, or a name from the papers. [default: 1]"),
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", help="Any other setting of the policy: NAME=VALUE.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Everything random follows from it. [default: 0]")] = None,
    budget: Annotated[int | None, typer.Option(help="Tickets that may be handed out in all.")] = None,
    repeats: Annotated[
        str | None,
        typer.Option(
            help="allow, forbid, fresh (all before any again), most pulls of a candidate. [default: forbid]"
        ),
    ] = None,
    max_failures: Annotated[
        int | None, typer.Option(help="Failures after which a candidate is left out; 0: never. [default: 1]")
    ] = None,
    storage: Annotated[
        str | None, typer.Option(help="float64, or float32 for half the memory. [default: by size]")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make a campaign on a table of candidates."""
    given = {
        "pool": pool, "id": id, "features": _listed(features), "categories": _listed(categories),
        "smiles": smiles, "bits": bits,
        "goal": None if maximize is None else "maximise" if maximize else "minimise",
        "kernel": kernel, "lengthscale": _numbers(lengthscale), "smoothness": smoothness,
        "noise": _number_or_word(noise), "signal": _number_or_word(signal), "mean": _number_or_word(mean),
        "policy": policy, "width": _number_or_word(width), "options": _options(option), "seed": seed,
        "budget": budget, "storage": storage, "max_failures": max_failures,
        "repeats": int(repeats) if repeats is not None and repeats.isdecimal() else repeats,
    }  # fmt: skip
    request = read_request(config, {name: value for name, value in given.items() if value is not None})
    with bar("fingerprints", quiet=as_json) as progress, Campaign.new(campaign, request, progress) as made:
        found = views.status(made)
    if as_json:
        print_json(found)
    else:
        say(f"{campaign}: a campaign on {found['pool']['candidates']} candidates, goal: {found['goal']}")
        if found["kernel"] == AUTO:
            say("kernel, noise and the scale of values will be learned from the results")
        for sentence in found["assumptions"]:
            say(f"assumed  {sentence}")
