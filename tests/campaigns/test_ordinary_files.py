"""Ordinary files are read right or refused with the reason; the list is in `ordinary_files.py`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import openpyxl
import pytest

from manyarms import errors
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.queries import history
from manyarms.campaigns.settings import Request, Settings
from tests.campaigns.ordinary_files import CASES, GERMAN, IDS, TEXT, A, Case
from tests.campaigns.support import cli


def test_there_are_at_least_sixty_of_them() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 60


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_an_ordinary_file_is_read_right_or_refused_with_the_reason(tmp_path: Path, case: Case) -> None:
    request = Request(pool=str(case.write(tmp_path)), id=case.id, **case.options)
    if case.refused:
        with pytest.raises(errors.ManyarmsError) as caught:
            request.source().understood(request.form())
        assert case.refused in str(caught.value)
        assert case.file in str(caught.value)
        return
    assert case.features is not None
    source, pool = request.source().understood(request.form())
    assert pool.names is not None
    assert sorted(pool.names) == sorted(case.features)
    for name, values in zip(pool.names, pool.features.T, strict=True):
        assert values.tolist() == pytest.approx(case.features[name]), name
    assert (pool.ids if case.ids else []) == case.ids
    stored = type(source).from_plain(json.loads(json.dumps(source.plain())))
    again = stored.read()
    assert stored == source
    np.testing.assert_array_equal(again.features, pool.features)
    assert (again.ids, again.names) == (pool.ids, pool.names)


# ------------------------------------------------------------------ what is said, and what comes back


def test_new_says_what_it_understood_before_anything_else(tmp_path: Path) -> None:
    rows = [line.split(",") for line in TEXT.splitlines()]
    extra = ["note", "", "NA", "n3", "n4", "n5", "n6"]
    text = "\n".join(";".join([*row, more]) for row, more in zip(rows, extra, strict=True))
    (tmp_path / "pool.csv").write_text(text.replace(".", ","))
    done = cli("new", tmp_path / "c.db", "--pool", tmp_path / "pool.csv", "--id", "name")
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert lines[0] == "Table pool.csv, separated by semicolons, decimal comma, UTF-8:"
    said = {line.split()[0]: " ".join(line.split()[1:]) for line in lines[3:8]}
    assert said["name"] == "id 6 candidates"
    assert said["a"] == "number -3 to 6"
    assert said["kind"] == "category 2 kinds: blue, red"
    assert said["note"] == "left out 4 different texts: a category has at most half as many as there are rows"
    assert lines[8].startswith("Created campaign")
    found = cli("new", tmp_path / "d.db", "--pool", tmp_path / "pool.csv", "--id", "name", "--json").json
    assert [each["role"] for each in found["columns"]] == ["id", "number", "number", "category", "left out"]


def test_columns_are_printed_before_a_setting_is_refused(tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_text(TEXT)
    done = cli("new", tmp_path / "c.db", "--pool", tmp_path / "pool.csv", "--id", "name", "--kernel", "x")
    assert done.code == 3
    assert done.out.startswith("Table pool.csv")


@pytest.mark.parametrize("ending", ["csv", "tsv", "xlsx"])
def test_a_batch_goes_out_and_comes_back_in_every_format(tmp_path: Path, ending: str) -> None:
    (tmp_path / "pool.csv").write_text(GERMAN.replace("p1", "=1+1"))
    place, batch = tmp_path / "c.db", tmp_path / f"b.{ending}"
    assert cli("new", place, "--pool", tmp_path / "pool.csv", "--id", "name").code == 0
    assert cli("ask", place, "-n", "6", "--out", batch).code == 0
    if ending == "xlsx":
        book = openpyxl.load_workbook(batch)
        sheet = book.active
        header = [cell.value for cell in sheet[1]]
        for row in range(2, 8):
            sheet.cell(row, header.index("value") + 1).value = row / 4
        assert {sheet.cell(row, 2).data_type for row in range(2, 8)} == {"s"}
        book.save(batch)
    else:
        sign = "\t" if ending == "tsv" else ","
        first, *rest = batch.read_text().splitlines()
        filled = [f"{line}{i / 4}" for i, line in enumerate(rest, 2)]
        batch.write_text("\n".join([first, *filled]))
        assert sign in first
    assert cli("tell", place, batch, "--json").json["new"] == 6
    with Campaign(place) as campaign:
        assert sorted(each.value for each in history(campaign)) == [0.5, 0.75, 1.0, 1.25, 1.5, 1.75]
        assert sorted(each.id for each in history(campaign)) == sorted(["=1+1", *IDS[1:]])
    out = tmp_path / f"all.{ending}"
    assert cli("export", place, out, "--json").json["rows"] == 6


RESULTS = {
    "Value": ("name,Value\np1,1.5\n", 1.5),
    "VALUE": ("name,VALUE\np1,1.5\n", 1.5),
    "result": ("name,result\np1,1.5\n", 1.5),
    "value beside result": ("name,result,value\np1,9,1.5\n", 1.5),
    "a German file": ("name;value\r\np1;1,5\r\n", 1.5),
    "UTF-16": ("name\tvalue\np1\t1.5\n".encode("utf-16"), 1.5),
    "comments": ("# Monday\nname,value\np1,1.5\n", 1.5),
    "two spellings": ("name,Value,VALUE\np1,1,2\n", "may be in 'Value' or 'VALUE'"),
    "a column of the pool": ("name,Result\np1,1\n", "no column 'value'"),
    "thousands or a decimal": ("name;value\np1;1,234\n", "'1,234' is ambiguous"),
    "thousands": ('name,value\np1,"1,234.5"\n', "'1,234.5' is not a number"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_files_of_ordinary_people(tmp_path: Path, name: str) -> None:
    content, expected = RESULTS[name]
    (tmp_path / "pool.csv").write_text(TEXT.replace("kind", "Result"))
    data = content.encode() if isinstance(content, str) else content
    with Campaign.new(tmp_path / "c.db", Request(pool=str(tmp_path / "pool.csv"), id="name")) as campaign:
        if isinstance(expected, str):
            with pytest.raises(errors.ResultsFileError, match=expected):
                campaign.tell_bytes(data, "r.csv")
            assert history(campaign) == []
        else:
            assert campaign.tell_bytes(data, "r.csv").new == 1
            assert [each.value for each in history(campaign)] == [expected]


def test_programs_get_numbers_with_a_decimal_point(tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_text(GERMAN)
    with Campaign.new(tmp_path / "c.db", Request(pool=str(tmp_path / "pool.csv"), id="name")) as campaign:
        assert sorted(float(each.columns["a"]) for each in campaign.ask(6)) == sorted(A)
        assert Settings.from_json(campaign.settings.to_json()) == campaign.settings
