"""Measuring by a program and by a function: arguments, numbers, time-outs, failures."""

from __future__ import annotations

import json
import sys
import time

import pytest

from manyarms import errors
from manyarms.campaigns.campaign import Issued
from manyarms.campaigns.workers.command_trials import (
    CommandTemplate,
    CommandTrial,
    TrialFailedError,
    last_number,
    printed_value,
    value_pattern,
)
from manyarms.campaigns.workers.python_trials import PythonTrial
from tests.campaigns.support import cli, made

STRANGE = "a'b\"c, $(touch harm); `touch harm` {x}\n| rm -rf . && echo 5 > harm"
COLUMNS = ["x1", "a.b", "0", "odd name"]


def job(name: str = "m1", ticket: int = 0, **columns: str) -> Issued:
    return Issued(
        ticket, 1, 4, name, {"x1": "0.5", "a.b": "dot", "0": "zero", "odd name": "odd", **columns}, 0, 1, ""
    )


def trial(command: str) -> CommandTrial:
    return CommandTrial(CommandTemplate(command, COLUMNS), "name")


def script(tmp_path, code: str) -> str:
    path = tmp_path / "script.py"
    path.write_text(code)
    return f"{sys.executable} {path}"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0.5", 0.5),
        ("loss: 3\nscore=-1.5e-3\n", -1.5e-3),
        ("12 of 20, model-v2 took 3s", 20.0),
        ("[1, 2, 3.5]", 3.5),
        ("{'value': .25}", 0.25),
        ("version 1_000 7", 7.0),
        ("step 10 score 3.5.", 3.5),
    ],
)
def test_the_last_number_printed(text, number):
    assert last_number(text) == number


@pytest.mark.parametrize(
    "text", ["", "nothing here", "value: nan", "-inf", "1e200", "abc1", "7 1,5", "-1,5.", '{"value": 1,5}']
)
def test_no_usable_number_is_a_failure(text):
    with pytest.raises(TrialFailedError):
        last_number(text)


@pytest.mark.parametrize(
    "text",
    ["1,234.5", "(3,5)", "[1,2,3.5]", "1.234,5", "1'234.5", "value: 1,5 ± 0,2", "x=1,5 y=7", "1,234\n\n"],
)
def test_a_comma_between_digits_is_a_failure_that_says_so(text):
    with pytest.raises(TrialFailedError, match=r"is ambiguous at .*one number or two"):
        last_number(text)


def test_a_comma_in_an_earlier_line_does_no_harm():
    assert last_number("read 1,234 molecules\nscore 5.5\n") == 5.5


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ('{"value": 1.5}', 1.5),
        ('step 1\n{"value": -2, "seconds": 17}\ndone in 17 s, 1,234 kB\n', -2.0),
        ('{"value": 1}\n{"value": 2e-3}\n{"other": 9}', 0.002),
    ],
)
def test_a_line_of_json_is_the_unambiguous_way(text, number):
    assert printed_value(text) == number


@pytest.mark.parametrize("value", ["null", '"1.5"', "true", "[1]", "NaN", "1e999", "1" + "0" * 400])
def test_a_line_of_json_without_a_number_is_a_failure(value):
    with pytest.raises(TrialFailedError, match="value"):
        printed_value(f'7\n{{"value": {value}}}')


def test_a_pattern_says_where_the_value_is(tmp_path):
    pattern = value_pattern(r"^affinity\s+(\S+)")
    assert printed_value("affinity -9.5\naffinity -7.25 kcal, 1,234 steps\n3\n", pattern) == -7.25
    for text, words in (
        ("7", "does not match"),
        ("affinity 1,5", "'1,5' is not a number"),
        ("affinity inf", "usable"),
    ):
        with pytest.raises(TrialFailedError, match=words):
            printed_value(text, pattern)
    for wrong in ("(", "affinity", "(a)(b)"):
        with pytest.raises(errors.SettingsError, match="pattern"):
            value_pattern(wrong)
    with made(tmp_path) as campaign:
        place = campaign.store.where.file
    run = ["run", place, "--trials", 2, "--json"]
    done = cli(*run, "--command", "echo score 1,234.5 at {x1} in 99 s", "--value-pattern", r"at (\S+)")
    assert (done.code, done.json["measured"]) == (0, 2)
    done = cli(*run, "--command", "echo 1,234.5", "--retries", 0)
    assert (done.json["measured"], done.json["failed"]) == (0, 2)
    assert "one number or two" in done.json["notes"][0]
    assert cli(*run, "--python", "a:b", "--value-pattern", "(.)").code == 2


def test_arguments_are_filled_in_one_by_one_and_no_shell_sees_them(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    echo = script(tmp_path, "import json, sys\njson.dump(sys.argv[1:], open('seen', 'w'))\nprint(1)")
    arguments = "{id} --x={x1} '{a.b} and {0}' '{odd name}' {{}} {index}/{ticket}"
    assert trial(f"{echo} {arguments}").measure(job(STRANGE, ticket=3), 20) == 1.0
    seen = json.loads((tmp_path / "seen").read_text())
    assert seen == [STRANGE, "--x=0.5", "dot and zero", "odd", "{}", "4/3"]
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("", "empty"),
        ("echo 'open", "cannot be split"),
        ("no-such-program-here {id}", "not an executable program"),
        ("echo {nothing}", "not a column"),
        ("echo {id.__class__}", "not a column"),
        ("echo {x1[0]}", "not a column"),
        ("echo {id!r}", "nothing else"),
        ("echo {x1:.3f}", "nothing else"),
        ("echo {}", "nothing else"),
        ("echo {id", "expected '}'"),
    ],
)
def test_commands_that_cannot_work_are_refused_at_once(command, words):
    with pytest.raises(errors.SettingsError, match=words):
        CommandTemplate(command, COLUMNS)


@pytest.mark.parametrize("name", ["id", "ticket", "index"])
def test_a_column_called_like_one_of_our_names_is_refused_where_it_is_used(name):
    with pytest.raises(errors.SettingsError, match="rename"):
        CommandTemplate(f"echo {{{name}}}", [*COLUMNS, name], "name")
    CommandTemplate("echo {x1}", [*COLUMNS, name], "name")
    CommandTemplate("echo {id}", [*COLUMNS, "id"], "id")


def test_a_program_that_fails_hangs_or_says_nothing(tmp_path):
    with pytest.raises(TrialFailedError, match="exit code 3: the pump is dry"):
        trial(script(tmp_path, "import sys; print('the pump is dry', file=sys.stderr); sys.exit(3)")).measure(
            job(), 20
        )
    with pytest.raises(TrialFailedError, match="no number"):
        trial("echo hello").measure(job(), 20)
    with pytest.raises(TrialFailedError, match="cannot be started"):
        trial("echo {id}").measure(job("nul\0byte"), 20)
    started = time.monotonic()
    with pytest.raises(TrialFailedError, match=r"within 0\.3 s"):
        trial(script(tmp_path, "import subprocess; subprocess.run(['sleep', '60'])")).measure(job(), 0.3)
    assert time.monotonic() - started < 10  # the child of the child is gone too, or its pipe would be open


def test_a_descendant_that_left_the_session_does_not_hold_up_a_time_out(tmp_path):
    code = "import subprocess, time\nsubprocess.Popen(['sleep', '8'], start_new_session=True)\ntime.sleep(60)"
    started = time.monotonic()
    with pytest.raises(TrialFailedError, match=r"within 0\.5 s"):
        trial(script(tmp_path, code)).measure(job(), 0.5)
    assert time.monotonic() - started < 6


MODULE = """
import time, os, sys
def good(arm):
    print("chatter 99")
    return arm.row["x1"] * 2 + arm.index + len(arm.id) + arm.ticket
def bad(arm):
    raise ValueError("no sample of " + arm.id)
def hangs(arm):
    time.sleep(0 if arm.ticket else 60)
    return 1
def dies(arm):
    os._exit(1)
def text(arm):
    return "high"
def reads(arm):
    return len(sys.stdin.read()) + len(os.read(0, 100)) + arm.ticket
def nan(arm):
    return float("nan")
number = 5
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    (tmp_path / "bench.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)


def python(function: str) -> PythonTrial:
    return PythonTrial(f"bench:{function}", ["x1"], "name")


def test_a_function_gets_numbers_ids_and_tickets(module):
    worker = python("good")
    assert worker.measure(job("abc", ticket=7), 20) == 1.0 + 4 + 3 + 7
    assert worker.measure(job("ü\n", ticket=7), 20) == 1.0 + 4 + 2 + 7
    worker.close()


def test_a_function_that_reads_its_standard_input_finds_nothing_there(module):
    worker = python("reads")
    assert [worker.measure(job(ticket=ticket), 20) for ticket in (1, 2)] == [1.0, 2.0]
    worker.close()


@pytest.mark.parametrize(
    ("function", "words"),
    [("bad", "ValueError: no sample of m1"), ("text", "ValueError"), ("nan", "usable"), ("dies", "ended")],
)
def test_a_function_that_fails_leaves_a_reason_and_a_worker_that_goes_on(module, function, words):
    worker = python(function)
    for _ in range(2):
        with pytest.raises(TrialFailedError, match=words):
            worker.measure(job(), 20)
    worker.close()


def test_a_function_that_hangs_is_replaced(module):
    worker = python("hangs")
    with pytest.raises(TrialFailedError, match=r"within 0\.3 s"):
        worker.measure(job(ticket=0), 0.3)
    assert worker.measure(job(ticket=1), 20) == 1.0
    worker.close()


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("bench:nothing", "nothing"),
        ("nowhere:f", "No module"),
        ("bench:number", "not a function"),
        ("bench", "form"),
    ],
)
def test_a_function_that_cannot_be_called_is_refused_at_once(module, function, words):
    with pytest.raises(errors.SettingsError, match=words):
        PythonTrial(function, [], "name").check()
