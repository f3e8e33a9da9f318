"""Vocabularies from tokenizers and GGUF metadata: texts join to what was encoded, kinds and ends."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest

from mlx_sampling import Grammar, Sampler, Vocabulary

tokenizers = pytest.importorskip("tokenizers")
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers  # noqa: E402

CORPUS = ["The café costs 5€,  naïve   😀😀 日本語", "def f(x):\n\treturn x\r\n", "a\x00b\x7f"] * 3
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    from tokenizers.trainers import BpeTrainer

    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = BpeTrainer(vocab_size=320, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    tokenizer.add_special_tokens(["<|end|>", "<|im start|>"])
    added = ["\n\n", "two words", "\x00\x00", "中文", "née"]
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in added])
    return tokenizer


def pieces() -> dict[str, int]:
    """SentencePiece's vocabulary: specials, bytes, and pieces of the corpus; € and 日 need bytes."""
    names = [
        "<unk>",
        "<s>",
        "</s>",
        *BYTES,
        "▁",
        "a",
        "b",
        "é",
        "▁c",
        "af",
        "▁caf",
        "▁▁",
        "😀",
        "\n",
    ]
    return {name: i for i, name in enumerate(names)}


def sentencepiece_bpe() -> Tokenizer:
    merges = [("▁", "▁"), ("a", "f"), ("▁c", "af")]
    vocabulary = pieces() | {"f": len(pieces()), "c": len(pieces()) + 1}
    merges.insert(0, ("▁", "c"))
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return with_added(tokenizer)


def sentencepiece_unigram() -> Tokenizer:
    scored = [(name, -2.0 if len(name) < 6 else -9.0) for name in pieces()]
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=0, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    return with_added(tokenizer)


def with_added(tokenizer: Tokenizer) -> Tokenizer:
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>", "<turn▁end>"])
    tokenizer.add_tokens(
        [AddedToken("▁▁▁", normalized=False), AddedToken("\x00!", normalized=False)]
    )
    return tokenizer


def ids_of(tokenizer: Tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False).ids


def test_byte_level():
    tokenizer = byte_level()
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.size == tokenizer.get_vocab_size()
    texts = vocabulary.texts()
    single = {text for text in texts if len(text) == 1}
    assert len(single) == 256
    for text in [*CORPUS, "x\n\ny", "two words née \x00\x00中文", "\ufffd\x00é"]:
        ids = ids_of(tokenizer, text)
        assert b"".join(texts[i] for i in ids) == text.encode()
        assert vocabulary.tokenize(text.encode()) == ids
    native = vocabulary.native
    assert native is vocabulary.native
    for name in ("<|end|>", "<|im start|>"):
        token = tokenizer.token_to_id(name)
        assert texts[token] == name.encode()
        assert not native.is_text(token)
        assert native.find(name.encode()) == token
    for name in ("\n\n", "two words", "\x00\x00", "中文", "née"):
        assert texts[tokenizer.token_to_id(name)] == name.encode()
        assert native.is_text(tokenizer.token_to_id(name))


@pytest.mark.parametrize("make", [sentencepiece_bpe, sentencepiece_unigram])
def test_sentencepiece(make):
    tokenizer = make()
    vocabulary = Vocabulary.from_tokenizer(tokenizer, eos_token_ids=[2])
    texts = vocabulary.texts()
    assert texts[3 : 3 + 256] == [bytes([byte]) for byte in range(256)]
    assert texts[tokenizer.token_to_id("▁caf")] == b" caf"
    assert texts[tokenizer.token_to_id("▁▁▁")] == b"   "
    assert texts[tokenizer.token_to_id("\x00!")] == b"\x00!"
    for text in ["café", "€日", "caf  a😀", "b\nb"]:
        assert b"".join(texts[i] for i in ids_of(tokenizer, text)) == b" " + text.encode()
    native = vocabulary.native
    assert native.ends == [2]
    kinds = [(native.is_text(i), native.is_end(i)) for i in (0, 1, 2, 3)]
    assert kinds == [(False, False), (False, False), (False, True), (True, False)]
    assert not native.is_text(tokenizer.token_to_id("<turn▁end>"))


def test_ids_without_a_token_are_silent():
    tokenizer = Tokenizer(models.BPE({"a": 0, "Ġ": 4}, []))
    tokenizer.decoder = decoders.ByteLevel()
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert vocabulary.texts() == [b"a", b"", b"", b"", b" "]
    assert [vocabulary.native.is_text(i) for i in range(5)] == [True, False, False, False, True]


def test_without_a_letter_to_begin_with():
    tokenizer = Tokenizer(models.BPE({"▁1": 0, "2▁": 1}, []))
    tokenizer.decoder = decoders.Metaspace()
    assert Vocabulary.from_tokenizer(tokenizer).texts() == [b" 1", b"2 "]


class Wrapper:
    """As mlx-lm's TokenizerWrapper and transformers' tokenizers show themselves."""

    def __init__(self, backend, **attributes):
        self.backend_tokenizer = backend
        self.__dict__.update(attributes)


@pytest.mark.parametrize(
    ("attributes", "more", "ends"),
    [
        ({}, [], []),
        ({"eos_token_id": 5}, [], [5]),
        ({"eos_token_id": [5, 4]}, [], [4, 5]),
        ({"eos_token_id": None, "eos_token_ids": {7, 6}}, [1], [1, 6, 7]),
        ({"eos_token_id": 5, "eos_token_ids": [5, 7]}, [7], [5, 7]),
    ],
)
def test_ends_of_a_wrapper(attributes, more, ends):
    vocabulary = Vocabulary.from_tokenizer(Wrapper(byte_level(), **attributes), more)
    assert sorted(vocabulary.eos_token_ids) == ends
    assert vocabulary.native.ends == ends


def test_end_outside_is_refused():
    tokenizer = byte_level()
    size = tokenizer.get_vocab_size()
    with pytest.raises(ValueError, match=rf"^\[eos_token_ids\] .* \[0, {size}\), got {size}\.$"):
        Vocabulary.from_tokenizer(tokenizer, [size])


class Liar:
    """Decodes one token to something else."""

    def __init__(self, backend, token):
        self._backend, self._token = backend, token

    def __getattr__(self, name):
        return getattr(self._backend, name)

    def decode_batch(self, batch, skip_special_tokens):
        texts = self._backend.decode_batch(batch, skip_special_tokens=skip_special_tokens)
        return [t + "!" if self._token == b[-1] else t for b, t in zip(batch, texts, strict=True)]


@pytest.mark.parametrize("token", [3, 131, 255, 265])
@pytest.mark.parametrize("make", [byte_level, sentencepiece_bpe, sentencepiece_unigram])
def test_another_decode_is_refused(make, token):
    backend = make()
    with pytest.raises(ValueError, match=rf"^\[from_tokenizer\] Expected token {token} to write "):
        Vocabulary.from_tokenizer(Liar(backend, token))


def test_another_decode_is_refused_whatever_the_id():
    backend = byte_level()
    special = {i for i, token in backend.get_added_tokens_decoder().items() if token.special}
    for token in random.Random(0).sample(range(backend.get_vocab_size()), 60):
        if token not in special:
            with pytest.raises(ValueError, match=f" token {token} "):
                Vocabulary.from_tokenizer(Liar(backend, token))


def test_other_tokenizers_are_refused():
    with pytest.raises(TypeError, match=r"^\[from_tokenizer\] Expected a .*, got dict\.$"):
        Vocabulary.from_tokenizer({})
    tokenizer = Tokenizer(models.WordLevel({"a": 0}))
    with pytest.raises(ValueError, match=r"with a decoder, got none\.$"):
        Vocabulary.from_tokenizer(tokenizer)
    tokenizer.decoder = decoders.WordPiece()
    with pytest.raises(ValueError, match=r"decoder of ByteLevel, .*, got WordPiece\.$"):
        Vocabulary.from_tokenizer(tokenizer)
    tokenizer.decoder = decoders.Replace(tokenizers.Regex("a+"), "b")
    with pytest.raises(ValueError, match=r"Replace decoder of a string, got one of a pattern\.$"):
        Vocabulary.from_tokenizer(tokenizer)


def test_packaged_tokenizer(packaged):
    from mlx_sampling.gguf import packaged_model_path

    _, tokenizer = packaged
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    from_file = Vocabulary.from_gguf(packaged_model_path())
    assert vocabulary.texts() == from_file.texts()
    assert vocabulary.control_token_ids == from_file.control_token_ids == tuple(range(17))
    assert vocabulary.eos_token_ids == from_file.eos_token_ids == (0, 2)
    assert vocabulary.native.fingerprint == from_file.native.fingerprint
    text = "Grüße, 日本 😀\n\tx  y"
    assert b"".join(vocabulary.texts()[i] for i in tokenizer.encode(text)) == text.encode()


def gguf_file(path, entries):
    """Writes a GGUF file of metadata alone: lists of str or int, int and str."""

    def string(text):
        data = text.encode()
        return struct.pack("<Q", len(data)) + data

    body = b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries))
    for key, value in entries.items():
        body += string(f"tokenizer.ggml.{key}")
        if isinstance(value, str):
            body += struct.pack("<I", 8) + string(value)
        elif isinstance(value, int):
            body += struct.pack("<Ii", 5, value)
        else:
            texts = bool(value) and isinstance(value[0], str)
            items = [string(v) if texts else struct.pack("<i", v) for v in value]
            body += struct.pack("<IIQ", 9, 8 if texts else 5, len(value)) + b"".join(items)
    path.write_bytes(body)
    return path


SPM = {
    "model": "llama",
    "tokens": ["<unk>", "<s>", "</s>", "<0x00>", "<0xE2>", "▁the", "▁x", "unused", "é"],
    "token_type": [2, 3, 3, 6, 6, 1, 4, 5, 1],
    "eos_token_id": 2,
}


def test_gguf_of_sentencepiece(tmp_path):
    vocabulary = Vocabulary.from_gguf(gguf_file(tmp_path / "m.gguf", SPM))
    texts = [b"<unk>", b"<s>", b"</s>", b"\x00", b"\xe2", b" the", "▁x".encode(), b"unused"]
    assert vocabulary.texts() == [*texts, "é".encode()]
    assert vocabulary.control_token_ids == (0, 1, 2, 7)
    assert vocabulary.native.ends == [2]
    assert [i for i in range(9) if vocabulary.native.is_text(i)] == [3, 4, 5, 6, 8]


@pytest.mark.parametrize(
    ("tokens", "named", "ends"),
    [
        (["a", "<|im_end|>", "<|eot_id|>"], {}, [1, 2]),
        (["a", "b", "c"], {"eot_token_id": 1, "eom_token_id": 2}, [1, 2]),
        (["<|end|>", "<|return|>", "<|call|>"], {}, [1, 2]),
        (["<|end|>", "<|calls|>", "<|flush|>"], {}, [1, 2]),
        (["<|end|>", "<|return|>", "x"], {}, [0, 1]),
        (["<|end|>", "<|return|>", "<|call|>"], {"eos_token_id": 0}, [0, 1, 2]),
        (["</s>", "<|tool_response>", "x"], {}, [1]),
        (["</s>", "<reponame>", "x"], {}, [0]),
    ],
)
def test_ends_of_gguf(tmp_path, tokens, named, ends):
    entries = {"model": "gpt2", "tokens": tokens, "token_type": [3, 3, 3], **named}
    assert list(Vocabulary.from_gguf(gguf_file(tmp_path / "m.gguf", entries)).eos_token_ids) == ends


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "bert"}, r'"tokenizer.ggml.model" gpt2, llama or t5, got \'bert\'\.'),
        ({"tokens": [1]}, r'Expected a list of str "tokenizer.ggml.tokens"\.'),
        ({"tokens": []}, r'Expected a list of str "tokenizer.ggml.tokens"\.'),
        ({"token_type": [1]}, r'Expected 9 "tokenizer.ggml.token_type"\.'),
        ({"token_type": [9] * 9}, r"Expected a token of type 9, got '<unk>' for token 0\."),
        ({"token_type": [6] * 9}, r"Expected a token of type 6, got '<unk>' for token 0\."),
        ({"model": "gpt2", "token_type": [1] * 9}, r"alphabet, got '▁the' for token 5\."),
        ({"eos_token_id": 9}, r"in \[0, 9\), got 9\."),
    ],
)
def test_bad_gguf_is_refused(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message + "$"):
        Vocabulary.from_gguf(gguf_file(tmp_path / "m.gguf", SPM | changes))


def test_no_gguf_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="There is no file"):
        Vocabulary.from_gguf(tmp_path / "none.gguf")
    with pytest.raises(IsADirectoryError, match="Expected a file"):
        Vocabulary.from_gguf(tmp_path)


def test_native_needs_texts():
    with pytest.raises(ValueError, match=r"^\[vocabulary\] Expected token_texts, which a grammar"):
        Vocabulary(5).native  # noqa: B018
    with pytest.raises(ValueError, match=r"end tokens in \[0, 2\), got 7\.$"):
        Vocabulary(eos_token_ids=[7], token_texts=["a", "b"]).native  # noqa: B018
    with pytest.raises(ValueError, match=r"^\[control_token_ids\] .* \[0, 2\), got 2\.$"):
        Vocabulary(2, control_token_ids=[2])


def test_sampler_takes_one_vocabulary():
    vocabulary = Vocabulary(3, eos_token_ids=[1], token_texts=["a", "", "c"])
    logits = np.array([0.0, 9.0, 1.0, 99.0], np.float32)
    sampler = Sampler(temperature=0, ignore_eos=True, vocabulary=vocabulary)
    assert sampler.sample(logits) == 2
    for more in (
        {"vocab_size": 3},
        {"eos_token_ids": [1]},
        {"token_texts": ["a", "b", "c"]},
        {"tokenize": list},
    ):
        with pytest.raises(ValueError, match=r"^\[vocabulary\] Expected either .*, got both\.$"):
            Sampler(vocabulary=vocabulary, **more)
    said = r"^\[vocabulary\] Expected a Vocabulary, got int: Vocabulary\.from_tokenizer makes one"
    with pytest.raises(TypeError, match=said):
        Sampler(vocabulary=3)
    with pytest.raises(TypeError, match=said):
        Grammar('root ::= "a"', 3)
