"""Everything that can go wrong because of what a caller passed in, one class per mistake.

Each class also inherits the built-in exception a Python programmer would expect (`ValueError`,
`LookupError`, `ImportError`), so `except ValueError` keeps working, and every message names the
offending value.
"""

from __future__ import annotations

from typing import Any


def shown(value: Any, longest: int = 120) -> str:
    """`repr(value)`, cut to fit an error message."""
    try:
        text = repr(value)
    except Exception as problem:  # a huge integer, or an object whose repr is broken
        text = f"<{type(value).__name__} that cannot be shown: {problem}>"
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


class ManyarmsError(Exception):
    """Base of every error raised on purpose by this package."""


class InvalidParameterError(ManyarmsError, ValueError):
    """A setting lies outside its legal range."""

    def __init__(self, name: str, value: Any, rule: str) -> None:
        super().__init__(f"{name} must be {rule}, got {shown(value)}")
        self.name, self.value, self.rule = name, value, rule

    def __reduce__(self) -> tuple[Any, ...]:  # so that it survives the trip home from a worker process
        return type(self), (self.name, self.value, self.rule)


class InvalidFeaturesError(ManyarmsError, ValueError):
    """Features that no kernel could use: NaN, infinite, of the wrong shape or type."""


class EmptyPoolError(ManyarmsError, ValueError):
    """A pool without a single arm."""


class InvalidIdError(ManyarmsError, ValueError):
    """Ids that cannot name the arms: missing, unhashable, or not one per arm."""


class DuplicateIdError(InvalidIdError):
    """Two arms were given the same id."""


class InvalidRewardError(ManyarmsError, ValueError):
    """A reward that is NaN, infinite, not a number, or not matched by an arm."""


class UnknownArmError(ManyarmsError, LookupError):
    """An arm index or id that the pool does not hold."""


class InvalidKernelError(ManyarmsError, ValueError):
    """A kernel that broke its contract, or that does not fit the features it was given."""


class UnsuitableKernelError(InvalidKernelError):
    """A sound kernel that a feature map cannot stand for: no known spectral density, or not linear."""


class TableError(ManyarmsError, ValueError):
    """A file that cannot be read as a pool; the message names file, row and column."""


class TextColumnError(TableError):
    """A column that was to hold numbers and holds texts."""


class MissingExtraError(ManyarmsError, ImportError):
    """An optional library is needed and not installed."""

    def __init__(self, library: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {library}: pip install 'manyarms[{extra}]'")
        self.library, self.extra, self.purpose = library, extra, purpose

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.library, self.extra, self.purpose)


class UnknownTicketError(ManyarmsError, LookupError):
    """A ticket that was never handed out."""


class AlreadyToldError(ManyarmsError, ValueError):
    """A ticket whose result is in already, or that was given up with `forget`."""


class NothingToAskError(ManyarmsError, LookupError):
    """No arm may be chosen: the pool is exhausted, or the mask of eligible arms leaves none."""


class BudgetSpentError(ManyarmsError, RuntimeError):
    """All pulls that the budget allows have been handed out."""


class AllFailedError(ManyarmsError, RuntimeError):
    """Every trial of a batch failed, so going on makes no sense; `result` holds what was measured before."""

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message)
        self.result = result


class RunStoppedError(ManyarmsError, RuntimeError):
    """Something around the trials broke (worker, executor, callback); `result` holds the run so far."""

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message)
        self.result = result


class CheckpointError(ManyarmsError, ValueError):
    """A saved run that cannot be loaded: damaged, of another version, or of another pool."""


class PoolTooLargeError(ManyarmsError, ValueError):
    """A pool with more arms than an algorithm without a sketch can hold."""


class NoResultsError(ManyarmsError, LookupError):
    """A question that needs at least one result."""


# ---------------------------------------------------------------- many agents, one server


class MessageError(ManyarmsError):
    """Base of every reason to refuse a message; the receiver's state is unchanged."""


class CorruptMessageError(MessageError, ValueError):
    """Bytes that are no message: wrong mark, unknown kind, wrong length or checksum."""


class WireVersionError(MessageError, ValueError):
    """A message written in a version of the encoding that this package does not read."""


class UnknownAgentError(MessageError, LookupError):
    """A message from an agent that does not take part."""


class ImpossibleMessageError(MessageError, ValueError):
    """A well-formed message whose sizes or numbers cannot be right, or of a kind nobody sends here."""


class SavedStateError(ManyarmsError, ValueError):
    """A saved server state that cannot be read, or that belongs to another problem."""


class SamplingCapError(ManyarmsError, RuntimeError):
    """Rejection draws from an active region found no point at all within the stated number of tries."""


class StalledRunError(ManyarmsError, RuntimeError):
    """Nothing is left to deliver, nothing to pull, and the run is not finished."""


# ---------------------------------------------------------------- the papers' figures


class UnknownExperimentError(ManyarmsError, LookupError):
    """No figure of this name can be reproduced."""


class MissingDataError(ManyarmsError, LookupError):
    """A file of real data is not where it was looked for; the message says where to get it."""


# ---------------------------------------------------------------- campaigns


class CampaignError(ManyarmsError):
    """Base of what can be wrong with a campaign as it is stored, rather than with what it is told."""


class NoCampaignError(CampaignError, LookupError):
    """No campaign of this name is there."""


class CampaignExistsError(CampaignError, ValueError):
    """A campaign of this name is there already; it is never overwritten."""


class NewerSchemaError(CampaignError, RuntimeError):
    """The database was written by a newer version of this package."""


class DatabaseError(CampaignError, RuntimeError):
    """The database refused: not reachable, not writable, full, locked for too long, or damaged."""


class ChangedPoolError(CampaignError, ValueError):
    """The pool's file is gone, or is no longer the one the campaign was made with."""


class OutputError(CampaignError, OSError):
    """A file that was asked for cannot be written."""


class TrialsFailingError(CampaignError, RuntimeError):
    """So many trials in a row failed that going on makes no sense."""


class SettingsError(ManyarmsError, ValueError):
    """Settings of a campaign that contradict each other, or that nobody knows."""


class ResultsFileError(ManyarmsError, ValueError):
    """A file of results that cannot be taken in; the message names file and row. Nothing of it is kept."""
