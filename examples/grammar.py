"""A grammar and a schema over a small vocabulary: masks, forced tokens, and a sampler that keeps to them."""

import json

import numpy as np

from mlx_sampling import Grammar, Sampler, Vocabulary

# A model's own: Vocabulary.from_tokenizer(tokenizer). Here: printable ASCII, a few words, an end.
texts = [chr(i) for i in range(32, 127)] + ['{"', '":', "true", "false", "color", "blue", "<end>"]
end = len(texts) - 1
vocabulary = Vocabulary(token_texts=texts, eos_token_ids=[end])

dates = Grammar('root ::= [0-9]{4} "-" [01] [0-9] "-" [0-3] [0-9]', vocabulary)
matcher = dates.matcher()
print("first tokens:", [text for i, text in enumerate(texts) if matcher.can_accept(i)])
for character in "2026":
    assert matcher.accept_token(texts.index(character))
print("then must come:", [texts[token] for token in matcher.forced_tokens()])

schema = {
    "type": "object",
    "properties": {"color": {"enum": ["blue", "red"]}, "bright": {"type": "boolean"}},
    "required": ["color", "bright"],
    "additionalProperties": False,
}
grammar = Grammar.from_json_schema(schema, vocabulary, whitespace="compact")
logits = np.random.default_rng(0).standard_normal((200, len(texts))).astype(np.float32)
for seed in range(3):
    sampler = Sampler(seed=seed, grammar=grammar)
    for row in logits:
        sampler.accept(sampler.sample(row))
        if sampler.grammar_is_terminated:
            break
    text = "".join(texts[token] for token in sampler.history[:-1])
    print(text, "->", json.loads(text))
