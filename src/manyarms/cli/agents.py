"""`manyarms agents`: a run of several organisations, from its invitation to its result."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from manyarms.campaigns.text import counted
from manyarms.cli.agents_options import (
    Agents,
    Algorithm,
    Bits,
    Categories,
    Features,
    FirstEpoch,
    Horizon,
    Id,
    Kernel,
    Lengthscale,
    Lockstep,
    Mean,
    Minimize,
    Noise,
    Pool,
    Signal,
    Smiles,
    Smoothness,
    SyncThreshold,
    Wait,
    Width,
)  # fmt: skip
from manyarms.cli.output import JsonOption, guarded, print_json, say
from manyarms.errors import RunFileError

agents_app = typer.Typer(
    name="agents",
    help="Search one pool with several organisations that keep their results to themselves.",
    no_args_is_help=True,
)
RunArgument = Annotated[Path, typer.Argument(metavar="RUN", help="File of the run, NAME.agents.")]
Number = Annotated[int, typer.Option("--agent", min=0, help="Number of the agent.")]


@agents_app.command("new")
@guarded
def new(
    run: RunArgument,
    pool: Pool,
    agents: Agents,
    horizon: Horizon,
    noise: Noise,
    algorithm: Algorithm = "duets",
    id: Id = None,
    features: Features = None,
    categories: Categories = None,
    smiles: Smiles = None,
    bits: Bits = None,
    kernel: Kernel = "matern",
    lengthscale: Lengthscale = None,
    smoothness: Smoothness = 2.5,
    signal: Signal = 1.0,
    mean: Mean = 0.0,
    minimize: Minimize = False,
    width: Width = None,
    first_epoch: FirstEpoch = None,
    sync_threshold: SyncThreshold = None,
    wait: Wait = 7.0,
    lockstep: Lockstep = False,
    as_json: JsonOption = False,
) -> None:
    """Create a run on a table of candidates that every organisation has."""
    from manyarms.cli.new import print_columns
    from manyarms.federation.creation import NewRun, create_run

    made, table = create_run(
        run,
        NewRun(
            pool, agents, horizon, noise, algorithm, id, _names(features), _names(categories), smiles, bits,
            kernel, _numbers(lengthscale), smoothness, signal, mean, minimize, width, first_epoch,
            sync_threshold, wait, lockstep,
        ),
    )  # fmt: skip
    if as_json:
        print_json(made.to_plain())
        return
    print_columns(table.source)
    say(
        f"Created {run}: {made.algorithm} with {counted(agents, 'agent')} of {counted(horizon, 'trial')} "
        f"each, on {counted(table.pool.n_arms, 'candidate')}; goal: {'minimise' if minimize else 'maximise'}."
    )
    say(f"The kernel of all agents: {_kernel_in_words(made.settings['kernel'])}.")
    say(
        f"The values are assumed to be {mean:g} on average, with a standard deviation of {signal:g} over the "
        f"candidates, and the noise of a measurement to be {noise:g}."
    )
    say(f"Next, for each agent: manyarms agents invite {shlex.quote(str(run))} NAME.invitation --url ADDRESS")


@agents_app.command("invite")
@guarded
def invite(
    run: RunArgument,
    invitation: Annotated[Path, typer.Argument(metavar="INVITATION", help="File to write.")],
    url: Annotated[
        str, typer.Option(help="Address of the service that serves the run, https://host:port.")
    ] = "",
    name: Annotated[str, typer.Option(help="Who is invited.", show_default="the name of the file")] = "",
    agent: Annotated[
        int | None,
        typer.Option(min=0, help="Number of the agent; its earlier key is then refused.",
                     show_default="the next free one"),
    ] = None,
    authority: Annotated[
        Path | None,
        typer.Option(help="Certificate (PEM) of the authority behind the certificate of the service."),
    ] = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Write an invitation. It holds the key of one agent: send it over a secure channel only."""
    from manyarms.federation.run_file import RunFile

    if invitation.exists():
        raise RunFileError(f"{invitation}: the file exists")
    pem = "" if authority is None else _text(authority)
    file = RunFile(run)
    try:
        made = file.invite(agent, time.time(), name or invitation.stem, url, pem)
    finally:
        file.close()
    made.write(invitation)
    if as_json:
        print_json({"agent": made.agent, "name": made.name, "invitation": str(invitation)})
    else:
        say(f"{invitation} invites {made.name} as agent {made.agent}. It is secret: it holds the key.")


@agents_app.command("revoke")
@guarded
def revoke(run: RunArgument, agent: Number, as_json: JsonOption = False) -> None:
    """Refuse everything from an agent from now on."""
    from manyarms.federation.run_file import RunFile

    file = RunFile(run)
    try:
        file.revoke(agent, time.time())
    finally:
        file.close()
    if as_json:
        print_json({"revoked": agent})
    else:
        say(f"The key of agent {agent} is refused from now on.")


@agents_app.command("status")
@guarded
def status(
    run: Annotated[Path, typer.Argument(metavar="FILE", help="File of a run, or of an agent.")],
    pool: Annotated[
        Path | None, typer.Option("--pool", help="The table of candidates, if it has moved.")
    ] = None,
    log: Annotated[bool, typer.Option("--log", help="Show the log: who joined, what was refused.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the progress of a run: epochs, who is in, what was sent, what is left, and the log."""
    from manyarms.cli.agents_status import show_agent, show_run
    from manyarms.federation.agent_file import AgentFile
    from manyarms.federation.mailbox import open_hub
    from manyarms.federation.sqlite_file import form_of

    if form_of(run) == AgentFile.form:
        file = AgentFile(run)
        try:
            show_agent(file, log, as_json)
        finally:
            file.close()
        return
    hub = open_hub(run, pool)
    try:
        show_run(hub, log, as_json)
    finally:
        hub.close()


def _kernel_in_words(described: dict[str, Any]) -> str:
    scales = described.get("lengthscale")
    if scales is None:
        return str(described["kernel"])
    each = scales if isinstance(scales, list | tuple) else [scales]
    return f"{described['kernel']} with length-scale {', '.join(f'{scale:.4g}' for scale in each)}"


def _names(given: list[str] | None) -> list[str] | None:
    return None if not given else [name.strip() for text in given for name in text.split(",")]


def _numbers(given: str | None) -> tuple[float, ...] | None:
    if given is None:
        return None
    try:
        return tuple(float(text) for text in given.split(","))
    except ValueError:
        raise typer.BadParameter(f"--lengthscale: {given!r} is not a list of numbers") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, ValueError) as problem:
        raise RunFileError(f"{path}: {problem}") from None
