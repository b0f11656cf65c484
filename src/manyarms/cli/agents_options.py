"""The options of `manyarms agents`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyarms.cli.run import Command, Function, Pattern, Timeout, Workers

_TABLE, _MODEL, _TIMING = "Table of candidates", "Model, the same for all agents", "Timing"

Pool = Annotated[
    Path, typer.Option("--pool", rich_help_panel=_TABLE, help="File with one candidate per row.")
]
Id = Annotated[
    str | None, typer.Option(rich_help_panel=_TABLE, help="Column with a unique name per candidate.")
]
Features = Annotated[
    list[str] | None,
    typer.Option(rich_help_panel=_TABLE, help="Columns of the features, separated by commas."),
]
Categories = Annotated[
    list[str] | None,
    typer.Option(rich_help_panel=_TABLE, help="Categorical columns, separated by commas."),
]
Smiles = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_TABLE, help="Column of SMILES strings, instead of features; with --kernel tanimoto."
    ),
]
Bits = Annotated[
    str | None,
    typer.Option(
        rich_help_panel=_TABLE, help="Column of bit strings, instead of features; with --kernel tanimoto."
    ),
]
Agents = Annotated[int, typer.Option("--agents", min=1, help="Number of agents.")]
Horizon = Annotated[int, typer.Option(min=1, help="Trials of each agent.")]
Algorithm = Annotated[str, typer.Option(help="duets, dis-kernel-ucb, approx-dis-kernel-ucb or n-kernel-ucb.")]
Kernel = Annotated[
    str, typer.Option(rich_help_panel=_MODEL, help="matern, rbf, linear, tanimoto or hamming.")
]
Lengthscale = Annotated[
    str | None,
    typer.Option(rich_help_panel=_MODEL, help="Length-scale in units of the features, one or one per column.",
                 show_default="the median distance between candidates"),
]  # fmt: skip
Smoothness = Annotated[float, typer.Option(rich_help_panel=_MODEL, help="ν of the Matérn kernel.")]
Noise = Annotated[
    float,
    typer.Option(min=0, rich_help_panel=_MODEL, help="Standard deviation of a measurement of one candidate."),
]
Signal = Annotated[
    float, typer.Option(rich_help_panel=_MODEL, help="Standard deviation of the values over the candidates.")
]
Mean = Annotated[float, typer.Option(rich_help_panel=_MODEL, help="Average value over the candidates.")]
Minimize = Annotated[
    bool, typer.Option("--minimize", rich_help_panel=_MODEL, help="Search the smallest value.")
]
Width = Annotated[
    float | None,
    typer.Option(min=0, rich_help_panel=_MODEL, help="Confidence width β, in standard deviations.",
                 show_default="0.5 for DUETS, 1 for the others"),
]  # fmt: skip
FirstEpoch = Annotated[
    int | None,
    typer.Option(min=1, rich_help_panel=_MODEL, help="Trials of the first epoch of DUETS.", show_default="2"),
]
SyncThreshold = Annotated[
    float | None,
    typer.Option(min=0, rich_help_panel=_MODEL, help="D: what an agent must learn before it asks for a sync.",
                 show_default="10 (DisKernelUCB) or 20 (ApproxDisKernelUCB)"),
]  # fmt: skip
Wait = Annotated[
    float,
    typer.Option(
        min=0, rich_help_panel=_TIMING, help="Days of silence before the run goes on without an agent."
    ),
]
Lockstep = Annotated[
    bool,
    typer.Option("--lockstep", rich_help_panel=_TIMING,
                 help="All agents make one turn per round, so the run does not depend on who is faster."),
]  # fmt: skip

__all__ = [
    "Agents", "Algorithm", "Bits", "Categories", "Command", "Features", "FirstEpoch", "Function", "Horizon",
    "Id", "Kernel", "Lengthscale", "Lockstep", "Mean", "Minimize", "Noise", "Pattern", "Pool", "Signal",
    "Smiles", "Smoothness", "SyncThreshold", "Timeout", "Wait", "Width", "Workers",
]  # fmt: skip
