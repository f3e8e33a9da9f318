"""Drops the greedy and the seeded sampler into mlx-lm's own loop, on the packaged model."""

import mlx_lm

from mlx_sampling.mlx_lm import load, make_sampler

model, tokenizer = load()
prompt = tokenizer.apply_chat_template(
    [{"role": "user", "content": "Name three primary colours."}],
    add_generation_prompt=True,
    return_dict=False,
)

for sampler in (make_sampler(), make_sampler(temp=0.8, seed=42)):
    # The block's end checks the last tokens: a row with NaN in it never passes as text.
    with sampler:
        for response in mlx_lm.stream_generate(
            model, tokenizer, prompt, max_tokens=24, sampler=sampler
        ):
            print(response.text, end="", flush=True)
    print()
