"""Errors as answers: application/problem+json (RFC 9457), with the kinds that the command prints."""

from __future__ import annotations

import http
import logging
import re
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from manyarms import errors
from manyarms.campaigns.text import masked, one_line

PROBLEM = "application/problem+json"
_log = logging.getLogger("manyarms.service")

# The first matching class decides.
STATUSES: list[tuple[type[errors.ManyarmsError], int]] = [
    (errors.NotAuthenticatedError, 401),
    (errors.TooManyAttemptsError, 429),
    (errors.NotAllowedError, 403),
    (errors.CrossSiteError, 403),
    (errors.TooLargeError, 413),
    (errors.TooSlowError, 408),
    (errors.UnknownOperationError, 404),
    (errors.ServiceBusyError, 503),
    (errors.NoCampaignError, 404),
    (errors.UnknownRunError, 404),
    (errors.RefusedPacketError, 403),
    (errors.RunFileError, 503),
    (errors.CampaignExistsError, 409),
    (errors.UnknownTicketError, 404),
    (errors.UnknownArmError, 404),
    (errors.AlreadyToldError, 409),
    (errors.LeaseError, 409),
    (errors.AmbiguousResultsError, 409),
    (errors.CorrectionError, 409),
    (errors.BudgetSpentError, 409),
    (errors.NothingToAskError, 409),
    (errors.GapReachedError, 409),
    (errors.GainReachedError, 409),
    (errors.NoResultsError, 409),
    (errors.CampaignError, 503),
    (errors.MissingExtraError, 503),
    (errors.ManyarmsError, 422),
]


class BodyError(HTTPException):
    """A body that is too large or too slow. FastAPI passes this class on while it reads a body."""

    def __init__(self, problem: errors.ManyarmsError) -> None:
        super().__init__(status_of(problem), str(problem))
        self.problem = problem


def status_of(problem: errors.ManyarmsError) -> int:
    """The HTTP status of an error."""
    return next(status for kind, status in STATUSES if isinstance(problem, kind))


def problem_response(
    status: int, kind: str, detail: str, headers: dict[str, str] | None = None
) -> JSONResponse:
    """The answer for an error."""
    content = {
        "type": f"urn:manyarms:error:{kind}", "title": http.HTTPStatus(status).phrase, "status": status,
        "detail": detail, "kind": kind,
    }  # fmt: skip
    return JSONResponse(content, status, media_type=PROBLEM, headers=headers)


def answer(problem: errors.ManyarmsError) -> JSONResponse:
    """The answer for an error of this package."""
    status, headers = status_of(problem), {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    wait = getattr(problem, "retry_after", None)
    if wait is not None:
        headers["Retry-After"] = str(wait)
    if isinstance(problem, BodyError):
        headers["Connection"] = "close"
    return problem_response(status, type(problem).__name__, one_line(masked(str(problem))), headers)


def handle_errors(app: FastAPI) -> None:
    """Answer every error of this application with a problem."""

    @app.exception_handler(errors.ManyarmsError)
    def of_this_package(_request: Request, problem: errors.ManyarmsError) -> JSONResponse:
        if status_of(problem) >= 500:
            _log.error("%s: %s", type(problem).__name__, masked(str(problem)))
        return answer(problem)

    @app.exception_handler(BodyError)
    def of_a_body(_request: Request, problem: BodyError) -> JSONResponse:
        told = answer(problem.problem)
        told.headers["Connection"] = "close"  # the rest of the body is not read
        return told

    @app.exception_handler(HTTPException)
    def of_http(_request: Request, problem: HTTPException) -> JSONResponse:
        headers = dict(problem.headers or {})
        return problem_response(problem.status_code, "ServiceError", str(problem.detail), headers)

    @app.exception_handler(RequestValidationError)
    def of_validation(_request: Request, problem: RequestValidationError) -> JSONResponse:
        return problem_response(422, errors.InvalidRequestError.__name__, _sentence(problem))

    @app.exception_handler(Exception)
    def unexpected(request: Request, problem: Exception) -> JSONResponse:
        _log.exception("%s %s failed", request.method, request.url.path, exc_info=problem)
        return problem_response(500, "InternalError", "The service failed; its log has the details.")


def _sentence(problem: RequestValidationError) -> str:
    """The first mistakes, each with its place; values are left out, they may be long or secret."""
    found = problem.errors()
    told = [f"{'.'.join(map(str, each['loc']))}: {_shortened(each['msg'])}" for each in found[:3]]
    more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
    return one_line("; ".join(told))[:500] + more


def _shortened(text: str) -> str:
    """The text with 1e-100 and the like instead of a hundred digits, which a limit would be written with."""
    return re.sub(r"\d+\.\d{20,}|\d{20,}", lambda number: f"{float(number[0]):g}", text)


def described(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The description of these answers for OpenAPI."""
    example = {
        "type": "urn:manyarms:error:BudgetSpentError", "title": "Conflict", "status": 409,
        "detail": "the budget of 96 pulls is spent", "kind": "BudgetSpentError",
    }  # fmt: skip
    schema = {
        "type": "object", "required": ["type", "title", "status", "detail", "kind"],
        "properties": {
            "type": {"type": "string"}, "title": {"type": "string"}, "status": {"type": "integer"},
            "detail": {"type": "string"}, "kind": {"type": "string"},
        },
    }  # fmt: skip
    return {
        status: {
            "description": http.HTTPStatus(status).phrase,
            "content": {PROBLEM: {"schema": schema, "example": example}},
        }
        for status in statuses
    }
