"""Compare a results file with what was recorded from its earlier version. These are pure functions.

Rows that name a ticket are recognised by it. Rows that give an id alone are compared as a multiset of
(candidate, value with its noise), so the order of the rows does not matter. Files are told apart by their
name without the folder:

* Rows that are recorded from a file of this name are known, also if the result was corrected or removed
  since.
* If all of the earlier version is there, the other rows are new.
* If some of it is missing or changed, and there are other rows, the file has several meanings: it may correct
  the earlier version, hold further measurements, or be another file. This is an error unless the caller chose
  a `Mode`.
* If half of the rows or more equal rows of files with other names, the file may be a copy, which is the same
  error.
* A file that shares no candidate with the earlier ones of its name is another file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from manyarms.campaigns.store.corrections import RecordedResult
from manyarms.campaigns.store.result_noise import USUAL, ResultNoise, Said
from manyarms.campaigns.text import counted
from manyarms.errors import AmbiguousResultsError


class Mode(StrEnum):
    """What the rows of a file mean that differ from its earlier version."""

    ASK = "ask"  # an ambiguous file is an error
    CORRECT = "correct"  # the file replaces its earlier version
    REPLICATES = "replicates"  # rows that differ from all recorded ones are further measurements
    AS_NEW = "as-new"  # every row is a further measurement


@dataclass(frozen=True)
class IdRow:
    """A measured row that gives an id alone; `key` is the caller's."""

    key: int
    arm: int
    name: str
    value: float | None
    exported: bool = False  # from an export of the same campaign
    noise: ResultNoise = USUAL

    @property
    def said(self) -> Said:
        """The value and its noise."""
        return self.value, self.noise


@dataclass
class Comparison:
    """What the rows of a file are, by their keys."""

    file: int | None = None  # the earlier version; None: this is another file
    new: list[int] = field(default_factory=list)
    known: list[int] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)  # rows whose result was removed with `untell`
    changed: list[tuple[int, RecordedResult]] = field(default_factory=list)
    missing: list[RecordedResult] = field(default_factory=list)  # recorded from the file, no longer in it


def compared(
    rows: Sequence[IdRow],
    files: Sequence[Mapping[str, Any]],
    recorded: Sequence[RecordedResult],
    name: str,
    mode: Mode,
) -> Comparison:
    """What each row is. `recorded` are the results that no row of the file names by its ticket."""
    if mode is Mode.AS_NEW or not rows:
        return Comparison(new=[row.key for row in rows])
    exported, own = [row for row in rows if row.exported], [row for row in rows if not row.exported]
    by_file: dict[int, list[RecordedResult]] = defaultdict(list)
    for each in recorded:
        if each.file is not None and each.row is not None:
            by_file[each.file].append(each)
    result = _with_versions(own, files, by_file, name, mode)
    pairs, rest = _matched(exported, recorded)
    _count_known(result, pairs)
    result.new += [row.key for row in rest]
    left = [row for row in rows if row.key in set(result.new)]
    _pair_changes(result, left)
    if mode is Mode.ASK:
        _refuse_ambiguous(result, rows, rest, files, name)
    elif mode is Mode.CORRECT and result.file is None:
        raise AmbiguousResultsError(f"{name}: no earlier version of this file was imported")
    elif mode is Mode.REPLICATES:
        result.new += [key for key, _ in result.changed]
        result.changed, result.missing = [], []
    return result


def _with_versions(
    rows: Sequence[IdRow],
    files: Sequence[Mapping[str, Any]],
    by_file: Mapping[int, list[RecordedResult]],
    name: str,
    mode: Mode,
) -> Comparison:
    """The comparison with the earlier versions; `missing` still includes what has changed."""
    result = Comparison()
    same = [each["number"] for each in files if _has_name(each, name, rows, by_file)]
    others = [number for number in by_file if number not in same]
    ordered = sorted(same, key=lambda number: (_likeness(rows, by_file[number]), number), reverse=True)
    if mode is Mode.CORRECT and not ordered:
        ordered = sorted(others, key=lambda number: (_likeness(rows, by_file[number]), number))[-1:]
    rest = list(rows)
    for number in ordered:
        if result.file is None and any(_likeness(rest, by_file[number])):
            result.file = number
            pairs, rest = _matched(rest, by_file[number])
            found = {each.sequence for _, each in pairs}
            result.missing = [r for r in by_file[number] if not r.removed and r.sequence not in found]
        else:
            pairs, rest = _matched(rest, by_file[number])
        _count_known(result, pairs)
    if mode is Mode.REPLICATES:
        pairs, rest = _matched(rest, [r for number in others for r in by_file[number]])
        _count_known(result, pairs)
    elif mode is Mode.ASK:
        elsewhere, _ = _matched(rest, [r for n in others for r in by_file[n] if not r.removed])
        _refuse_copy(elsewhere, rows, files, name)
    result.new = [row.key for row in rest]
    return result


def _has_name(
    file: Mapping[str, Any],
    name: str,
    rows: Sequence[IdRow],
    by_file: Mapping[int, list[RecordedResult]],
) -> bool:
    """Whether the file had this name; names were not always recorded, then half of its rows must agree."""
    if file["number"] not in by_file:
        return False
    if file["name"] is not None:
        return bool(file["name"] == name)
    return 2 * _likeness(rows, by_file[file["number"]])[0] >= len(rows)


def _likeness(rows: Sequence[IdRow], results: Sequence[RecordedResult]) -> tuple[int, int]:
    """How many rows equal a result, and how many candidates the rows share with the results."""
    pairs, _ = _matched(rows, results)
    return len(pairs), len({row.arm for row in rows} & {each.arm for each in results})


def _matched(
    rows: Sequence[IdRow], results: Iterable[RecordedResult]
) -> tuple[list[tuple[IdRow, RecordedResult]], list[IdRow]]:
    """Pairs of equal rows and results, each used once, and the other rows. Present values come first."""
    waiting: list[dict[tuple[int, Said], list[RecordedResult]]] = [
        defaultdict(list),
        defaultdict(list),
    ]
    for each in reversed(list(results)):
        if not each.removed:
            waiting[0][each.arm, each.said].append(each)
        for said in each.earlier:
            waiting[1][each.arm, said].append(each)
    used: set[int] = set()
    pairs, rest = [], list(rows)
    for index in waiting:
        left = []
        for row in rest:
            candidates = index[row.arm, row.said]
            while candidates and candidates[-1].sequence in used:
                candidates.pop()
            if candidates:
                used.add(candidates[-1].sequence)
                pairs.append((row, candidates.pop()))
            else:
                left.append(row)
        rest = left
    return pairs, rest


def _count_known(result: Comparison, pairs: Iterable[tuple[IdRow, RecordedResult]]) -> None:
    for row, found in pairs:
        (result.removed if found.removed else result.known).append(row.key)


def _pair_changes(result: Comparison, left: Sequence[IdRow]) -> None:
    """Move a new row and a missing result of the same candidate to `changed`."""
    gone: dict[int, list[RecordedResult]] = defaultdict(list)
    for each in reversed(result.missing):
        gone[each.arm].append(each)
    for row in left:
        if gone[row.arm]:
            result.changed.append((row.key, gone[row.arm].pop()))
    changed = {each.sequence for _, each in result.changed}
    keys = {key for key, _ in result.changed}
    result.new = [key for key in result.new if key not in keys]
    result.missing = [each for each in result.missing if each.sequence not in changed]


# ------------------------------------------------------------------ the questions


_CHOICES = (
    "use --correct if the file replaces its earlier version, --replicates if only the rows that differ are "
    "further measurements, or --as-new if every row is"
)


def _refuse_ambiguous(
    result: Comparison,
    rows: Sequence[IdRow],
    unknown: Sequence[IdRow],
    files: Sequence[Mapping[str, Any]],
    name: str,
) -> None:
    if unknown:
        raise AmbiguousResultsError(
            f"{name}: {counted(len(unknown), 'row')} of this export of the campaign, such as "
            f"{_shown(unknown[0].name, unknown[0].value)}, is not recorded as it stands there; nothing was "
            f"imported: use --replicates to record the rows that differ as further measurements"
        )
    if not result.changed and not (result.new and result.missing):
        return
    when = next(each["told_at"] for each in files if each["number"] == result.file)
    places = {row.key: row for row in rows}
    facts = [f"{counted(len(result.known), 'row')} known"]
    if result.changed:
        key, old = result.changed[0]
        facts.append(f"{len(result.changed)} changed (such as {_shown(old.name, old.value)}, "
                     f"now {_value(places[key].value)})")  # fmt: skip
    if result.new:
        first = places[result.new[0]]
        facts.append(f"{len(result.new)} new (such as {_shown(first.name, first.value)})")
    if result.missing:
        first_missing = result.missing[0]
        facts.append(
            f"{len(result.missing)} missing (such as {_shown(first_missing.name, first_missing.value)})"
        )
    raise AmbiguousResultsError(
        f"{name}: differs from the version imported at {when}: {', '.join(facts)}; "
        f"nothing was imported: {_CHOICES}"
    )


def _refuse_copy(
    elsewhere: Sequence[tuple[IdRow, RecordedResult]],
    rows: Sequence[IdRow],
    files: Sequence[Mapping[str, Any]],
    name: str,
) -> None:
    if not elsewhere or 2 * len(elsewhere) < len(rows):
        return
    number, _ = Counter(found.file for _, found in elsewhere).most_common(1)[0]
    file = next(each for each in files if each["number"] == number)
    raise AmbiguousResultsError(
        f"{name}: {len(elsewhere)} of {counted(len(rows), 'row')} equal results imported from "
        f"{file['name'] or 'an earlier file'} at {file['told_at']}; nothing was imported: if it is a copy, "
        f"there is nothing to do; use --as-new if every row is a further measurement, --replicates if only "
        f"the rows that differ are, or --correct if the file replaces that one"
    )


def _shown(name: str, value: float | None) -> str:
    return f"{name}: {_value(value)}"


def _value(value: float | None) -> str:
    return "failed" if value is None else f"{value:g}"
