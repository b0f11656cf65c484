"""Errors caused by what a caller passed in, one class per mistake.

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
    """Base class of every error this package raises deliberately."""


class InvalidParameterError(ManyarmsError, ValueError):
    """A parameter is outside its allowed range."""

    def __init__(self, name: str, value: Any, rule: str) -> None:
        super().__init__(f"{name} must be {rule}, got {shown(value)}")
        self.name, self.value, self.rule = name, value, rule

    def __reduce__(self) -> tuple[Any, ...]:  # so that it can be pickled in a worker process
        return type(self), (self.name, self.value, self.rule)


class InvalidFeaturesError(ManyarmsError, ValueError):
    """Features that no kernel can use: NaN, infinite, or of the wrong shape or type."""


class EmptyPoolError(ManyarmsError, ValueError):
    """A pool without arms."""


class InvalidIdError(ManyarmsError, ValueError):
    """Ids that cannot name the arms: missing, unhashable, or not one per arm."""


class DuplicateIdError(InvalidIdError):
    """Two arms were given the same id."""


class InvalidRewardError(ManyarmsError, ValueError):
    """A reward that is NaN, infinite or not a number, or that belongs to no arm."""


class UnknownArmError(ManyarmsError, LookupError):
    """An arm index or id that is not in the pool."""


class InvalidKernelError(ManyarmsError, ValueError):
    """A kernel that breaks its contract or does not fit the features."""


class UnsuitableKernelError(InvalidKernelError):
    """A valid kernel that a feature map cannot approximate: no known spectral density, or not linear."""


class TableError(ManyarmsError, ValueError):
    """A file that cannot be read as a pool; the message names file, row and column."""


class TextColumnError(TableError):
    """A column that must hold numbers but holds texts."""


class MissingExtraError(ManyarmsError, ImportError):
    """An optional library is needed but not installed."""

    def __init__(self, library: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {library}: pip install 'manyarms[{extra}]'")
        self.library, self.extra, self.purpose = library, extra, purpose

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.library, self.extra, self.purpose)


class UnknownTicketError(ManyarmsError, LookupError):
    """A ticket that was never issued."""


class AlreadyToldError(ManyarmsError, ValueError):
    """A ticket that already has a result, or that was cancelled with `forget`."""


class NothingToAskError(ManyarmsError, LookupError):
    """No arm is eligible: the pool is exhausted, or the mask of eligible arms leaves none."""


class CostLimitError(NothingToAskError):
    """No batch of the size asked for costs as little as a limit on its cost demands."""


class BudgetSpentError(ManyarmsError, RuntimeError):
    """All pulls that the budget allows have been issued."""


class GapReachedError(ManyarmsError, RuntimeError):
    """The recommended arm is already as close to the best one as was asked for; nothing was handed out."""


class GainReachedError(ManyarmsError, RuntimeError):
    """The next batch is not expected to improve the best arm by as much as was asked for."""


class AllFailedError(ManyarmsError, RuntimeError):
    """Every trial of a batch failed, so the run stopped; `result` holds what was measured before."""

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message)
        self.result = result


class RunStoppedError(ManyarmsError, RuntimeError):
    """A worker, an executor or a callback failed; `result` holds the run so far."""

    def __init__(self, message: str, result: Any) -> None:
        super().__init__(message)
        self.result = result


class CheckpointError(ManyarmsError, ValueError):
    """A saved run that cannot be loaded: damaged, from another version, or for another pool."""


class PoolTooLargeError(ManyarmsError, ValueError):
    """A pool with more arms than an algorithm without a sketch can handle."""


class UnknownVersionError(ManyarmsError, LookupError):
    """A shard of the pool does not have what a call names; an engine then sends it again."""


class EngineError(ManyarmsError, RuntimeError):
    """The cluster that holds the pool cannot do the work: not safe, without workers, or losing them."""


class StorageFullError(EngineError, OSError):
    """The folder for stored columns has no room left, or no file can be made there."""


class SchedulerLostError(EngineError, ConnectionError):
    """The scheduler of the cluster, at `address`, does not answer; a saved run can be continued elsewhere."""

    def __init__(self, message: str, address: str = "") -> None:
        super().__init__(message)
        self.address = address


class NoResultsError(ManyarmsError, LookupError):
    """The call needs at least one result."""


class NothingToPlotError(ManyarmsError, LookupError):
    """A chart has no data: there are no results yet, or the candidates have no columns to show."""


# ---------------------------------------------------------------- many agents, one server


class MessageError(ManyarmsError):
    """Base class of the errors for a rejected message; the state of the receiver is unchanged."""


class CorruptMessageError(MessageError, ValueError):
    """Bytes that are not a message: wrong magic number, unknown kind, wrong length or checksum."""


class WireVersionError(MessageError, ValueError):
    """A message in a version of the encoding that this package cannot read."""


class UnknownAgentError(MessageError, LookupError):
    """A message from an agent that is not part of the run."""


class ForgedSenderError(MessageError, PermissionError):
    """A message that names another sender than the party that sent it."""


class ImpossibleMessageError(MessageError, ValueError):
    """A well-formed message with impossible sizes or values, or of a kind that is not expected here."""


class SavedStateError(ManyarmsError, ValueError):
    """A saved state of a server or an agent that cannot be read or belongs to another problem."""


class SamplingCapError(ManyarmsError, RuntimeError):
    """Rejection sampling from an active region found no point within the stated number of tries."""


class RefusedPacketError(ManyarmsError, PermissionError):
    """Base class of the errors for a packet that is refused as a whole; nothing changes."""


class CorruptPacketError(RefusedPacketError, ValueError):
    """Bytes that are not a packet, or a packet for another run or direction."""


class UnknownKeyError(RefusedPacketError, LookupError):
    """A packet that no agent of the run has signed: an unknown agent or key, or an altered packet."""


class RevokedKeyError(RefusedPacketError):
    """A packet that is signed with a key that was revoked."""


class ReplayedPacketError(RefusedPacketError):
    """A packet that has arrived before."""


class RunFileError(ManyarmsError, ValueError):
    """A file of a run of agents, or an invitation, that cannot be read or does not fit."""


class UnknownRunError(RunFileError, LookupError):
    """A packet or a request for a run of agents that the service does not have."""


class UnreachableError(ManyarmsError, ConnectionError):
    """The server of a run of agents cannot be reached."""


class StalledRunError(ManyarmsError, RuntimeError):
    """There is nothing left to deliver or to pull, but the run is not finished."""


# ---------------------------------------------------------------- the papers' figures


class UnknownExperimentError(ManyarmsError, LookupError):
    """There is no experiment of this name to reproduce."""


class MissingDataError(ManyarmsError, LookupError):
    """A file of real data was not found; the message says where to get it."""


# ---------------------------------------------------------------- campaigns


class CampaignError(ManyarmsError):
    """Base class of errors about a stored campaign, as opposed to errors in the results given to it."""


class NoCampaignError(CampaignError, LookupError):
    """There is no campaign of this name."""


class CampaignExistsError(CampaignError, ValueError):
    """A campaign of this name already exists; it is never overwritten."""


class NewerSchemaError(CampaignError, RuntimeError):
    """The database was written by a newer version of this package."""


class DatabaseError(CampaignError, RuntimeError):
    """The database cannot be used: not reachable, not writable, full, locked for too long, or damaged."""


class DamagedCampaignError(DatabaseError):
    """The stored settings or the saved state of a campaign were changed by a fault or by hand."""


class ChangedPoolError(CampaignError, ValueError):
    """The pool file is missing, or is no longer the one the campaign was created with."""


class OutputError(CampaignError, OSError):
    """An output file cannot be written."""


class TrialsFailingError(CampaignError, RuntimeError):
    """Too many trials failed in a row."""


class SettingsError(ManyarmsError, ValueError):
    """Settings of a campaign that contradict each other or are unknown."""


class LeakingColumnError(ManyarmsError, ValueError):
    """A feature that is an exact linear function of the results: it seems to hold them."""


class ResultsFileError(ManyarmsError, ValueError):
    """A results file that cannot be imported; the message names file and row. Nothing is imported from it."""


class AmbiguousResultsError(ResultsFileError):
    """A results file that differs from its earlier version in a way that has several meanings."""


class CorrectionError(ManyarmsError, ValueError):
    """A correction that does not name exactly one recorded result; nothing was changed."""


class LeaseError(ManyarmsError, ValueError):
    """A ticket that another worker holds."""


# ---------------------------------------------------------------- the service


class ServiceError(ManyarmsError):
    """Base class of errors of a request to the service, as opposed to errors of the campaign behind it."""


class InvalidRequestError(ServiceError, ValueError):
    """A request that does not have the form that the description of the service gives."""


class NotAuthenticatedError(ServiceError, PermissionError):
    """A request without a valid token."""


class NotAllowedError(ServiceError, PermissionError):
    """The token of the request does not allow this."""


class CrossSiteError(ServiceError, PermissionError):
    """A request that a page of another site has made a browser send."""


class TooManyAttemptsError(ServiceError, PermissionError):
    """Too many requests with a wrong token from one address."""


class TooLargeError(ServiceError, ValueError):
    """A request whose body is larger than the service accepts."""


class TooSlowError(ServiceError, TimeoutError):
    """A request whose body did not arrive in time."""


class UnknownOperationError(ServiceError, LookupError):
    """There is no ask of this name: it has failed, or the service was restarted before it had finished."""


class RepeatedKeyError(ServiceError, ValueError):
    """An Idempotency-Key that was used before for another request."""


class ServiceBusyError(ServiceError, RuntimeError):
    """The service is stopping or overloaded; nothing was changed, and the request can be repeated."""


class UnreachableServiceError(ServiceError, ConnectionError):
    """The service did not answer."""


class UnsafeAddressError(ServiceError, ValueError):
    """The service refuses to listen at an address where others could use it."""


class TokenError(ServiceError, ValueError):
    """A token that cannot be made, or that does not exist."""
