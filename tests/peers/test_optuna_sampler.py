"""The sampler searches well, counts what others are trying, and continues from any storage."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState
from scipy.stats import norm

import manyarms as ma
from manyarms.optuna import ManyArmsSampler
from manyarms.optuna.space import Space
from manyarms.optuna.study_run import StudyRun

optuna.logging.set_verbosity(optuna.logging.WARNING)
SPACE = {
    "kind": CategoricalDistribution(["a", "b", None]),
    "x": IntDistribution(0, 9),
    "y": FloatDistribution(-1.0, 1.0, step=0.1),
}


def value(params) -> float:
    return (params["x"] - 3) ** 2 + 4 * (params["y"] - 0.3) ** 2 + (params["kind"] != "b")


def objective(trial) -> float:
    kind = trial.suggest_categorical("kind", ["a", "b", None])
    x, y = trial.suggest_int("x", 0, 9), trial.suggest_float("y", -1.0, 1.0, step=0.1)
    return value({"kind": kind, "x": x, "y": y})


def study(**settings) -> optuna.Study:
    return optuna.create_study(sampler=ManyArmsSampler(seed=0, **settings))


# ---------------------------------------------------------------------- the space


def test_a_space_is_enumerated_and_every_point_found_again() -> None:
    space = Space(SPACE, pool_size=10_000, seed=0)
    assert space.enumerated
    assert len(space) == 3 * 10 * 21
    assert all(space.arm_of(space[arm]) == arm for arm in range(len(space)))
    assert space.features().shape == (630, 3)


def test_steps_of_floats_do_not_depend_on_rounding() -> None:
    space = Space({"y": FloatDistribution(-10.2, 10.2, step=0.1)}, pool_size=1000, seed=0)
    assert len(space) == 205
    assert all(-10.2 <= space[arm]["y"] <= 10.2 for arm in range(205))
    assert space.arm_of({"y": -10.2 + 3 * 0.1}) == space.arm_of({"y": -9.9}) == 3


@pytest.mark.parametrize("log", [False, True])
def test_a_space_that_cannot_be_enumerated_is_sampled_evenly(log: bool) -> None:
    space = Space({"r": FloatDistribution(1e-4, 1.0, log=log)}, pool_size=100, seed=0)
    assert not space.enumerated
    assert len(space) == 100
    share = np.array([space[arm]["r"] for arm in range(100)])
    share = np.sort(np.log(share) / np.log(1e-4)) if log else np.sort(share)
    assert np.abs(share - (np.arange(100) + 0.5) / 100).max() < 0.01  # one point in each hundredth


def test_a_large_space_is_sampled_without_repetition() -> None:
    space = Space({"n": IntDistribution(1, 3000, log=True), "m": IntDistribution(0, 99)}, 2000, seed=0)
    assert 1500 < len(space) <= 2000
    assert len({space.key(space[arm]) for arm in range(len(space))}) == len(space)


# ---------------------------------------------------------------------- searching


def test_the_best_of_630_points_is_found_in_60_trials() -> None:
    found = study()
    found.optimize(objective, n_trials=60)
    assert found.best_params["kind"] == "b"
    assert found.best_params["x"] == 3
    assert found.best_value < 0.05


def test_maximising() -> None:
    found = optuna.create_study(direction="maximize", sampler=ManyArmsSampler(seed=0))
    found.optimize(lambda trial: -objective(trial), n_trials=60)
    assert found.best_value > -0.05


def test_a_given_space_is_used_from_the_first_trial_and_no_point_twice() -> None:
    found = study(search_space=SPACE)
    found.optimize(objective, n_trials=30)
    assert all("manyarms:params" in trial.system_attrs for trial in found.trials)
    assert len({tuple(trial.params.values()) for trial in found.trials}) == 30


def test_the_same_seed_gives_the_same_trials() -> None:
    runs = [study() for _ in range(2)]
    for run in runs:
        run.optimize(objective, n_trials=15)
    assert [t.params for t in runs[0].trials] == [t.params for t in runs[1].trials]


def test_a_small_space_may_be_searched_beyond_its_size() -> None:
    found = study()
    found.optimize(lambda trial: trial.suggest_int("x", 0, 3), n_trials=9)
    assert {trial.params["x"] for trial in found.trials} == {0, 1, 2, 3}


def test_constraints_are_learned() -> None:
    """The best point without the constraint is x = 3; x must be at least 6."""

    def constraint(trial) -> tuple[float]:
        return (6.0 - trial.params["x"],)

    found = study(constraints_func=constraint, search_space=SPACE)
    found.optimize(objective, n_trials=45)
    feasible = [trial.params["x"] >= 6 for trial in found.trials]
    assert sum(feasible[15:]) >= 24, feasible
    best = min(trial.value for trial in found.trials if trial.params["x"] >= 6)
    assert best == pytest.approx(9.0, abs=0.1)


# ---------------------------------------------------------------------- trials of others, and failures


def test_running_trials_count_as_pending() -> None:
    found = study(search_space=SPACE)
    running = [found.ask(SPACE) for _ in range(20)]
    assert len({tuple(trial.params.values()) for trial in running}) == 20
    for trial in running:
        found.tell(trial, value(trial.params))
    assert found.ask(SPACE).params not in [trial.params for trial in running]


def test_running_trials_of_another_process_count_as_pending(tmp_path: Path) -> None:
    """Two samplers on one database: each sees what the other has proposed, before it is suggested."""
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    optuna.create_study(storage=storage, study_name="s")
    first, second = (
        optuna.load_study(
            study_name="s", storage=storage, sampler=ManyArmsSampler(seed=0, search_space=SPACE)
        )
        for _ in range(2)
    )
    trial = first.ask()
    proposed = trial.relative_params  # proposed, and not suggested yet
    other = second.ask(SPACE)
    assert other.params != proposed
    (run,) = second.sampler._study(second).runs.values()
    assert sorted(run.space[arm] == proposed for arm in run.optimizer.pending.values()) == [False, True]


def test_a_new_process_continues_from_the_storage(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    found = optuna.create_study(storage=storage, study_name="s", sampler=ManyArmsSampler(seed=0))
    found.optimize(objective, n_trials=25)
    again = optuna.load_study(study_name="s", storage=storage, sampler=ManyArmsSampler(seed=1))
    again.optimize(objective, n_trials=35)
    (run,) = again.sampler._study(again).runs.values()
    assert run.optimizer.history.pulls >= 59
    assert again.best_value < 0.05


def test_failed_and_pruned_trials_are_not_repeated() -> None:
    found = study(search_space=SPACE)

    def bad(trial) -> float:
        objective(trial)
        if trial.number % 3 == 0:
            raise RuntimeError("a trial that fails")
        if trial.number % 3 == 1:
            raise optuna.TrialPruned
        return float("inf") if trial.number % 2 else objective(trial)

    found.optimize(bad, n_trials=24, catch=(RuntimeError,))
    assert len({tuple(trial.params.values()) for trial in found.trials}) == 24
    (run,) = found.sampler._study(found).runs.values()
    assert run.optimizer.history.pulls == sum(
        trial.state == TrialState.COMPLETE and np.isfinite(trial.value) for trial in found.trials[:-1]
    )


def test_points_that_others_chose_are_learned_from() -> None:
    """Enqueued points and those of an earlier sampler, also where the sample has no such point."""
    space = {"x": FloatDistribution(-5.0, 5.0), "y": FloatDistribution(-5.0, 5.0)}
    found = study(search_space=space, pool_size=50)
    found.add_trial(optuna.create_trial(params={"x": 1.0, "y": 2.0}, distributions=space, value=-7.0))
    found.enqueue_trial({"x": 1.5, "y": 2.5})
    found.optimize(lambda t: t.suggest_float("x", -5, 5) ** 2 + t.suggest_float("y", -5, 5) ** 2, n_trials=3)
    assert found.trials[1].params == {"x": 1.5, "y": 2.5}
    (run,) = found.sampler._study(found).runs.values()
    assert len(run.space) == 52
    assert run.space[run.optimizer.best().arm] == {"x": 1.0, "y": 2.0}
    assert [run.space[arm] for arm in run.optimizer.pending.values()] == [found.trials[-1].params]


def test_threads_share_a_sampler() -> None:
    found = study(search_space=SPACE)
    found.optimize(objective, n_trials=24, n_jobs=4)
    assert len(found.trials) == 24
    assert len({tuple(trial.params.values()) for trial in found.trials}) == 24
    assert threading.active_count() < 20


def test_one_sampler_serves_several_studies() -> None:
    sampler = ManyArmsSampler(seed=0, search_space=SPACE)
    low, high = (
        optuna.create_study(sampler=sampler),
        optuna.create_study(sampler=sampler, direction="maximize"),
    )
    for _ in range(15):
        low.optimize(objective, n_trials=1)
        high.optimize(objective, n_trials=1)
    assert low.best_value < 5
    assert high.best_value > 30


def test_a_sampler_can_be_pickled_in_the_middle_of_a_study() -> None:
    found = study(search_space=SPACE)
    found.optimize(objective, n_trials=10)
    found.sampler = pickle.loads(pickle.dumps(found.sampler))
    found.optimize(objective, n_trials=10)
    assert len({tuple(trial.params.values()) for trial in found.trials}) == 20


@pytest.mark.parametrize(
    ("setting", "bad"),
    [
        ("pool_size", 0), ("seed", -1), ("pool_size", 1.5), ("policy", "bbkb"), ("search_space", {"a": 1}),
        ("search_space", ["a"]), ("constraints_func", 3),
    ],
)  # fmt: skip
def test_what_is_refused(setting: str, bad: object) -> None:
    with pytest.raises(ma.errors.InvalidParameterError, match=setting):
        ManyArmsSampler(**{setting: bad})


# ---------------------------------------------------------------------- the choice


def _proposals(policy: ma.Policy | None, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """After the initial design: the arm proposed, and the untried one with the highest improvement."""
    found = []
    propose = StudyRun.propose

    def watched(run: StudyRun, number: int) -> dict[str, object] | None:
        seen = run.optimizer.history.arms
        params = propose(run, number)
        if len(seen) >= 20 and params is not None:
            mean, std = run.optimizer.predict()
            z = (mean[seen].min() - mean) / std
            improvement = std * (
                z * norm.cdf(z) + norm.pdf(z)
            )  # E max(best − f, 0), for a study that minimises
            improvement[seen] = -np.inf
            found.append((run.space.arm_of(params), int(improvement.argmax())))
        return params

    monkeypatch.setattr(StudyRun, "propose", watched)
    study(policy=policy, search_space=SPACE).optimize(objective, n_trials=26)
    return found


def test_the_default_maximises_the_expected_improvement(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _proposals(None, monkeypatch)
    assert len(found) == 6
    assert all(proposed == best for proposed, best in found)


def test_a_policy_of_the_user_chooses_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    found = _proposals(ma.BBKB(local=True, width=6.0), monkeypatch)
    assert len(found) == 6
    assert any(proposed != best for proposed, best in found)
