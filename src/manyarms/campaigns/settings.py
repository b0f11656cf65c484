"""What a campaign is asked to do: the user's request, and the settings it becomes once the pool was seen.

Settings are written down once, at `new`, as plain JSON in the database, and never change.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from manyarms import policies
from manyarms.campaigns.assumptions import (
    LARGE_POOL,
    NOISE_SHARE,
    assumed_kernel,
    assumed_storage,
    most_inducing,
)
from manyarms.campaigns.source import Source
from manyarms.errors import InvalidParameterError, SettingsError, shown
from manyarms.kernels.base import KernelLike
from manyarms.kernels.describe import describe, from_description
from manyarms.optimizer import Optimizer
from manyarms.pool import Pool
from manyarms.validation import count, positive

GOALS = ("maximise", "minimise")
AUTO = "auto"
_ABSTRACT = ("Policy", "Sparse")
_NO_BOUND = 1e12  # a batch ratio that no plate reaches
_TEXTS = ("pool", "id", "smiles", "bits", "goal", "kernel", "policy", "storage")


@dataclass(frozen=True)
class Request:
    """What `manyarms new` can be told, by options or by a TOML file with the same names.

    Length-scales are in the units of the features, noise, signal and mean in those of the values.
    """

    pool: str
    id: str | None = None
    features: tuple[str, ...] | None = None
    smiles: str | None = None
    bits: str | None = None
    goal: str = "maximise"
    kernel: str = AUTO
    lengthscale: str | float | tuple[float, ...] = AUTO
    smoothness: float = 2.5
    noise: str | float = AUTO
    signal: str | float = AUTO
    mean: str | float = AUTO
    policy: str = "BBKB"
    width: str | float = AUTO
    options: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    budget: int | None = None
    repeats: str | int = "forbid"
    max_failures: int | None = 1  # 0 or None: failing candidates are never left out
    storage: str = AUTO

    def source(self) -> Source:
        """The pool's file as this request describes it."""
        return Source(Path(self.pool).absolute(), self.id, self.features, self.smiles, self.bits)


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
    if isinstance(wanted.get("features"), str):
        wanted["features"] = (wanted["features"],)
    for name in ("features", "lengthscale"):
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
    """A campaign's settings for good. Noise, signal or mean of None is taken from the results at each ask."""

    source: Source
    goal: str
    kernel: dict[str, Any]  # as `manyarms.kernels.describe` writes it
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

    @property
    def sign(self) -> float:
        """What values are multiplied by, so that more is better inside."""
        return 1.0 if self.goal == "maximise" else -1.0

    def build_policy(self, kernel: KernelLike, noise_std: float, plate: bool = False) -> policies.Policy:
        """The policy with this kernel and noise, both in the model's own units.

        For a plate, a width given as a number stays what it is. (`Optimizer.ask(n)` widens it by how far the
        plate goes past the batch ratio, which keeps the promise of a width that has one; a number has none,
        and widened by the size of a plate it would only explore.)
        """
        kind, options = policy_class(self.policy), dict(self.options)
        if plate and not isinstance(options["width"], str) and "batch_ratio" in _option_names(kind):
            options["batch_ratio"] = _NO_BOUND
        built: policies.Policy = kind(kernel=kernel, noise_std=noise_std, **options)
        return built

    def saved_kernel(self) -> KernelLike:
        """The kernel settled on at `new`."""
        return from_description(_tuples(self.kernel))

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
        return cls(**{**plain, "source": source, "assumptions": tuple(plain["assumptions"])})


def settle(request: Request, pool: Pool) -> Settings:
    """The settings this request becomes on this pool; every mistake in it is found here."""
    goal = request.goal.replace("ize", "ise")
    if goal not in GOALS:
        raise InvalidParameterError("goal", request.goal, "'maximise' or 'minimise'")
    source = request.source().described(pool)
    kernel, said = assumed_kernel(
        pool, request.kernel, request.lengthscale, request.smoothness, source.molecular
    )
    storage, more = (request.storage, []) if request.storage != AUTO else assumed_storage(pool)
    if pool.n_arms >= LARGE_POOL:
        more = [*more, f"sketch: at most {most_inducing(pool.n_arms)} inducing arms on a pool of this size"]
    kind = policy_class(request.policy)
    settings = Settings(
        source=source, goal=goal, kernel=describe(kernel),
        noise=_number("noise", request.noise), signal=_number("signal", request.signal),
        mean=_mean(request.mean), policy=kind.__name__,
        options={"width": _width(kind, request.width), **_options(kind, request.options)},
        seed=count("seed", request.seed, minimum=0),
        budget=None if request.budget is None else count("budget", request.budget),
        repeats=_repeats(request.repeats),
        max_failures=count("max_failures", request.max_failures) if request.max_failures else None,
        storage=storage, assumptions=(*said, *more),
    )  # fmt: skip
    Optimizer(pool, settings.build_policy(kernel, NOISE_SHARE), **settings.run_settings())
    return settings


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


def _option_names(kind: type[policies.Policy]) -> list[str]:
    return [each.name for each in fields(kind) if each.name not in ("kernel", "noise_std", "width")]


def _width(kind: type[policies.Policy], given: str | float) -> str | float:
    """What serves in practice, in posterior standard deviations, unless the user says otherwise."""
    return kind.practical if given == AUTO else given


def _options(kind: type[policies.Policy], options: Mapping[str, Any]) -> dict[str, Any]:
    known = _option_names(kind)
    for name in options:
        if name not in known:
            raise SettingsError(f"{kind.__name__} has no option {name!r}; it has {', '.join(known)}")
    return dict(options)


def _repeats(given: str | int) -> str | int:
    return given if given in ("allow", "forbid") else count("repeats", given)


def _number(name: str, given: str | float) -> float | None:
    return None if given == AUTO else positive(name, _parsed(name, given))


def _mean(given: str | float) -> float | None:
    mean = None if given == AUTO else _parsed("mean", given)
    if mean is not None and not math.isfinite(mean):
        raise InvalidParameterError("mean", given, "finite")
    return mean


def _parsed(name: str, given: Any) -> float:
    try:
        if isinstance(given, bool):
            raise TypeError
        return float(given)
    except (TypeError, ValueError):
        raise SettingsError(f"{name} is 'auto' or a number, not {shown(given)}") from None


def _tuples(description: dict[str, Any]) -> dict[str, Any]:
    """JSON's lists of numbers as the tuples they were; parts of combined kernels stay lists."""
    return {
        key: tuple(value) if isinstance(value, list) and key != "parts" else value
        for key, value in description.items()
    }
