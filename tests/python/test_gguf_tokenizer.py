"""The tokenizer in a GGUF file, against llama.cpp."""

import pytest

from mlx_sampling.gguf import eos_token_ids, load_tokenizer, packaged_model_path, read_gguf

pytest.importorskip("mlx_lm")
try:
    MODEL = packaged_model_path()
except FileNotFoundError as missing:
    pytest.skip(str(missing), allow_module_level=True)

# Regenerate with:
#   from llama_cpp import Llama
#   llama = Llama(str(packaged_model_path()), vocab_only=True, verbose=False)
#   for text, _ in KNOWN_IDS:
#       print(ascii(text), llama.tokenize(text.encode(), add_bos=False, special=True))
# fmt: off
KNOWN_IDS = [
    ("Hello, world!", [19556, 28, 905, 17]),
    (" leading and trailing  ", [2899, 284, 35079, 256]),
    ("   three spaces", [256, 1296, 5600]),
    ("tabs\tand\r\nnew\n\nlines\n", [100, 7366, 197, 397, 201, 198, 2241, 198, 198, 5110, 198]),
    ("1234567890 3.14 x2", [33, 34, 35, 36, 37, 38, 39, 40, 41, 32, 216, 35, 30, 33, 36, 1792, 34]),
    ("\xbd \xb2 \u2167 \u0663\u0664",
     [16738, 216, 19133, 216, 173, 223, 117, 216, 164, 113, 164, 114]),
    ("it's we'll I'D they've", [269, 506, 392, 3060, 339, 23, 52, 502, 3543]),
    ("na\xefve caf\xe9 e\u0301", [3546, 46494, 37366, 297, 151, 219]),
    ("\u6f22\u5b57\u304b\u306a \ud55c\uad6d\uc5b4",
     [177, 137, 112, 36518, 7365, 229, 7365, 120, 216, 33085, 246, 181, 130, 251, 183, 240, 129]),
    ("\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f600\U0001f1eb\U0001f1f7",
     [10813, 235, 119, 321, 231, 10813, 235, 119, 321, 231, 10813, 235, 117, 40303, 218, 10813, 225,
      121, 10813, 225, 132]),
    ("def f(x: int) -> str:\n    return f\"{x!r}\"  # ok\n",
     [1604, 275, 24, 104, 42, 464, 25, 4722, 871, 42, 472, 1003, 275, 14737, 104, 17, 98, 18206,
      216, 907, 10907, 198]),
    ("<|im_start|>user\nHi<|im_end|>\n", [1, 4093, 198, 26843, 2, 198]),
    ("<|endoftext|><repo_name>a<|im_", [0, 3, 81, 44, 108, 306, 79]),
    ("a\xa0b\u3000c\u200b", [81, 15442, 82, 12109, 218, 83, 321, 229]),
    ("a\x00b", [81, 190, 82]),
    ("", []),
]
# fmt: on
# Six control characters have no token: they are lost, and nothing merges across the gap.
KNOWN_LOSSY_IDS = [("=\x04= \x06", [45, 45, 216])]
KNOWN_MESSAGES = [{"role": "user", "content": "Name three colours of the rainbow."}]


@pytest.fixture(scope="module")
def file():
    return read_gguf(MODEL)


@pytest.fixture(scope="module")
def tokenizer(file):
    return load_tokenizer(file)


class TestTokenizer:
    @pytest.mark.parametrize(("text", "ids"), KNOWN_IDS + KNOWN_LOSSY_IDS)
    def test_agrees_with_llama_cpp(self, tokenizer, text, ids):
        assert tokenizer.encode(text, add_special_tokens=False) == ids
        assert tokenizer.encode(text) == ids

    @pytest.mark.parametrize("text", [text for text, _ in KNOWN_IDS])
    def test_round_trip(self, tokenizer, text):
        assert tokenizer.decode(tokenizer.encode(text)) == text

    def test_skips_only_special_tokens(self, tokenizer):
        ids = tokenizer.encode("<|im_start|>user\nHi<|im_end|>")
        assert tokenizer.decode(ids, skip_special_tokens=True) == "user\nHi"

    def test_special_tokens_of_the_file(self, file, tokenizer):
        assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (1, 2)
        assert (tokenizer.unk_token_id, tokenizer.pad_token_id) == (0, 2)
        assert eos_token_ids(file) == [0, 2]
        assert len(tokenizer) == tokenizer.vocab_size == 49152
        assert tokenizer.model_max_length == 8192

    def test_chat_template(self, tokenizer):
        text = tokenizer.apply_chat_template(
            KNOWN_MESSAGES, add_generation_prompt=True, tokenize=False
        )
        assert text == (
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
            "Face<|im_end|>\n<|im_start|>user\nName three colours of the rainbow.<|im_end|>\n"
            "<|im_start|>assistant\n"
        )

    @pytest.mark.parametrize(
        ("key", "item", "message"),
        [
            ("model", "llama", 'Expected "tokenizer.ggml.model" "gpt2", got "llama".'),
            ("pre", "qwen2", 'Expected "tokenizer.ggml.pre" "smollm", got "qwen2".'),
            ("pre", None, 'Expected "tokenizer.ggml.pre" "smollm", got none.'),
            ("add_bos_token", True, 'Expected "tokenizer.ggml.add_bos_token" false, got true.'),
            ("tokens", None, 'Expected a list of str "tokenizer.ggml.tokens".'),
            ("token_type", [1], "Expected 49152 token types, got 1."),
            ("tokens", ["a"] * 49152, "Expected distinct tokens, but one occurs twice."),
            ("merges", ["q zz"], 'The merge "q zz" is not of tokens in the vocabulary.'),
            (
                "eos_token_id",
                49152,
                'Expected "tokenizer.ggml.eos_token_id" in [0, 49152), got 49152.',
            ),
            ("tokens", [1], 'Expected a list of str "tokenizer.ggml.tokens".'),
            ("tokens", [], 'Expected a list of str "tokenizer.ggml.tokens".'),
            ("add_eos_token", 0, 'Expected "tokenizer.ggml.add_eos_token" false, got 0.'),
        ],
    )
    def test_refuses_other_tokenizers(self, file, monkeypatch, key, item, message):
        monkeypatch.setitem(file.metadata, f"tokenizer.ggml.{key}", item)
        with pytest.raises(ValueError) as caught:
            load_tokenizer(file)
        assert str(caught.value) == f"[gguf] {message}"

    @pytest.mark.parametrize(
        ("template", "message"),
        [
            (5, r'Expected a str "tokenizer\.chat_template", got 5\.'),
            ("{% if %}", r"Expected a Jinja template .*, got TemplateSyntaxError: .*\."),
            ("{{ messages", r"Expected a Jinja template .*, got TemplateSyntaxError: .*\."),
            ("{{ 1 | nothing }}", r"Expected a Jinja template .*: No filter named 'nothing'\."),
            (
                "{% for a in b %}" * 30 + "{% endfor %}" * 30,
                r"Expected a Jinja template .*, got SyntaxError: too many statically nested .*",
            ),
        ],
    )
    def test_refuses_templates(self, file, monkeypatch, template, message):
        monkeypatch.setitem(file.metadata, "tokenizer.chat_template", template)
        with pytest.raises(ValueError, match=rf"^\[gguf\] {message}$"):
            load_tokenizer(file)

    @pytest.mark.parametrize(
        ("template", "text"),
        [
            ("{% for m in messages %}{{ m.role }}{% break %}{% endfor %}", "user"),
            ("{% generation %}{{ messages[0].content | tojson }}{% endgeneration %}", '"Hi"'),
            ("{% if messages %}a{% else %}{{ raise_exception('no') }}{% endif %}", "a"),
        ],
    )
    def test_takes_what_transformers_takes(self, file, monkeypatch, template, text):
        monkeypatch.setitem(file.metadata, "tokenizer.chat_template", template)
        messages = [{"role": "user", "content": "Hi"}]
        assert load_tokenizer(file).apply_chat_template(messages, tokenize=False) == text

    def test_an_empty_template_is_none(self, file, monkeypatch):
        monkeypatch.setitem(file.metadata, "tokenizer.chat_template", "")
        assert load_tokenizer(file).chat_template is None
