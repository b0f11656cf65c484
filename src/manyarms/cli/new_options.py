"""The options of `manyarms new`, in the groups that `--help` shows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from manyarms.campaigns.assumptions import KERNELS
from manyarms.campaigns.resolve_settings import DEFAULT_SMOOTHNESS
from manyarms.campaigns.settings import Request
from manyarms.policies import BBKB, SGPTS

_TABLE, _MODEL = "Table of candidates", "Model (learned from the results unless --kernel is given)"
_POLICY, _LIMITS = "Policy", "Limits"
_PRIOR = "Old results (docs/old-results.md)"
_ENGINE = "Where the candidates are held (docs/scale.md)"


def _option(*names: str, help: str, panel: str, default: Any = False) -> Any:
    """An option whose default is chosen later, by `Request` or from the pool, and documented here."""
    shown = default if isinstance(default, bool) else str(default)
    return typer.Option(*names, help=help, rich_help_panel=panel, show_default=shown)


def sign(delimiter: str | None) -> str | None:
    """The delimiter meant by the option: `tab` and `\\t` stand for a tab."""
    return "\t" if delimiter in ("tab", "\\t") else delimiter


Config = Annotated[
    Path | None,
    typer.Option(help="TOML file with the same settings. Options on the command line take precedence."),
]

Pool = Annotated[
    str | None,
    _option(
        "--pool", panel=_TABLE, help="File with one candidate per row: CSV, TSV, Excel, Parquet, npy or npz."
    ),
]
Id = Annotated[
    str | None,
    _option("--id", panel=_TABLE, help="Column with a unique name for each candidate.", default="row number"),
]
Features = Annotated[
    list[str] | None,
    _option("--features", panel=_TABLE, default="all usable columns",
            help="Columns of numbers, dates or yes and no, separated by commas."),
]  # fmt: skip
Categories = Annotated[
    list[str] | None,
    _option("--categories", panel=_TABLE, default="columns with few different texts",
            help="Categorical columns (at most 100 different texts each), separated by commas."),
]  # fmt: skip
Smiles = Annotated[
    str | None,
    _option("--smiles", panel=_TABLE, help="Column of SMILES strings, used instead of features."),
]
Bits = Annotated[
    str | None,
    _option("--bits", panel=_TABLE,
            help="Column of bit strings such as 01101, all of one length, used instead of features."),
]  # fmt: skip
Cost = Annotated[
    str | None,
    _option("--cost", panel=_TABLE, default="trials cost alike",
            help="Column with what a trial of each candidate costs, in any unit (docs/costs.md). It is a "
            "feature only if --features names it."),
]  # fmt: skip
Delimiter = Annotated[
    str | None,
    _option("--delimiter", panel=_TABLE, help="Character between the cells of a text table; 'tab' for tabs.",
            default="found"),
]  # fmt: skip
Encoding = Annotated[
    str | None,
    _option("--encoding", panel=_TABLE, help="Encoding of a text table, such as cp1250.", default="found"),
]
Decimal = Annotated[
    str | None,
    _option("--decimal", panel=_TABLE, help="Decimal separator of a text table: a point or a comma.",
            default="found"),
]  # fmt: skip
Sheet = Annotated[
    str | None,
    _option("--sheet", panel=_TABLE, help="Sheet of an Excel file.", default="the only one"),
]
Maximize = Annotated[
    bool | None,
    _option("--maximize/--minimize", panel=_TABLE, help="Whether larger or smaller values are better.",
            default=Request.goal.replace("ise", "ize")),
]  # fmt: skip

KernelName = Annotated[
    str | None,
    _option("--kernel", panel=_MODEL, default="learned from the results",
            help=f"Kernel: {', '.join(KERNELS[:-1])} or {KERNELS[-1]}."),
]  # fmt: skip
Lengthscale = Annotated[
    str | None,
    _option("--lengthscale", panel=_MODEL, default=Request.lengthscale,
            help="With --kernel: one length-scale, or one per feature separated by commas, in the units of "
            "the features."),
]  # fmt: skip
Smoothness = Annotated[
    float | None,
    _option("--smoothness", panel=_MODEL, help="With --kernel matern: the smoothness ν.",
            default=DEFAULT_SMOOTHNESS),
]  # fmt: skip
Noise = Annotated[
    str | None,
    _option("--noise", panel=_MODEL, default=Request.noise,
            help="With --kernel: standard deviation of the measurement noise, in the units of the values."),
]  # fmt: skip
Signal = Annotated[
    str | None,
    _option("--signal", panel=_MODEL, default=Request.signal,
            help="With --kernel: standard deviation of the true values over the pool."),
]  # fmt: skip
Mean = Annotated[
    str | None,
    _option("--mean", panel=_MODEL, default=Request.mean,
            help="With --kernel: mean of the true values over the pool."),
]  # fmt: skip

PolicyName = Annotated[
    str | None,
    _option("--policy", panel=_POLICY, help="Algorithm that chooses the candidates.",
            default="BBKB, with its local stopping rule when the model is learned"),
]  # fmt: skip
Width = Annotated[
    str | None,
    _option("--width", panel=_POLICY,
            default=f"{BBKB.practical:g}; {SGPTS.practical:g} for Thompson sampling",
            help="Width β of the confidence bounds: a number of posterior standard deviations, or the name "
            "of a width with a theorem. If --kernel, --noise, --signal, --mean and --option norm_bound=F "
            "are all given, the default has a theorem too."),
]  # fmt: skip
Options = Annotated[
    list[str] | None,
    _option("--option", "-o", panel=_POLICY, help="Any other setting of the policy, as NAME=VALUE."),
]
Seed = Annotated[int | None, _option("--seed", panel=_POLICY, help="Random seed.", default=Request.seed)]

Budget = Annotated[
    int | None,
    _option("--budget", panel=_LIMITS, help="Largest number of tickets to hand out.", default="no limit"),
]
CostBudget = Annotated[
    float | None,
    _option("--cost-budget", panel=_LIMITS, help="With --cost: what all tickets together may cost.",
            default="no limit"),
]  # fmt: skip
PerCost = Annotated[
    bool | None,
    typer.Option("--per-cost", rich_help_panel=_POLICY, show_default=False,
                 help="With --cost: choose by expected improvement per unit of cost, not by upper bounds."),
]  # fmt: skip
Repeats = Annotated[
    str | None,
    _option("--repeats", panel=_LIMITS, default=Request.repeats,
            help="Whether a candidate may be asked for again: allow, forbid, fresh (only after every "
            "candidate has been tried), or the largest number of times."),
]  # fmt: skip
Failures = Annotated[
    str | None,
    _option("--failures", panel=_LIMITS, default=Request.failures,
            help="What failures do: with learn, failed candidates are offered again if failures look "
            "random, and candidates that are unlikely to succeed are avoided; with drop, a failed candidate "
            "is excluded."),
]  # fmt: skip
MaxFailures = Annotated[
    int | None,
    _option("--max-failures", panel=_LIMITS, default="by the outcomes, at most 3; with drop 1",
            help="Number of failed trials after which a candidate is excluded; 0 never excludes one."),
]  # fmt: skip
Storage = Annotated[
    str | None,
    _option("--storage", panel=_LIMITS, default="float64; float32 for large pools",
            help="Precision of the stored model columns: float64, or float32 for half the memory."),
]  # fmt: skip

Engine = Annotated[
    str | None,
    _option("--engine", panel=_ENGINE, default=Request.engine,
            help="One of local, memory, disk and recompute, or the address of a Dask scheduler: tls://host:8786."),
]  # fmt: skip
EngineCa = Annotated[
    str | None,
    _option("--engine-ca", panel=_ENGINE, default="Dask's configuration",
            help="File with the certificates that the scheduler's is checked with."),
]  # fmt: skip
EngineCert = Annotated[
    str | None,
    _option("--engine-cert", panel=_ENGINE, default="Dask's configuration",
            help="File with the certificate that the scheduler is shown."),
]  # fmt: skip
EngineKey = Annotated[
    str | None,
    _option("--engine-key", panel=_ENGINE, default="Dask's configuration", help="File with its key."),
]
EngineInsecure = Annotated[
    bool,
    typer.Option("--engine-insecure", rich_help_panel=_ENGINE,
                 help="Allow a scheduler on another machine without TLS."),
]  # fmt: skip

PriorResults = Annotated[
    list[str] | None,
    _option("--prior-results", panel=_PRIOR,
            help="File of old results: the feature columns of the table and a column 'value'; repeatable."),
]  # fmt: skip
PriorCampaign = Annotated[
    list[str] | None,
    _option("--prior-campaign", panel=_PRIOR, help="Campaign whose results are old results; repeatable."),
]
