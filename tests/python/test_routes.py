"""choose_route against its truth table, row by row."""

import pytest

from mlx_sampling import choose_route

TABLE = [
    # request, route, greedy, words of the reason
    ({"temperature": 0}, "B", True, "pure greedy"),
    ({"temperature": 0.0, "ignore_eos": True}, "B", True, "excluded in the kernel"),
    ({"temperature": 0, "grammar": True}, "B", True, "bitmask"),
    ({"temperature": 0, "grammar": True, "ignore_eos": True}, "B", True, "bitmask"),
    ({"temperature": 0, "speculative": True}, "B", True, "over drafts"),
    ({"temperature": 0, "logit_bias": True}, "A", True, "on the host for logit_bias"),
    ({"temperature": 0, "penalties": True}, "A", True, "on the host for penalties"),
    ({"temperature": 0, "dry": True}, "A", True, "on the host for dry"),
    ({"temperature": 0, "logprobs": True}, "A", True, "on the host for logprobs"),
    ({"temperature": 0, "snapshot": True}, "A", True, "on the host for a session snapshot"),
    ({"temperature": 0, "grammar": True, "logprobs": True}, "A", True, "for logprobs"),
    ({"temperature": 0, "ignore_eos": True, "dry": True}, "A", True, "for dry"),
    ({"temperature": 0, "dry": True, "penalties": True}, "A", True, "for penalties and dry"),
    ({"temperature": 1e-3}, "A", False, "temperature 0.001 draws"),
    ({"temperature": 0.8, "grammar": True}, "A", False, "draws from the full row"),
    ({"temperature": 0.8, "ignore_eos": True}, "A", False, "draws from the full row"),
    ({"temperature": 0.8, "mirostat": True}, "A", False, "with mirostat"),
    ({"temperature": 0.8, "adaptive_p": True}, "A", False, "with adaptive_p"),
    ({"temperature": 0.8, "speculative": True}, "A", False, "with speculative sampling"),
]


@pytest.mark.parametrize(("request_", "route", "greedy", "reason"), TABLE)
def test_table(request_, route, greedy, reason):
    decision = choose_route(**request_)
    assert (decision.route, decision.greedy) == (route, greedy)
    assert reason in decision.reason


@pytest.mark.parametrize("name", ["mirostat", "adaptive_p"])
def test_drawing_picks_refuse_temperature_zero(name):
    with pytest.raises(ValueError, match=rf"^\[{name}\] Expected a temperature > 0, got 0"):
        choose_route(temperature=0, **{name: True})


@pytest.mark.parametrize("temperature", [-0.1, float("nan"), float("inf")])
def test_bad_temperature(temperature):
    with pytest.raises(ValueError, match=r"^\[temperature\] Expected a finite value >= 0, got "):
        choose_route(temperature=temperature)


@pytest.mark.parametrize("temperature", [True, "0.8", None])
def test_temperature_of_another_type(temperature):
    with pytest.raises(TypeError, match=r"^\[temperature\] Expected a number, got "):
        choose_route(temperature=temperature)


def test_readback_bytes():
    assert choose_route(temperature=0).readback_bytes(202_048) == 4
    assert choose_route(temperature=1).readback_bytes(202_048) == 808_192
