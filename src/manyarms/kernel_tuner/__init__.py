"""A strategy for Kernel Tuner: `kernel_tuner.tune_kernel(…, strategy=manyarms.kernel_tuner)`.

Install with `pip install 'manyarms[kernel-tuner]'`. The guide is docs/kernel-tuner.md.
"""

try:
    from manyarms.kernel_tuner.strategy import tune
except ModuleNotFoundError as problem:
    if problem.name is None or problem.name.partition(".")[0] != "kernel_tuner":
        raise
    from manyarms.errors import MissingExtraError

    raise MissingExtraError("kernel_tuner", "kernel-tuner", "manyarms.kernel_tuner") from None

__all__ = ["tune"]
