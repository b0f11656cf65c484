"""`manyarms new`: create a campaign from command-line options and a TOML file."""

from __future__ import annotations

import csv
import json
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.pool_file.source import Source
from manyarms.campaigns.settings import AUTO, Request, read_request
from manyarms.campaigns.status import status
from manyarms.campaigns.text import counted, masked
from manyarms.cli import new_options as options
from manyarms.cli.opening import is_url
from manyarms.cli.output import CampaignArgument, JsonOption, guarded, print_json, print_table, say
from manyarms.cli.progress import bar
from manyarms.errors import SettingsError
from manyarms.pool.excel import is_workbook

_SHOWN = 40  # columns of the table that are described one by one


def _names(given: list[str] | None) -> tuple[str, ...] | None:
    """Names from repeated options and comma-separated lists; double quotes enclose a name with a comma."""
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
            f"--lengthscale must be 'auto' or numbers separated by commas, got {given!r}"
        ) from None
    return numbers if len(numbers) > 1 else numbers[0]


def _options(given: list[str] | None) -> dict[str, Any] | None:
    if not given:
        return None
    settings = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise SettingsError(f"--option must have the form NAME=VALUE, got {text!r}")
        try:
            settings[name.strip()] = json.loads(value)
        except ValueError:
            settings[name.strip()] = value
    return settings


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
    config: options.Config = None,
    pool: options.Pool = None,
    id: options.Id = None,
    features: options.Features = None,
    categories: options.Categories = None,
    smiles: options.Smiles = None,
    bits: options.Bits = None,
    cost: options.Cost = None,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    decimal: options.Decimal = None,
    sheet: options.Sheet = None,
    maximize: options.Maximize = None,
    kernel: options.KernelName = None,
    lengthscale: options.Lengthscale = None,
    smoothness: options.Smoothness = None,
    noise: options.Noise = None,
    signal: options.Signal = None,
    mean: options.Mean = None,
    policy: options.PolicyName = None,
    width: options.Width = None,
    option: options.Options = None,
    seed: options.Seed = None,
    budget: options.Budget = None,
    cost_budget: options.CostBudget = None,
    per_cost: options.PerCost = None,
    repeats: options.Repeats = None,
    failures: options.Failures = None,
    max_failures: options.MaxFailures = None,
    storage: options.Storage = None,
    engine: options.Engine = None,
    engine_ca: options.EngineCa = None,
    engine_cert: options.EngineCert = None,
    engine_key: options.EngineKey = None,
    engine_insecure: options.EngineInsecure = False,
    prior_results: options.PriorResults = None,
    prior_campaign: options.PriorCampaign = None,
    as_json: JsonOption = False,
) -> None:
    """Create a campaign on a table of candidates."""
    given = {
        "pool": pool, "id": id, "features": _names(features), "categories": _names(categories),
        "smiles": smiles, "bits": bits, "encoding": encoding, "decimal": decimal, "sheet": sheet,
        "delimiter": options.sign(delimiter),
        "goal": None if maximize is None else "maximise" if maximize else "minimise",
        "kernel": kernel, "lengthscale": _numbers(lengthscale), "smoothness": smoothness,
        "noise": _number_or_word(noise), "signal": _number_or_word(signal), "mean": _number_or_word(mean),
        "policy": policy, "width": _number_or_word(width), "options": _options(option), "seed": seed,
        "cost": cost, "cost_budget": cost_budget, "per_cost": per_cost or None,
        "budget": budget, "storage": storage, "failures": failures, "max_failures": max_failures,
        "engine": engine, "engine_ca": engine_ca, "engine_cert": engine_cert, "engine_key": engine_key,
        "engine_insecure": engine_insecure or None,
        "prior_results": tuple(prior_results) if prior_results else None,
        "prior_campaign": tuple(prior_campaign) if prior_campaign else None,
        "repeats": int(repeats) if repeats is not None and repeats.isdecimal() else repeats,
    }  # fmt: skip
    request = read_request(config, {name: value for name, value in given.items() if value is not None})
    _create(campaign, request, as_json)


def _create(campaign: str, request: Request, as_json: bool) -> None:
    if is_url(campaign):
        from manyarms.service.client.tables import create

        found = create(campaign, request)
        if as_json:
            print_json(found)
        else:
            uses = [[each["name"], each["role"], each["note"]] for each in found["columns"]]
            _print_uses(f"Table {Path(request.pool).name}:", uses)
            _print_summary(campaign, found)
        return
    show = None if as_json else print_columns
    with (
        bar("fingerprints", quiet=as_json) as progress,
        Campaign.new(campaign, request, progress, show) as made,
    ):
        found, columns = status(made), made.settings.source.columns
    if as_json:
        print_json({**found, "columns": [{"name": c.name, "role": c.role, "note": c.note} for c in columns]})
    else:
        _print_summary(masked(campaign), found)


def print_columns(source: Source) -> None:
    """Print what every column of the table is used as."""
    if not source.columns:
        return
    form = "" if source.form is None or is_workbook(source.path) else f", {source.form}"
    rows = [[column.name, column.role, column.note] for column in source.columns]
    _print_uses(f"Table {source.path.name}{form}:", rows)


def _print_uses(title: str, columns: list[list[str]]) -> None:
    if not columns:
        return
    say(title)
    print_table(["column", "used as", "what was found"], columns[:_SHOWN])
    rest = Counter(role for _, role, _ in columns[_SHOWN:])
    if rest:
        say("Further columns: " + ", ".join(f"{number} used as {role}" for role, number in rest.items()))


def _print_summary(campaign: str, found: dict[str, Any]) -> None:
    say(
        f"Created campaign {campaign} with {counted(found['pool']['candidates'], 'candidate')}; "
        f"goal: {found['goal']}."
    )
    if found["kernel"] == AUTO:
        say("The kernel, the noise and the scale of the values will be learned from the results.")
    for sentence in found["assumptions"]:
        say(sentence if sentence.startswith("warning: ") else f"assumed  {sentence}")
    say(f"Next: manyarms ask {shlex.quote(campaign)}")
