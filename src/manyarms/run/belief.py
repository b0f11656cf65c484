"""What a run believes at a time, as one value that is replaced when the model is learned again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from numpy.typing import DTypeLike

from manyarms.choice.prior_draws import PriorSampler
from manyarms.learning import LearnedModel
from manyarms.pool.pool import Pool
from manyarms.posterior.history import History
from manyarms.run.feedback import Learner
from manyarms.run.surrogate import Modelled
from manyarms.support.random_streams import Streams


@dataclass(frozen=True)
class Mind:
    """What a run believes: the model, the learner with its posterior, and the prior that draws start from."""

    modelled: Modelled
    learner: Learner
    prior: PriorSampler | None

    @classmethod
    def of(cls, modelled: Modelled, streams: Streams, storage: DTypeLike) -> Mind:
        """Before any result. What is drawn here is drawn again when a saved run is read."""
        policy, pool, once = modelled.policy, modelled.seen_pool, Streams(streams.seed)
        learner = Learner(policy, policy.posterior(pool, once("features"), storage), streams)
        return cls(modelled, learner, policy.prior(pool, once("prior"), storage))

    def with_model(self, model: LearnedModel, streams: Streams) -> Mind:
        """Before any result, under a model learned elsewhere."""
        return Mind.of(replace(self.modelled, model=model), streams, self.learner.posterior.storage)

    def prepared_anew(self, pool: Pool, history: History, streams: Streams) -> Mind:
        """On a pool whose features are looked at afresh; nothing but the results is kept."""
        modelled = Modelled.start(pool, self.modelled.asked, streams.at("learning", 0))
        if not len(history):
            return Mind.of(modelled, streams, self.learner.posterior.storage)
        return replace(self, modelled=modelled).relearned(history, streams)

    def relearned(self, history: History, streams: Streams) -> Mind:
        """With a model learned from everything told, and a posterior under it."""
        rng = streams.at("learning", history.pulls)
        mind = Mind.of(self.modelled.relearned(history, rng), streams, self.learner.posterior.storage)
        mind.learner.memory = replace(mind.learner.memory, norm_bound=self.learner.memory.norm_bound)
        mind.learner.start_from(mind.modelled.targets(history), self.learner.posterior.inducing, rng)
        return mind
