"""Requests of every kind, made from the OpenAPI description: no answer is an error of the service itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from manyarms.service.places import Folder, Place, PostgresDatabase
from tests.campaigns.server import fresh_database
from tests.campaigns.support import made
from tests.service.support import bearer, campaign_in, in_process

Served = tuple[httpx.Client, dict[str, str]]
FUZZING = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)


@contextlib.contextmanager
def begun(place: Place) -> Iterator[Served]:
    """A service whose campaign has some results and some open tickets."""
    with contextlib.closing(place.tokens()) as tokens:
        headers = bearer(tokens.make("tester", "*", ["admin"])[1])
    with in_process(place) as client:
        for number in range(2):
            asked = client.post("/campaigns/screen/asks", json={"n": 4}, headers=headers).json()["tickets"]
            rows = [{"ticket": each["ticket"], "value": 0.1 * each["arm"]} for each in asked[: 4 - number]]
            client.post("/campaigns/screen/results", json={"rows": rows}, headers=headers)
        yield client, headers


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """The service on a folder."""
    folder = tmp_path_factory.mktemp("campaigns")
    campaign_in(folder)
    with begun(Folder(folder)) as found:
        yield found


@pytest.fixture
def on_postgresql(tmp_path: Path, server: str) -> Iterator[Served]:
    """The service on a database of a PostgreSQL server, which refuses more texts and numbers than SQLite."""
    database = fresh_database(server)
    made(tmp_path, f"{database}#screen").close()
    with begun(PostgresDatabase(database, tmp_path)) as found:
        yield found


def fuzzed(service: Served, examples: int) -> int:
    """Send requests to every route; the number of answers that were neither refused nor unknown."""
    import schemathesis  # takes a second, in every process that collects tests
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

    checks = [not_a_server_error, response_schema_conformance, status_code_conformance]
    client, headers = service
    found = client.get("/openapi.json").json()
    del found["paths"]["/campaigns/{campaign}/events"]  # an answer without an end; see test_events.py
    loaded = schemathesis.openapi.from_dict(found)
    accepted = 0

    def send(case: Any) -> None:
        nonlocal accepted
        name = (case.path_parameters or {}).get("campaign")
        if name and len(name) % 4:  # most requests are for the campaign that exists
            case.path_parameters["campaign"] = "screen"
        answer = case.call(base_url=str(client.base_url), headers=headers, timeout=300)
        case.validate_response(answer, checks=checks)
        accepted += answer.status_code < 300

    for result in loaded.get_all_operations():
        strategy = result.ok().as_strategy()
        settings(FUZZING, max_examples=examples)(given(case=strategy)(send))()
    return accepted


def test_no_request_is_an_error_of_the_service(service: Served) -> None:
    assert fuzzed(service, 3) > 10


@pytest.mark.soak
def test_many_requests_are_no_error_of_the_service(service: Served) -> None:
    assert fuzzed(service, 200) > 400


@pytest.mark.slow
def test_no_request_is_an_error_of_the_service_on_postgresql(on_postgresql: Served) -> None:
    assert fuzzed(on_postgresql, 5) > 10


@pytest.mark.soak
def test_many_requests_are_no_error_of_the_service_on_postgresql(on_postgresql: Served) -> None:
    assert fuzzed(on_postgresql, 200) > 400


def test_the_description_names_every_route_with_examples_and_security(
    service: Served,
) -> None:
    found = service[0].get("/openapi.json").json()
    assert found["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    assert found["components"]["schemas"]["AskBody"]["examples"]
    for path, methods in found["paths"].items():
        for method, operation in methods.items():
            if path not in ("/login", "/agents/{run}/packets"):  # packets are signed with the key of an agent
                assert operation["security"] == [{"HTTPBearer": []}], (method, path)
                assert "application/problem+json" in operation["responses"]["401"]["content"], (method, path)
            assert operation["description"], (method, path)


@pytest.mark.parametrize(
    "name",
    ["%2e%2e%2fscreen", "..%2fscreen", "screen.db", "screen%00", "manyarms-service", "*", "%ff"],
)
def test_a_name_is_never_a_path(service: Served, name: str) -> None:
    client, headers = service
    assert client.get(f"/campaigns/{name}/status", headers=headers).status_code in (404, 422)
