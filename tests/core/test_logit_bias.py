"""logit_bias as a stage, and `excluded`, which is built on it."""

import math

import numpy as np
import pytest

from mlx_sampling import NonfiniteLogitsError, Sampler
from mlx_sampling._ext import Chain, Dist, Greedy, LogitBias, RequestState, Temperature

ROW = np.array([0.5, 2.0, -1.0, 1.5], dtype=np.float32)


def candidates(*stages):
    state = RequestState(1)
    state.set_row(ROW)
    state.finish_row()
    Chain(list(stages)).sample(state)
    return state.candidates()


def test_adds_in_float32_and_keeps_order():
    ids, logits, _ = candidates(LogitBias([(2, 0.1), (0, -0.25)]), Greedy())
    assert ids.tolist() == [0, 1, 2, 3]
    expected = ROW.copy()
    expected[2] += np.float32(0.1)
    expected[0] += np.float32(-0.25)
    assert logits.tobytes() == expected.tobytes()


def test_repeated_ids_all_apply():
    _, logits, _ = candidates(LogitBias([(1, 1.0), (1, 2.0)]), Greedy())
    assert logits.tolist() == [0.5, 5.0, -1.0, 1.5]


def test_forbidden_tokens_never_come():
    state = RequestState(3)
    chain = Chain([LogitBias([(1, -math.inf), (3, -math.inf)]), Temperature(5.0), Dist()])
    drawn = set()
    for _ in range(200):
        state.set_row(ROW)
        state.finish_row()
        drawn.add(chain.sample(state))
    assert drawn == {0, 2}


def test_an_id_outside_the_row_is_refused_and_nothing_is_drawn():
    state = RequestState(3)
    state.set_row(ROW)
    state.finish_row()
    with pytest.raises(
        ValueError, match=r"^\[logit_bias\] Expected token ids in \[0, 4\), got 4\.$"
    ):
        Chain([LogitBias([(4, 1.0)]), Dist()]).sample(state)
    assert state.distribution.position == 0


@pytest.mark.parametrize("bias", [math.nan, math.inf])
def test_bad_biases(bias):
    with pytest.raises(ValueError, match=r"^\[logit_bias\] Expected a finite bias or -inf, got "):
        LogitBias([(0, bias)])


def test_excluded():
    assert Sampler(temperature=0).sample(ROW) == 1
    assert Sampler(temperature=0, excluded=[1]).sample(ROW) == 3
    hot = {"temperature": 9, "min_p": 0, "top_p": 1}
    drawn = {Sampler(seed=s, excluded={0, 3}, **hot).sample(ROW) for s in range(60)}
    assert drawn == {1, 2}
    for temperature in (0, 1):
        sampler = Sampler(temperature=temperature, seed=1, excluded=range(4))
        with pytest.raises(NonfiniteLogitsError, match=r"^\[chain\] Expected a candidate to pick"):
            sampler.sample(ROW)
    assert ROW.tolist() == [0.5, 2.0, -1.0, 1.5]
