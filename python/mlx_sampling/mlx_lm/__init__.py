"""For mlx-lm: samplers for its own loops, and models for ours. Nothing else here imports mlx_lm."""

from mlx_lm.models.cache import make_prompt_cache

from mlx_sampling.mlx_lm.loading import load, load_gguf, load_packaged
from mlx_sampling.mlx_lm.samplers import (
    GrammarSampler,
    GreedySampler,
    LmSampler,
    SeededSampler,
    make_sampler,
)

__all__ = [
    "GrammarSampler",
    "GreedySampler",
    "LmSampler",
    "SeededSampler",
    "load",
    "load_gguf",
    "load_packaged",
    "make_prompt_cache",
    "make_sampler",
]
