"""A saved run goes on bit for bit, in this process and in another; a bad file is refused."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import manyarms as ma
from manyarms import errors
from manyarms.support import archive as archive_module
from tests.runs import Problem

POLICIES = {
    "bbkb": lambda p: ma.BBKB(**p.settings()),
    "bkb incremental": lambda p: ma.BKB(**p.settings(inducing="incremental", norm_bound="double")),
    "compacting": lambda p: ma.BKB(**p.settings(oversampling=0.2, compaction=1.3)),
    "eps-greedy": lambda p: ma.EpsGreedy(**p.settings()),
    "sum kernel": lambda p: ma.GPBUCB(
        **p.settings(kernel=2.0 * ma.RBF((0.3, 0.4)) + ma.Linear() * ma.Matern(1.0))
    ),
}

CONTINUE = """
import json, sys
import numpy as np
import manyarms as ma
from tests.runs import Problem
for path in sys.argv[1:]:
    problem, opt = Problem(6), ma.Optimizer.load(path)
    tickets = sorted(opt.pending)
    batch = ma.Batch(np.array([opt.pending[t] for t in tickets]), [], np.array(tickets), "", 1.0)
    opt.tell(batch, problem.rewards(batch))
    arms = problem.run(opt, 60)
    mean, std = opt.predict()
    print(json.dumps([arms, [x.hex() for x in mean.tolist()], [x.hex() for x in std.tolist()]]))
"""


def saved_and_continued(path: Path, name: str, storage: str) -> list:
    """Save a run in the middle of a batch; what it does afterwards."""
    problem = Problem(6)
    opt = ma.Optimizer(problem.pool, POLICIES[name](problem), seed=3, storage=storage)
    problem.run(opt, 70)
    batch = opt.ask(9)
    rewards = problem.rewards(batch)
    opt.tell(batch.tickets[:4], rewards[:4])
    opt.save(path)
    opt.tell(batch.tickets[4:], rewards[4:])
    arms = problem.run(opt, 60)
    mean, std = opt.predict()
    return [arms, [x.hex() for x in mean.tolist()], [x.hex() for x in std.tolist()]]


def test_saved_in_the_middle_of_a_batch_and_continued_in_another_process(tmp_path):
    """Every policy with both kinds of storage; one process continues all of them."""
    cases = [(name, storage) for name in POLICIES for storage in ("float64", "float32")]
    paths = [tmp_path / f"{name} {storage}.npz" for name, storage in cases]
    expected = [saved_and_continued(path, *case) for path, case in zip(paths, cases, strict=True)]
    done = subprocess.run(
        [sys.executable, "-c", CONTINUE, *map(str, paths)], capture_output=True, text=True, check=True
    )
    for case, line, arms_and_model in zip(cases, done.stdout.splitlines(), expected, strict=True):
        assert json.loads(line) == arms_and_model, case


def test_everything_visible_survives(tmp_path):
    problem = Problem(2)
    pool = ma.Pool(problem.pool.features, ids=[f"mol-{i}" for i in range(300)])
    opt = ma.Optimizer(pool, ma.BBKB(**problem.settings()), seed=1, budget=90, repeats=4, max_failures=3)
    problem.run(opt, 40)
    opt.tell(arms=[4, 4], rewards=[0.1, 0.2])
    lost, failed = opt.ask(2), opt.ask(2)
    opt.forget(lost)
    opt.tell(failed, failed=True)
    opt.save(tmp_path / "run")
    again = ma.Optimizer.load(tmp_path / "run")
    assert again.policy == opt.policy
    assert (again.budget, again.repeats, again.max_failures, again.seed) == (90, 4, 3, 1)
    assert again.best() == opt.best()
    assert again.pool.ids == pool.ids
    assert again.pending == opt.pending
    assert again.history.squares.tolist() == opt.history.squares.tolist()
    assert [str(record) for record in again.trace] == [str(record) for record in opt.trace]
    with pytest.raises(errors.AlreadyToldError, match="forget"):
        again.tell(lost, [1.0, 1.0])


def test_a_run_that_has_not_begun_can_be_saved(tmp_path):
    problem = Problem(0)
    opt = ma.Optimizer(problem.pool, ma.BBKB(**problem.settings()), seed=5)
    opt.save(tmp_path / "run")
    again = ma.Optimizer.load(tmp_path / "run")
    assert problem.run(again, 30) == problem.run(opt, 30)


def saved(tmp_path) -> Path:
    problem = Problem(0)
    opt = ma.Optimizer(problem.pool, ma.BBKB(**problem.settings()), seed=0)
    problem.run(opt, 20)
    opt.save(tmp_path / "run")
    return tmp_path / "run"


def test_damage_is_recognised(tmp_path):
    path = saved(tmp_path)
    data, refused = path.read_bytes(), 0
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(data), 60).tolist():
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :])
        try:
            ma.Optimizer.load(path)
        except errors.CheckpointError:
            refused += 1
    # A byte may also fall on a name, a date or a flag of the archive that nobody reads.
    assert refused >= 55, refused
    for length in (0, 10, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(errors.CheckpointError):
            ma.Optimizer.load(path)


def test_damaged_numbers_never_load_as_other_numbers(tmp_path):
    path = saved(tmp_path)
    data = path.read_bytes()
    reference = ma.Optimizer.load(path).predict()[0].tolist()
    for place in range(200, len(data), len(data) // 50):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :])
        try:
            assert ma.Optimizer.load(path).predict()[0].tolist() == reference
        except errors.CheckpointError:
            continue


def rewritten(path: Path, change, sealed: bool = True) -> None:
    """Change the contents of a saved run; `sealed`: with a digest of the changed contents."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files}
    digest = arrays.pop("digest")
    manifest = json.loads(arrays["manifest"].tobytes())
    change(manifest, arrays)
    arrays["manifest"] = np.frombuffer(json.dumps(manifest).encode(), dtype=np.uint8)
    if sealed:
        digest = np.frombuffer(archive_module._digest(arrays), dtype=np.uint8)
    with open(path, "wb") as stream:
        np.savez(stream, **arrays, digest=digest)


@pytest.mark.parametrize(
    "change",
    [
        lambda m, a: m["state"].update(n_batches=7),
        lambda m, a: m["state"].update(belief=None),
        lambda m, a: a["state.history.sums"].fill(1.0),
        lambda m, a: a.update({"state.history.counts": a["state.history.counts"][:-1]}),
        lambda m, a: m["settings"].update(seed=1),
    ],
    ids=["counter", "belief", "rewards", "shorter", "seed"],
)
def test_a_run_that_was_changed_by_hand_is_refused_at_loading(tmp_path, change):
    path = saved(tmp_path)
    rewritten(path, change, sealed=False)
    with pytest.raises(errors.CheckpointError, match="do not match their digest"):
        ma.Optimizer.load(path)


def test_a_run_saved_before_there_were_digests_is_read(tmp_path):
    path = saved(tmp_path)
    expected = ma.Optimizer.load(path).ask().arms.tolist()
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files if name != "digest"}
    manifest = json.loads(arrays["manifest"].tobytes()) | {"version": 3}
    arrays["manifest"] = np.frombuffer(json.dumps(manifest).encode(), dtype=np.uint8)
    with open(path, "wb") as stream:
        np.savez(stream, **arrays)
    assert ma.Optimizer.load(path).ask().arms.tolist() == expected


def test_only_a_saved_run_is_replaced_by_a_saved_run(tmp_path):
    path = saved(tmp_path)
    opt = ma.Optimizer.load(path)
    opt.save(path)
    (tmp_path / "pool.csv").write_text("name,x\na,1\n")
    sqlite3.connect(tmp_path / "c.db").execute("CREATE TABLE results (x)").connection.close()
    for name in ("pool.csv", "c.db"):
        before = (tmp_path / name).read_bytes()
        with pytest.raises(errors.CheckpointError, match=f"{name}: .*not a saved run"):
            opt.save(tmp_path / name)
        assert (tmp_path / name).read_bytes() == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m, a: m.update(version=99), "version 99.*newer release"),
        (
            lambda m, a: m.update(version=2),
            "version 2, this package reads version 4: load it with the release",
        ),
        (lambda m, a: m.update(format="something"), "not a saved run"),
        (lambda m, a: m["state"].pop("tickets"), "damaged"),
        (lambda m, a: a.pop("state.belief.posterior.mean"), "damaged"),
        (lambda m, a: m["policy"].update(name="Unknown"), "policies"),
        (lambda m, a: m["policy"].update(kernel={"kernel": "custom", "is": "Mine()"}), "Mine"),
        (lambda m, a: m["policy"].update(surprise=1), "damaged"),
    ],
)
def test_wrong_contents_are_refused(tmp_path, change, words):
    path = saved(tmp_path)
    rewritten(path, change)
    with pytest.raises(errors.CheckpointError, match=words):
        ma.Optimizer.load(path)


def test_another_pool_or_no_file_is_refused(tmp_path):
    path = saved(tmp_path)
    with pytest.raises(errors.CheckpointError, match="another pool"):
        ma.Optimizer.load(path, ma.Pool(np.zeros((300, 2))))
    with pytest.raises(errors.CheckpointError, match="no such file"):
        ma.Optimizer.load(tmp_path / "nothing")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(errors.CheckpointError):
        ma.Optimizer.load(tmp_path / "text")


def test_kernels_and_objects_of_ones_own_are_given_to_load(tmp_path):
    class Same:
        def matrix(self, X, Y):
            return (np.asarray(X)[:, None] == np.asarray(Y)[None, :]).astype(float)

        def diag(self, X):
            return np.ones(len(X))

    pool = ma.Pool([("a", i) for i in range(20)])
    policy = ma.BKB(kernel=Same())
    opt = ma.Optimizer(pool, policy, seed=0)
    for _ in range(10):
        batch = opt.ask()
        opt.tell(batch, np.ones(len(batch)))
    opt.save(tmp_path / "run")
    with pytest.raises(errors.CheckpointError, match="pool"):
        ma.Optimizer.load(tmp_path / "run")
    with pytest.raises(errors.CheckpointError, match="policy"):
        ma.Optimizer.load(tmp_path / "run", pool)
    again = ma.Optimizer.load(tmp_path / "run", pool, policy)
    assert again.ask().arms.tolist() == opt.ask().arms.tolist()


def test_another_policy_is_refused_and_a_raised_oversampling_kept(tmp_path):
    problem = Problem(0)
    policy = ma.BBKB(**problem.settings())
    opt = ma.Optimizer(problem.pool, policy, seed=0)
    problem.run(opt, 20)
    opt.extend_horizon(50.0)
    opt.save(tmp_path / "run")
    assert ma.Optimizer.load(tmp_path / "run", policy=policy).policy.oversampling == 50.0
    for other in (ma.GPUCB(**problem.settings()), ma.BBKB(**problem.settings(ridge=5.0))):
        with pytest.raises(errors.CheckpointError, match="saved policy has"):
            ma.Optimizer.load(tmp_path / "run", policy=other)


def test_a_failed_save_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = saved(tmp_path)
    before = path.read_bytes()
    opt = ma.Optimizer.load(path)
    monkeypatch.setattr(np, "savez", lambda *args, **kwargs: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(errors.CheckpointError, match="disk full"):
        opt.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_the_file_is_an_open_format(tmp_path):
    path = saved(tmp_path)
    with zipfile.ZipFile(path) as archive:
        assert all(name.endswith(".npy") for name in archive.namelist())
    with np.load(path, allow_pickle=False) as archive:
        assert json.loads(archive["manifest"].tobytes())["format"] == "manyarms run"


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    opt = ma.Optimizer(ma.Pool(np.eye(3)), ma.BKB(kernel=ma.RBF()))
    (tmp_path / "folder").mkdir()
    for place in (tmp_path / "missing" / "run.npz", tmp_path / "folder"):
        with pytest.raises(errors.CheckpointError, match="cannot be written"):
            opt.save(place)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"], "nothing half-written stays"


def test_numbers_as_ids_come_back(tmp_path):
    opt = ma.Optimizer(ma.Pool(np.eye(3), ids=[0.1, 2.5, 1e-30]), ma.BKB(kernel=ma.RBF()))
    opt.save(tmp_path / "run.npz")
    assert ma.Optimizer.load(tmp_path / "run.npz").pool.ids == [0.1, 2.5, 1e-30]
