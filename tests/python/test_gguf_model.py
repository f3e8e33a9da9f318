"""The packaged model: its tokens, and how it is loaded."""

import mlx.core as mx
import pytest

from mlx_sampling.gguf import packaged_model_path

pytest.importorskip("mlx_lm")
try:
    MODEL = packaged_model_path()
except FileNotFoundError as missing:
    pytest.skip(str(missing), allow_module_level=True)

from mlx_sampling.mlx_lm import loading

# llama.cpp multiplies quantised matrices by activations rounded to 8 bits, so on the file itself its
# logits are up to 0.7 away and near ties fall the other way: of these prompts only the first has the
# same 40 tokens there. On a float32 copy of the file its logits are within 2e-4. Regenerate with:
#   import llama_cpp
#   params = llama_cpp.llama_model_quantize_default_params()
#   params.ftype, params.allow_requantize = llama_cpp.LLAMA_FTYPE_ALL_F32, True
#   llama_cpp.llama_model_quantize(str(MODEL).encode(), b"float32.gguf", params)
#   llama = llama_cpp.Llama("float32.gguf", n_ctx=512, type_k=0, type_v=0, verbose=False)
#   for prompt, _ in KNOWN_GREEDY:
#       llama.reset()
#       ids = prompt_ids(load_tokenizer(read_gguf(MODEL)), prompt)
#       tokens = llama.generate(ids, temp=0.0, top_k=1, repeat_penalty=1.0)
#       print([next(tokens) for _ in range(40)])
KNOWN_MESSAGES = [{"role": "user", "content": "Name three colours of the rainbow."}]
# fmt: off
KNOWN_GREEDY = [
    ("Water boils at",
     [216, 33, 32, 32, 4742, 51, 28, 527, 314, 253, 3468, 20590, 30, 198, 198, 504, 6714, 282, 260,
      2817, 5118, 288, 260, 2817, 11606, 314, 216, 33, 42, 33, 30, 669, 314, 253, 4959, 3501, 282,
      2817, 4610, 28]),
    ("The capital of France is",
     [7042, 30, 198, 198, 504, 2988, 314, 42, 216, 34, 32, 33, 40, 29, 32, 33, 29, 34, 34, 216, 33,
      34, 42, 33, 34, 42, 37, 35, 30, 2, 198, 1, 520, 9531, 198, 504, 2988, 314, 42, 216]),
    (KNOWN_MESSAGES,
     [504, 24594, 314, 253, 3953, 6968, 28, 564, 357, 506, 441, 915, 563, 260, 4683, 282, 260,
      24594, 30, 1385, 359, 2390, 1296, 3003, 14797, 42, 2382, 28, 4461, 28, 284, 5724, 30, 1216,
      1296, 14797, 359, 260, 5706, 282]),
]
# fmt: on


@pytest.fixture(scope="module", params=[True, False], ids=["float32", "quantised"])
def loaded(request):
    calls = []
    model, tokenizer = loading.load_packaged(
        request.param, lambda done, total: calls.append((done, total))
    )
    return model, tokenizer, calls


def prompt_ids(tokenizer, prompt):
    if isinstance(prompt, str):
        return tokenizer.encode(prompt)
    text = tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=False)
    return tokenizer.encode(text)


def greedy(model, ids, count):
    cache = model.make_cache()
    tokens, feed = [], ids
    for _ in range(count):
        feed = [int(mx.argmax(model(mx.array([feed]), cache=cache)[0, -1]))]
        tokens += feed
    return tokens


class TestModel:
    @pytest.mark.parametrize(
        ("prompt", "tokens"), KNOWN_GREEDY, ids=["water", "capital", "messages"]
    )
    def test_greedy_tokens_are_those_of_llama_cpp(self, loaded, prompt, tokens):
        model, tokenizer, _ = loaded
        assert greedy(model, prompt_ids(tokenizer, prompt), len(tokens)) == tokens

    def test_progress_runs_from_nothing_to_everything(self, loaded):
        calls = loaded[2]
        total = calls[0][1]
        assert calls[0] == (0, total)
        assert calls[-1] == (total, total)
        assert len(calls) > 3
        assert calls == sorted(set(calls))

    def test_logits_are_float32(self, loaded):
        logits = loaded[0](mx.array([[1, 2, 3]]))
        assert (logits.shape, logits.dtype) == ((1, 3, 49152), mx.float32)

    def test_wrapped_tokenizer(self, loaded):
        tokenizer = loaded[1]
        assert tokenizer.eos_token_ids == {0, 2}
        detokenizer = tokenizer.detokenizer
        text = "Hello, 👩‍👩‍👧 naïve\n\n  x = 12"
        for token in tokenizer.encode(text):
            detokenizer.add_token(token)
        detokenizer.finalize()
        assert detokenizer.text == text

    def test_the_faster_form_is_the_default(self):
        model, _ = loading.load_packaged()
        on_cpu = mx.default_device().type == mx.DeviceType.cpu
        assert (model.model.embed_tokens.weight.dtype == mx.float32) == on_cpu

    @pytest.mark.parametrize(
        ("name", "loader"), [(None, "load_packaged"), ("a/b.GGUF", "load_gguf"), ("a/b", "lm")]
    )
    def test_load_picks_the_loader(self, monkeypatch, name, loader):
        for each in ("load_packaged", "load_gguf"):
            monkeypatch.setattr(loading, each, lambda *_, each=each, **__: (each, None))
        monkeypatch.setattr(loading.mlx_lm, "load", lambda *_, **__: ("lm", None))
        assert loading.load(name)[0] == loader
