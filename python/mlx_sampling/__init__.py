"""Turns a language model's logits into tokens on MLX.

Selection kernels (`argmax`, `greedy_argmax`), a seeded sampler for one request (`Sampler`), grammars that
its tokens must match (`Grammar`), and decode loops over mlx-lm models for both read-back routes
(`greedy_stream`, `sample_stream`), with exact speculative decoding on either (`speculative_stream`). Samplers
for mlx-lm's own loops are in `mlx_sampling.mlx_lm`, which alone needs mlx-lm.
"""

# ruff: noqa: E402
from mlx_sampling import _check

_check.load_ext(_check.load_mlx())

from mlx_sampling._ext import Mt19937
from mlx_sampling.batch import sample_batch
from mlx_sampling.drafters import LookupDrafter, ModelDrafter
from mlx_sampling.errors import (
    AcceptanceError,
    BatchError,
    CacheNotRestoredError,
    GrammarError,
    GrammarRefusalError,
    JsonSchemaError,
    MlxSamplingError,
    NonfiniteLogitsError,
)
from mlx_sampling.grammar import Grammar, GrammarMatcher, GrammarTriggers
from mlx_sampling.greedy import greedy_stream
from mlx_sampling.ops import NO_TOKEN, argmax, greedy_argmax
from mlx_sampling.params import SamplingParams
from mlx_sampling.routes import RouteDecision, choose_route, route_for
from mlx_sampling.sampled import sample_stream
from mlx_sampling.sampler import Sampler
from mlx_sampling.speculative import (
    SparseProbs,
    SpeculativeDecision,
    verify_draft,
    verify_draft_batch,
)
from mlx_sampling.speculative_decoding import speculative_stream
from mlx_sampling.vocabulary import Vocabulary

__all__ = [
    "NO_TOKEN",
    "AcceptanceError",
    "BatchError",
    "CacheNotRestoredError",
    "Grammar",
    "GrammarError",
    "GrammarMatcher",
    "GrammarRefusalError",
    "GrammarTriggers",
    "JsonSchemaError",
    "LookupDrafter",
    "MlxSamplingError",
    "ModelDrafter",
    "Mt19937",
    "NonfiniteLogitsError",
    "RouteDecision",
    "Sampler",
    "SamplingParams",
    "SparseProbs",
    "SpeculativeDecision",
    "Vocabulary",
    "argmax",
    "choose_route",
    "greedy_argmax",
    "greedy_stream",
    "route_for",
    "sample_batch",
    "sample_stream",
    "speculative_stream",
    "verify_draft",
    "verify_draft_batch",
]
