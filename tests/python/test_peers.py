"""What the README says of mlx-lm's own sampler, so that the table stays true."""

import mlx.core as mx
import pytest

sample_utils = pytest.importorskip("mlx_lm.sample_utils")


def test_mlx_lm_hands_out_a_token_for_a_nan_row():
    row = mx.array([[1.0, float("nan"), 3.0, 2.0]])
    logprobs = row - mx.logsumexp(row, axis=-1, keepdims=True)
    token = sample_utils.make_sampler()(logprobs)
    assert 0 <= token.item() < 4


def test_mlx_lm_has_no_seed():
    with pytest.raises(TypeError, match="seed"):
        sample_utils.make_sampler(temp=1.0, seed=1)
