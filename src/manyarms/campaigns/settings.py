"""The user's request for a campaign, and the settings that `resolve_settings.py` derives from it.

The settings are stored as JSON in the database when the campaign is created, and never change afterwards.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from manyarms import policies
from manyarms.campaigns.engine_settings import LOCAL, EngineSettings
from manyarms.campaigns.pool_file.source import Source
from manyarms.errors import SettingsError, shown
from manyarms.kernels.describe import from_description
from manyarms.run.context import DROP, LEARN

AUTO = "auto"
_ABSTRACT = ("Policy", "Sparse")
_TEXTS = ("pool", "id", "smiles", "bits", "cost", "goal", "kernel", "policy", "storage", "engine", "failures")
_TLS = ("engine_ca", "engine_cert", "engine_key")

_FORM = ("delimiter", "encoding", "decimal", "sheet")


@dataclass(frozen=True)
class Request:
    """The settings of `manyarms new`, from its options or from a TOML file with the same names.

    Without a kernel the whole model is learned. With a kernel, length-scales are in the units of the
    features, and noise, signal and mean are in the units of the values; settings left at "auto" are assumed.
    """

    pool: str
    id: str | None = None
    features: tuple[str, ...] | None = None
    categories: tuple[str, ...] = ()
    smiles: str | None = None
    bits: str | None = None
    cost: str | None = None
    goal: str = "maximise"
    kernel: str = AUTO
    lengthscale: str | float | tuple[float, ...] = AUTO
    smoothness: float | None = None  # ν of a Matérn kernel; None: 2.5
    noise: str | float = AUTO
    signal: str | float = AUTO
    mean: str | float = AUTO
    policy: str = AUTO  # BBKB, with its local stopping rule if the model is learned
    width: str | float = AUTO
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    budget: int | None = None
    cost_budget: float | None = None
    per_cost: bool = False  # choose by value per cost
    repeats: str | int = "forbid"
    failures: str = LEARN  # or "drop", see `run/failing.py`
    max_failures: int | str | None = AUTO  # 0 or None: failing candidates are never excluded
    storage: str = AUTO
    delimiter: str | None = None  # of a text table; None: found
    encoding: str | None = None
    decimal: str | None = None
    sheet: str | None = None  # of a workbook
    prior_results: tuple[str, ...] = ()  # files of old results
    prior_campaign: tuple[str, ...] = ()  # campaigns whose results are old results of this one
    engine: str = LOCAL  # or "disk", or the address of a Dask scheduler
    engine_ca: str | None = None
    engine_cert: str | None = None
    engine_key: str | None = None
    engine_insecure: bool = False

    def on_engine(self) -> EngineSettings:
        """Where the candidates are held; certificates are found from any folder."""
        ca, cert, key = (
            None if (file := getattr(self, name)) is None else str(Path(file).absolute()) for name in _TLS
        )
        return EngineSettings(self.engine, ca, cert, key, self.engine_insecure)

    def form(self) -> dict[str, str | None]:
        """What the user said about the format of the table."""
        return {name: getattr(self, name) for name in _FORM}

    def source(self) -> Source:
        """The table of candidates that this request describes."""
        where = Path(self.pool).absolute()
        return Source(where, self.id, self.features, self.categories, self.smiles, self.bits, cost=self.cost)


def read_request(path: Path | None, given: Mapping[str, Any]) -> Request:
    """A request from a TOML file and other settings, which take precedence. An unknown name is an error."""
    known = {setting.name for setting in fields(Request)}
    wanted: dict[str, Any] = {}
    if path is not None:
        wanted = _toml(path)
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise SettingsError(
                f"{path}: unknown setting {unknown[0]!r}; the settings are {', '.join(sorted(known))}"
            )
        if "pool" in wanted:
            wanted["pool"] = str(path.parent / str(wanted["pool"]))
        if "prior_results" in wanted:
            files = wanted["prior_results"]
            wanted["prior_results"] = [
                str(path.parent / str(each)) for each in (files if isinstance(files, list) else [files])
            ]
    wanted |= given
    if "pool" not in wanted:
        raise SettingsError("the table of candidates is missing: use --pool FILE")
    for name in (*_TEXTS, *_FORM, *_TLS):
        if not isinstance(wanted.get(name, ""), str):
            raise SettingsError(f"{name} must be text, got {shown(wanted[name])}")
    for name in ("engine_insecure", "per_cost"):
        if not isinstance(wanted.get(name, False), bool):
            raise SettingsError(f"{name} must be true or false, got {shown(wanted[name])}")
    if not isinstance(wanted.get("options", {}), dict):
        raise SettingsError(f"options must be a table of NAME = VALUE, got {shown(wanted['options'])}")
    for name in ("features", "categories", "prior_results", "prior_campaign"):
        if isinstance(wanted.get(name), str):
            wanted[name] = (wanted[name],)
    for name in ("features", "categories", "lengthscale", "prior_results", "prior_campaign"):
        if isinstance(wanted.get(name), list):
            wanted[name] = tuple(wanted[name])
    return Request(**wanted)


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise SettingsError(f"{path}: {problem.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise SettingsError(f"{path}: not a TOML file: {problem}") from None


@dataclass(frozen=True)
class Settings:
    """The permanent settings of a campaign.

    If `kernel` is None, the whole model is learned. If a kernel was given, a noise, signal or mean of None
    is estimated from the results at each ask.
    """

    source: Source
    goal: str
    kernel: dict[str, Any] | None  # as `manyarms.kernels.describe` writes it
    noise: float | None
    signal: float | None
    mean: float | None
    policy: str
    options: dict[str, Any]
    seed: int
    budget: int | None
    repeats: str | int
    max_failures: int | str | None
    storage: str
    assumptions: tuple[str, ...]
    columns: tuple[tuple[str, float], ...] = ()  # name and spread of each numeric column of a learned model
    features_chosen: bool = True  # whether the user named the features; otherwise all usable columns are
    engine: dict[str, Any] | None = None  # as `EngineSettings` writes it
    cost_budget: float | None = None  # what all tickets together may cost
    per_cost: bool = False
    prior: tuple[dict[str, Any], ...] = ()  # old results, as `campaigns/old_results.py` writes them
    failures: str = DROP  # what campaigns do that were created before failures were learned from

    @property
    def on_engine(self) -> EngineSettings:
        """Where the candidates are held and worked on, unless a command says otherwise."""
        return EngineSettings.from_plain(self.engine)

    @property
    def learned(self) -> bool:
        """Whether the kernel, the noise, the mean and the scale of the values are learned."""
        return self.kernel is None

    @property
    def vouched(self) -> bool:
        """Whether kernel, noise, norm bound and units are all given, so that bounds can be proved."""
        given = self.kernel, self.noise, self.signal, self.mean, self.options.get("norm_bound")
        return not any(each is None or isinstance(each, str) for each in given)

    @property
    def sign(self) -> float:
        """The factor that turns values into rewards, of which larger ones are better."""
        return 1.0 if self.goal == "maximise" else -1.0

    def build_policy(self, noise_std: float | None) -> policies.Policy:
        """The policy with its kernel and this noise in the units of the run; None: both are learned."""
        kind, options = policy_class(self.policy), dict(self.options)
        kernel = AUTO if self.kernel is None else from_description(_tuples(self.kernel))
        built: policies.Policy = kind(kernel=kernel, noise_std=noise_std, **options)
        return built

    def run_settings(self) -> dict[str, Any]:
        """The arguments of `Optimizer` besides the pool and the policy."""
        names = ("seed", "budget", "repeats", "failures", "max_failures", "storage")
        return {name: getattr(self, name) for name in names}

    def to_json(self) -> str:
        """The settings as stored in the database."""
        plain = {**asdict(self), "source": self.source.plain()}
        if not self.prior:
            del plain["prior"]  # so that settings without old results are what they were
        return json.dumps(plain)

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """The settings that `to_json` wrote."""
        plain = json.loads(text)
        source = Source.from_plain(plain.pop("source"))
        columns = tuple((name, spread) for name, spread in plain.pop("columns", ()))
        tuples = {name: tuple(plain.get(name, ())) for name in ("assumptions", "prior")}
        return cls(**{**plain, **tuples, "source": source, "columns": columns})


def policy_class(name: str) -> type[policies.Policy]:
    """The policy of this name; case, dashes and underscores do not matter: BBKB, gp-ucb."""
    known = {plain_name(each): each for each in policies.__all__ if each not in _ABSTRACT}
    if plain_name(name) not in known:
        raise SettingsError(f"unknown policy {name!r}; the policies are {', '.join(sorted(known.values()))}")
    kind: type[policies.Policy] = getattr(policies, known[plain_name(name)])
    return kind


def plain_name(name: str) -> str:
    """A name in lower case without dashes and underscores."""
    return name.lower().replace("-", "").replace("_", "")


def option_names(kind: type[policies.Policy]) -> list[str]:
    """The settings of a policy that `--option` can change."""
    return [each.name for each in fields(kind) if each.name not in ("kernel", "noise_std", "width")]


def _tuples(description: dict[str, Any]) -> dict[str, Any]:
    """Turn lists of numbers from JSON back into tuples; the parts of combined kernels stay lists."""
    return {
        key: tuple(value) if isinstance(value, list) and key != "parts" else value
        for key, value in description.items()
    }
