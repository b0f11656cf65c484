"""What a campaign is asked to do: the user's request, and the settings it becomes (`campaigns/settling.py`).

Settings are written down once, at `new`, as plain JSON in the database, and never change.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from manyarms import policies
from manyarms.campaigns.pool_file.source import Source
from manyarms.errors import SettingsError, shown
from manyarms.kernels.describe import from_description

AUTO = "auto"
_ABSTRACT = ("Policy", "Sparse")
_NO_BOUND = 1e12  # a batch ratio that no plate reaches
_TEXTS = ("pool", "id", "smiles", "bits", "goal", "kernel", "policy", "storage")


@dataclass(frozen=True)
class Request:
    """What `manyarms new` can be told, by options or by a TOML file with the same names.

    Without a kernel everything about the model is learned. With one, length-scales are in the units of the
    features, noise, signal and mean in those of the values, and what is left open is assumed.
    """

    pool: str
    id: str | None = None
    features: tuple[str, ...] | None = None
    categories: tuple[str, ...] = ()
    smiles: str | None = None
    bits: str | None = None
    goal: str = "maximise"
    kernel: str = AUTO
    lengthscale: str | float | tuple[float, ...] = AUTO
    smoothness: float | None = None  # of a Matérn kernel: 2.5
    noise: str | float = AUTO
    signal: str | float = AUTO
    mean: str | float = AUTO
    policy: str = AUTO  # BBKB, by its local rule where the model is learned
    width: str | float = AUTO
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    budget: int | None = None
    repeats: str | int = "forbid"
    max_failures: int | None = 1  # 0 or None: failing candidates are never left out
    storage: str = AUTO

    def source(self) -> Source:
        """The pool's file as this request describes it."""
        where = Path(self.pool).absolute()
        return Source(where, self.id, self.features, self.categories, self.smiles, self.bits)


def read_request(path: Path | None, given: Mapping[str, Any]) -> Request:
    """A request from a TOML file, overruled by what is given beside it; an unknown name is an error."""
    known = {setting.name for setting in fields(Request)}
    wanted: dict[str, Any] = {}
    if path is not None:
        wanted = _toml(path)
        unknown = [name for name in wanted if name not in known]
        if unknown:
            raise SettingsError(
                f"{path}: unknown setting {unknown[0]!r}; known are {', '.join(sorted(known))}"
            )
        if "pool" in wanted:
            wanted["pool"] = str(path.parent / str(wanted["pool"]))
    wanted |= given
    if "pool" not in wanted:
        raise SettingsError("say which file holds the candidates: --pool FILE")
    for name in _TEXTS:
        if not isinstance(wanted.get(name, ""), str):
            raise SettingsError(f"{name} must be a text, not {shown(wanted[name])}")
    if not isinstance(wanted.get("options", {}), dict):
        raise SettingsError(f"options must be a table of NAME = VALUE, not {shown(wanted['options'])}")
    for name in ("features", "categories"):
        if isinstance(wanted.get(name), str):
            wanted[name] = (wanted[name],)
    for name in ("features", "categories", "lengthscale"):
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
    """A campaign's settings for good.

    A kernel of None is learned, with everything about it. Beside one that was given, noise, signal or mean
    of None is taken from the results at each ask.
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
    max_failures: int | None
    storage: str
    assumptions: tuple[str, ...]
    columns: tuple[tuple[str, float], ...] = ()  # names and spreads of what a learned model sees, if numbers

    @property
    def learned(self) -> bool:
        """Whether kernel, noise, mean and the scale of values are learned from the results."""
        return self.kernel is None

    @property
    def sign(self) -> float:
        """What values are multiplied by, so that more is better inside."""
        return 1.0 if self.goal == "maximise" else -1.0

    def build_policy(self, noise_std: float | None, plate: bool = False) -> policies.Policy:
        """The policy with its kernel and this noise, in the run's units; None: both are learned.

        For a plate, a width given as a number stays what it is. (`Optimizer.ask(n)` widens it by how far the
        plate goes past the batch ratio, which keeps the promise of a width that has one; a number has none,
        and widened by the size of a plate it would only explore.) The ratio is then of no use, and the rule
        for it is the one that costs no pass over the pool.
        """
        kind, options = policy_class(self.policy), dict(self.options)
        if plate and (options["width"] == AUTO or not isinstance(options["width"], str)):
            unused = {"batch_ratio": _NO_BOUND, "local": False}
            options |= {name: unused[name] for name in option_names(kind) if name in unused}
        kernel = AUTO if self.kernel is None else from_description(_tuples(self.kernel))
        built: policies.Policy = kind(kernel=kernel, noise_std=noise_std, **options)
        return built

    def run_settings(self) -> dict[str, Any]:
        """What `Optimizer` takes beside pool and policy."""
        names = ("seed", "budget", "repeats", "max_failures", "storage")
        return {name: getattr(self, name) for name in names}

    def to_json(self) -> str:
        """As the database keeps it."""
        return json.dumps({**asdict(self), "source": self.source.plain()})

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """What `to_json` wrote."""
        plain = json.loads(text)
        source = Source.from_plain(plain.pop("source"))
        columns = tuple((name, spread) for name, spread in plain.pop("columns", ()))
        return cls(
            **{**plain, "source": source, "assumptions": tuple(plain["assumptions"]), "columns": columns}
        )


def policy_class(name: str) -> type[policies.Policy]:
    """A policy by its name, written in any case, with or without dashes: BBKB, gp-ucb."""
    known = {plain_name(each): each for each in policies.__all__ if each not in _ABSTRACT}
    if plain_name(name) not in known:
        raise SettingsError(f"no policy is called {name!r}; there are {', '.join(sorted(known.values()))}")
    kind: type[policies.Policy] = getattr(policies, known[plain_name(name)])
    return kind


def plain_name(name: str) -> str:
    """A name without case, dashes and underscores."""
    return name.lower().replace("-", "").replace("_", "")


def option_names(kind: type[policies.Policy]) -> list[str]:
    """What `--option` can set: a policy's own settings."""
    return [each.name for each in fields(kind) if each.name not in ("kernel", "noise_std", "width")]


def _tuples(description: dict[str, Any]) -> dict[str, Any]:
    """JSON's lists of numbers as the tuples they were; parts of combined kernels stay lists."""
    return {
        key: tuple(value) if isinstance(value, list) and key != "parts" else value
        for key, value in description.items()
    }
