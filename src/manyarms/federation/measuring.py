"""Measure the trials of an agent with a program or a Python function, or by hand through a batch file.

These are the ways of a campaign: the same placeholders, the same function arguments, the same files. A ticket
is the step of the trial with a check, such as 7-k3f5m, so that the file of another agent is not accepted.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from manyarms.campaigns.batch_file import batch_lines
from manyarms.campaigns.results_file import read_results
from manyarms.campaigns.spreadsheet_cells import as_text_cell
from manyarms.campaigns.workers.command_trials import (
    CommandTemplate,
    CommandTrial,
    Trial,
    value_pattern,
)
from manyarms.campaigns.workers.python_trials import PythonTrial
from manyarms.errors import ResultsFileError
from manyarms.federation.member import Member
from manyarms.federation.table import CandidateTable
from manyarms.federation.working import OneTrial
from manyarms.support.output_files import flush_to_disk


class TableTrial:
    """A trial of a campaign on the candidates of the table."""

    def __init__(self, member: Member, table: CandidateTable, trial: Trial, timeout: float | None) -> None:
        self._member, self._table, self._trial, self._timeout = member, table, trial, timeout

    def measure(self, trial: OneTrial) -> float:
        """The measured value of the candidate."""
        assert trial.arm is not None
        (job,) = self._table.issued(self._member.invitation, [trial.step], [trial.arm])
        return self._trial.measure(job, self._timeout)

    def close(self) -> None:
        """Stop the program or the function."""
        self._trial.close()


def command_trials(table: CandidateTable, command: str, pattern: str | None) -> Callable[[], Trial]:
    """A factory of trials that run a program; an unusable command is an error at once."""
    template = CommandTemplate(command, table.source.column_names(), table.source.id)
    compiled = value_pattern(pattern)
    return lambda: CommandTrial(template, table.id_column, compiled)


def python_trials(table: CandidateTable, function: str) -> Callable[[], Trial]:
    """A factory of trials that call a function; an unusable function is an error at once."""
    numeric = table.source.feature_columns()
    first = PythonTrial(function, numeric, table.id_column)
    first.check()
    spare = [first]
    return lambda: spare.pop() if spare else PythonTrial(function, numeric, table.id_column)


def measurer(member: Member, table: CandidateTable, command: str | None, python: str | None) -> TableTrial:
    """One way to measure, by a program or by a function."""
    if command:
        return TableTrial(member, table, command_trials(table, command, None)(), None)
    return TableTrial(member, table, python_trials(table, python or "")(), None)


def write_open_trials(member: Member, table: CandidateTable, path: Path) -> int:
    """Write the open trials to a batch file with an empty column `value`; return how many there are."""
    pulls = member.open_trials()
    steps = [] if pulls is None else pulls.steps.tolist()
    arms = [] if pulls is None or pulls.arms is None else pulls.arms.tolist()
    lines = batch_lines(table.issued(member.invitation, steps, arms), table.id_column)
    unused = ("predicted_mean", "predicted_sd", "reason")  # the agents of a run make no predictions
    rows = [{name: cell for name, cell in line.items() if name not in unused} for line in lines]
    header = list(rows[0]) if rows else ["ticket", table.id_column, "value"]
    with open(path, "w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(map(as_text_cell, header))
        writer.writerows(map(as_text_cell, row.values()) for row in rows)
        flush_to_disk(stream)
    return len(rows)


def read_values(member: Member, table: CandidateTable, path: Path) -> dict[int, float]:
    """The values in a completed batch file, by step; rows without a value are not measured yet."""
    try:
        data = path.read_bytes()
    except OSError as problem:
        raise ResultsFileError(f"{path}: {problem.strerror}") from None
    trials = {row.step: row for row in member.file.trials()}
    values: dict[int, float] = {}
    for row in read_results(data, path.name, table.id_column):
        if not row.measured:
            continue
        if row.ticket is None or row.ticket not in trials:
            raise ResultsFileError(f"{row.where}: the row has no ticket of this agent")
        arm = trials[row.ticket].arm
        (job,) = table.issued(member.invitation, [row.ticket], [arm if arm is not None else 0])
        if row.check != job.code.partition("-")[2] or row.name not in (None, job.id):
            raise ResultsFileError(
                f"{row.where}: ticket {row.ticket} of this agent is {job.code} for {job.id}"
            )
        if row.value is None:
            raise ResultsFileError(
                f"{row.where}: a trial of an agent cannot be marked as failed: leave its value empty and "
                "repeat it"
            )
        if values.get(row.ticket, row.value) != row.value:
            raise ResultsFileError(f"{row.where}: ticket {row.ticket} has two different values")
        values[row.ticket] = row.value
    return values
