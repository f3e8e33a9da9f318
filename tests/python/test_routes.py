"""choose_route against its truth table, row by row."""

import pytest

from mlx_sampling import SamplingParams, choose_route, route_for

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


def test_speculative_requests():
    from mlx_sampling.params import SamplingParams as Params

    greedy = route_for(Params(temperature=0), speculative=True)
    assert (greedy.route, greedy.reason.split(",")[0]) == ("B", "pure greedy over drafts")
    assert route_for(Params(repeat_penalty=1.1, temperature=0), speculative=True).route == "A"
    drawn = route_for(Params(mirostat=2), speculative=True)
    assert (drawn.route, drawn.greedy) == ("A", False)


def test_readback_bytes():
    assert choose_route(temperature=0).readback_bytes(202_048) == 4
    assert choose_route(temperature=1).readback_bytes(202_048) == 808_192


FOR_PARAMS = [
    ({}, {}),
    ({"ignore_eos": True}, {"ignore_eos": True}),
    ({"logit_bias": {1: 0.5}}, {"logit_bias": True}),
    ({"repeat_penalty": 1.1}, {"penalties": True}),
    ({"frequency_penalty": 0.1}, {"penalties": True}),
    ({"presence_penalty": -0.1}, {"penalties": True}),
    ({"presence_penalty": 1, "repeat_last_n": 0}, {}),
    ({"presence_penalty": 1, "samplers": ["top_k"]}, {}),
    ({"dry_multiplier": 0.8}, {"dry": True}),
    ({"dry_multiplier": 0.8, "dry_base": 0.5}, {}),
    ({"dry_multiplier": 0.8, "samplers": "ekt"}, {}),
    ({"top_k": 3, "top_p": 0.1, "xtc_probability": 1, "dynatemp_range": 1}, {}),
]


@pytest.mark.parametrize(("fields", "flags"), FOR_PARAMS, ids=str)
@pytest.mark.parametrize("temperature", [0, 0.7])
def test_route_for_is_what_the_parameters_ask_for(fields, flags, temperature):
    params = SamplingParams(temperature=temperature, **fields)
    assert route_for(params) == choose_route(temperature=temperature, **flags)
    for flag in ("logprobs", "snapshot", "speculative", "grammar"):
        expected = choose_route(temperature=temperature, **flags, **{flag: True})
        assert route_for(params, **{flag: True}) == expected


def test_route_for_requests_that_always_draw():
    assert "mirostat draws" in route_for(SamplingParams(mirostat=2, presence_penalty=1)).reason
    adaptive = {"samplers": "ka", "adaptive_target": 0.5}
    assert "with adaptive_p draws" in route_for(SamplingParams(**adaptive)).reason
    assert "adaptive_p" not in route_for(SamplingParams(**adaptive, mirostat=1)).reason
    with pytest.raises(TypeError, match=r"\[route_for\] Expected SamplingParams, got dict\."):
        route_for({"temperature": 0})
