"""SMILES columns: fingerprints once, kept beside the pool, compared by Tanimoto."""

from __future__ import annotations

import numpy as np
import pytest

import manyarms as ma
from manyarms import errors
from manyarms.campaigns.campaign import Campaign
from manyarms.campaigns.pool_file import cache
from manyarms.campaigns.pool_file import fingerprints as module
from manyarms.campaigns.pool_file.source import Source
from manyarms.campaigns.settings import Request
from manyarms.campaigns.status import status
from tests.campaigns.support import cli

ALCOHOLS = ["C" * n + "O" for n in range(1, 25)]
RINGS = ["c1ccccc1" + "C" * n for n in range(24)]


@pytest.fixture
def pool(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "molecules.csv"
    lines = [f"m{i},{text},{len(text)}" for i, text in enumerate(ALCOHOLS + RINGS)]
    path.write_text("\n".join(["code,smiles,length", *lines]) + "\n")
    return path


def test_fingerprints_are_those_of_rdkit(pool):
    from rdkit import Chem, DataStructs
    from rdkit.Chem import rdFingerprintGenerator

    features = Source(pool, "code", smiles="smiles").read().features
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=1024)
    plain = [generator.GetFingerprint(Chem.MolFromSmiles(text)) for text in (ALCOHOLS + RINGS)[20:28]]
    expected = [[DataStructs.TanimotoSimilarity(a, b) for b in plain] for a in plain]
    np.testing.assert_allclose(ma.Tanimoto().matrix(features[20:28], features[20:28]), expected)


def test_they_are_computed_once_and_anew_when_the_file_or_the_cache_changes(pool, monkeypatch):
    calls = []
    computed = module.computed_fingerprints
    monkeypatch.setattr(module, "computed_fingerprints", lambda *a: calls.append(1) or computed(*a))
    source = Source(pool, "code", smiles="smiles")
    first = np.array(source.read().features)
    assert np.array_equal(source.read().features, first)
    assert len(calls) == 1
    (kept,) = pool.parent.glob(".molecules.csv.*.npy")
    kept.write_bytes(b"damaged")
    assert np.array_equal(source.read().features, first)
    assert len(calls) == 2
    pool.write_text(pool.read_text() + "new,CCN,3\n")
    assert len(source.read()) == len(first) + 1
    assert len(calls) == 3


def test_columns_of_nearly_the_same_name_are_kept_apart_and_lost_rows_computed_anew(pool):
    long = "s" * 50
    rows = "".join(f"m{i},C,CC,{'C' * 3},{'C' * 4}\n" for i in range(5))
    pool.write_text(f"code,s 1,s_1,{long}1,{long}2\n{rows}")
    read = {name: Source(pool, "code", smiles=name).read() for name in ("s 1", "s_1", f"{long}1", f"{long}2")}
    assert len({features.features[0].tobytes() for features in read.values()}) == 4
    source = Source(pool, "code", smiles="s 1").described(read["s 1"])
    for kept in pool.parent.glob(".molecules.csv.*.npy"):
        np.save(kept, np.load(kept)[:3])
    assert len(source.read()) == 5


def test_a_folder_that_cannot_be_written_to_uses_the_user_s_cache(pool, tmp_path, monkeypatch):
    def refuse(path, mode="w"):
        if path.parent == pool.parent:
            raise errors.OutputError("read-only")
        return replacing(path, mode)

    replacing = cache.replacing
    monkeypatch.setattr(cache, "replacing", refuse)
    Source(pool, "code", smiles="smiles").read()
    assert len(list((tmp_path / "cache" / "manyarms").iterdir())) == 1


GIVEN = {"kernel": "tanimoto", "noise": 0.1, "signal": 1.0, "mean": 0.0}


@pytest.mark.parametrize(("settings", "step"), [(GIVEN, 9), ({}, 2)], ids=["given", "learned"])
def test_a_campaign_on_molecules_learns_what_they_share(pool, tmp_path, settings, step):
    request = Request(str(pool), id="code", smiles="smiles", **settings)
    with Campaign.new(tmp_path / "c.db", request) as campaign:
        told = "".join(f"m{i},{1.0 if i >= len(ALCOHOLS) else 0.0}\n" for i in range(4, 48, step))
        campaign.tell_bytes(f"code,value\n{told}".encode(), "r.csv")
        issued = campaign.ask(6)
        found = status(campaign)
        kernel = found["kernel"] if settings else found["model"]["kernel"]["of"]
        assert kernel == {"kernel": "Tanimoto"}
        rings = [each for each in issued if each.columns["smiles"].startswith("c1")]
        assert len(rings) >= 4
        assert issued[0].columns["length"] == str(len(issued[0].columns["smiles"]))


def test_columns_of_bits(tmp_path):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (30, 40))
    (tmp_path / "bits.tsv").write_text(
        "code\tbits\n" + "".join(f"b{i}\t{''.join(map(str, row))}\n" for i, row in enumerate(bits.tolist()))
    )
    pool = Source(tmp_path / "bits.tsv", "code", bits="bits").read()
    assert np.array_equal(np.unpackbits(pool.features, axis=1)[:, :40], bits)
    done = cli("new", tmp_path / "c.db", "--pool", tmp_path / "bits.tsv", "--id", "code", "--bits", "bits")
    assert done.code == 0, done.err
    assert cli("ask", tmp_path / "c.db", "-n", 3, "--json").code == 0
