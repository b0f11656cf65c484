"""The bodies of requests and answers, from which the OpenAPI description is made."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from manyarms.campaigns.orders import Issued
from manyarms.campaigns.results_file import LARGEST_VALUE, MOST_REPLICATES, SMALLEST_NOISE

MOST_CANDIDATES = 100_000  # of one ask
MOST_ROWS = 100_000  # of one request
LONGEST_LEASE = 30 * 86_400.0


def _storable(text: str) -> str:
    """Refuse control characters and halves of surrogate pairs, which a database may not store."""
    if not text.isprintable():
        raise ValueError("must consist of printable characters")
    return text


def _writable(text: str) -> str:
    """Refuse what a database may not store, but allow several lines."""
    _storable(text.replace("\n", " ").replace("\t", " ").replace("\r", " "))
    return text


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_storable)]
Id = Annotated[str, Field(min_length=1, max_length=2_000), AfterValidator(_writable)]
Note = Annotated[str, Field(max_length=2_000), AfterValidator(_writable)]
Value = Annotated[float, Field(allow_inf_nan=False, ge=-LARGEST_VALUE, le=LARGEST_VALUE)]
Noise = Annotated[float, Field(allow_inf_nan=False, ge=SMALLEST_NOISE, le=LARGEST_VALUE)]
Replicates = Annotated[int, Field(ge=1, le=MOST_REPLICATES)]
Lease = Annotated[
    float,
    Field(
        ge=1,
        le=LONGEST_LEASE,
        allow_inf_nan=False,
        description="Seconds after which tickets without a result are forgotten.",
    ),
]
TicketText = Annotated[
    str, Field(pattern=r"^[0-9]{1,18}(-[a-z0-9]{1,10})?$", description="Ticket, such as 7-k3f5m.")
]
Ids = Annotated[list[Id], Field(min_length=1, max_length=MOST_ROWS)]


class Body(BaseModel):
    """A body whose unknown fields are an error."""

    model_config = ConfigDict(extra="forbid")


class AskBody(Body):
    """What an ask is asked for."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"n": 4, "worker": "robot 1", "lease": 600}]}
    )
    n: int | None = Field(None, ge=1, le=MOST_CANDIDATES, description="Exactly so many candidates.")
    at_most: int | None = Field(
        None, ge=1, le=MOST_CANDIDATES, description="The stopping rule decides, with this limit."
    )
    worker: Name | None = Field(None, description="Who measures the candidates.")
    lease: Lease | None = None
    until_gap: float | None = Field(None, ge=0, allow_inf_nan=False, description="Stop at this gap.")
    until_gain: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="Stop when the batch is expected to improve the best candidate by at most this.",
    )
    eligible: Note | None = Field(None, description="Condition on the columns, such as 'price < 30'.")
    ids: Ids | None = Field(None, description="Ids of the candidates to choose from.")
    same: Name | None = Field(None, description="Column in which all candidates have the same value.")
    at_most_each: dict[Name, Annotated[int, Field(ge=1, le=MOST_CANDIDATES)]] | None = Field(
        None,
        max_length=20,
        description="For columns: at most so many candidates of the batch share a value.",
        examples=[{"supplier": 8}],
    )
    max_cost: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="What the batch may cost at most."
    )
    per_cost: bool | None = Field(
        None, description="Whether it is chosen by value per cost; by default as the campaign was created."
    )


class TicketAnswer(BaseModel):
    """One ticket: a candidate to measure, and its prediction."""

    ticket: str = Field(examples=["7-k3f5m"])
    number: int
    batch: int
    arm: int
    id: str
    columns: dict[str, str] = Field(description="The columns of the table of candidates.")
    predicted: float
    predicted_std: float
    lower: float | None
    upper: float | None
    reason: str = Field(description="Why the candidate was chosen.", examples=["upper bound"])
    cost: float | None = Field(None, description="What the trial costs, in a campaign with costs.")
    gain: float | None = Field(
        None, description="By how much this candidate alone is expected to improve the best one."
    )

    @classmethod
    def of(cls, issued: Issued) -> TicketAnswer:
        """The ticket as an answer shows it."""
        plain = asdict(issued)
        plain.pop("explanation")  # GET …/explanations has it
        return cls(ticket=plain.pop("code"), number=plain.pop("ticket"), **plain)


class BatchAnswer(BaseModel):
    """The tickets of an ask."""

    id_column: str
    tickets: list[TicketAnswer]


class OperationAnswer(BaseModel):
    """An ask that is still being computed."""

    operation: str = Field(description="Name of the operation; GET …/operations/NAME has its result.")
    state: Literal["running"] = "running"


class ResultBody(Body):
    """The result of a ticket: a value, or a failure with its reason."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"value": 0.73}, {"failed": True, "note": "spilt"}]}
    )
    value: Value | None = None
    failed: bool = False
    note: Note | None = Field(None, description="Why the trial has failed.")
    noise_std: Noise | None = Field(None, description="Standard deviation of the noise of the value.")
    replicates: Replicates | None = Field(None, description="Number of measurements it is the mean of.")


class ResultRow(Body):
    """A result by its ticket or by the id of its candidate; one without a value is skipped."""

    ticket: TicketText | None = None
    id: Id | None = None
    value: Value | None = None
    failed: bool = False
    noise_std: Noise | None = Field(None, description="Standard deviation of the noise of the value.")
    replicates: Replicates | None = Field(None, description="Number of measurements it is the mean of.")


class ResultsBody(Body):
    """Several results, recorded all or none."""

    rows: list[ResultRow] = Field(max_length=MOST_ROWS)


class ImportAnswer(BaseModel):
    """How many results were recorded and skipped."""

    new: int
    failed: int
    unasked: int
    late: int
    known: int
    unmeasured: int
    corrected: int
    removed: int
    untold: int
    missing: int


class CorrectionRow(Body):
    """A recorded result, named by its ticket or id, and its right value."""

    ticket: TicketText | None = None
    id: Id | None = None
    value: Value | None = None
    failed: bool = False
    was: Value | Literal["failed"] | None = Field(
        None, description="Present value, where a candidate has several results."
    )
    noise_std: Noise | None = Field(None, description="Standard deviation of the noise of the value.")
    replicates: Replicates | None = Field(None, description="Number of measurements it is the mean of.")


class CorrectionsBody(Body):
    """Corrections, made all or none."""

    rows: list[CorrectionRow] = Field(min_length=1, max_length=MOST_ROWS)
    why: Note | None = None
    remove: bool = Field(False, description="Remove these results instead of changing their values.")


class ChangeAnswer(BaseModel):
    """One change that was made."""

    ticket: int | None
    id: str
    old_value: float | None
    new_value: float | None
    removed: bool


class CorrectionsAnswer(BaseModel):
    """The changes that were made; a value that was right already is none."""

    changes: list[ChangeAnswer]


class RenewBody(Body):
    """A longer lease for tickets that a worker holds."""

    worker: Name
    lease: Lease


class ReleaseBody(Body):
    """A worker gives up tickets."""

    worker: Name


class ForgetBody(Body):
    """Open tickets to cancel."""

    tickets: list[TicketText] = Field(default=[], max_length=MOST_ROWS)
    batch: int | None = Field(None, ge=1, le=2**31 - 1)
    all_open: bool = False


class ForgetAnswer(BaseModel):
    """The numbers of the cancelled tickets."""

    forgotten: list[int]


class ExcludeBody(Body):
    """Candidates that must not be asked for."""

    ids: Ids
    note: Note | None = None


class ReadmitBody(Body):
    """Candidates that may be asked for again."""

    ids: Ids


class ExclusionsAnswer(BaseModel):
    """How many candidates changed, and all that are excluded."""

    changed: int
    excluded: list[str]


class CampaignsAnswer(BaseModel):
    """The campaigns that the caller may see."""

    campaigns: list[str]


Plain = dict[str, Any]
