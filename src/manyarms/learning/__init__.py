"""Learn what the papers assume to be known: the scales of features and rewards, kernel, noise and mean."""

from manyarms.learning.initial_design import design_size, initial_design
from manyarms.learning.model import LearnedModel, learn, model_from, should_refit
from manyarms.learning.prepare_pool import prepare
from manyarms.learning.prepared_pool import Prepared
from manyarms.learning.reward_transforms import Targets, Transform, fit_transforms

__all__ = [
    "LearnedModel",
    "Prepared",
    "Targets",
    "Transform",
    "design_size",
    "fit_transforms",
    "initial_design",
    "learn",
    "model_from",
    "prepare",
    "should_refit",
]
