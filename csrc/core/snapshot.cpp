#include "core/snapshot.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "core/bytes.h"
#include "core/error.h"

namespace mlx_sampling {
namespace {

// Layout, little-endian: what is here, the four streams as Mt19937::snapshot() has them, the number
// of accepted tokens and the tokens, the grammar (a byte: 0 = none, 1 = begun, 2 = waiting; then,
// of one, its fingerprint, the bytes skipped, the number of its tokens and the tokens), CRC-32 of
// all before it.
constexpr std::array<uint8_t, 8> magic = {'m', 'l', 'x', 's', 'R', 'E', 'Q', 'S'};
constexpr uint32_t version = 2;
constexpr size_t version_at = magic.size();
constexpr size_t seed_at = version_at + 4;
constexpr size_t reference_at = seed_at + 4;     // one byte: 0 = libc++, 1 = libstdc++
constexpr size_t neg_inf_at = reference_at + 1;  // one byte: 0 = error, 1 = masked
constexpr size_t flags_at = neg_inf_at + 1;      // one byte: which of the next fields are there
constexpr size_t mu_at = flags_at + 1;           // fields that are not there are 0
constexpr size_t weighted_sum_at = mu_at + 4;
constexpr size_t total_weight_at = weighted_sum_at + 4;
constexpr size_t pending_token_at = total_weight_at + 4;
constexpr size_t pending_p_at = pending_token_at + 4;
constexpr size_t width_at = pending_p_at + 4;  // of the rows; 0 = any
constexpr size_t streams_at = width_at + 4;
constexpr size_t count_at = streams_at + 4 * Mt19937::snapshot_size;
constexpr size_t tokens_at = count_at + 8;
constexpr size_t crc_size = 4;
constexpr size_t no_grammar_size = 1;
constexpr size_t grammar_size = no_grammar_size + 8 + 4 + 8;  // and its tokens

enum GrammarKind : uint8_t { no_grammar, begun_grammar, waiting_grammar };

constexpr uint8_t has_mu = 1;
constexpr uint8_t has_average = 2;
constexpr uint8_t has_pending = 4;
constexpr uint8_t all_flags = has_mu | has_average | has_pending;

using Bytes = std::span<const uint8_t>;

template <typename... Parts>
[[noreturn]] void refuse_snapshot(const Parts&... parts) {
  refuse("[restore] ", parts...);
}

std::array<Mt19937*, 4> in_order(Streams& streams) {
  return {&streams.distribution, &streams.xtc, &streams.mirostat, &streams.adaptive};
}

uint8_t flags_of(const RequestState& state) {
  const auto& average = state.adaptive_average;
  const bool pending = average && average->pending_token;
  return static_cast<uint8_t>((state.mirostat_mu ? has_mu : 0) | (average ? has_average : 0) |
                              (pending ? has_pending : 0));
}

[[noreturn]] void refuse_truncated() {
  refuse_snapshot("Expected a grammar after the history: the snapshot is truncated or damaged.");
}

// What comes after `count` tokens of `what`.
Bytes after_tokens(std::string_view what, Bytes bytes, uint64_t count) {
  if (count > bytes.size() / 4) {
    refuse_snapshot("Expected ", count, " tokens of ", what, ", got ", bytes.size(),
                    " bytes of it: the snapshot is truncated or damaged.");
  }
  return bytes.subspan(count * 4);
}

std::vector<uint32_t> read_tokens(Bytes bytes, uint64_t count) {
  std::vector<uint32_t> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = get<uint32_t>(bytes, 4 * i);
  return tokens;
}

// Everything but the meaning of the fields: kind, version, length, checksum.
void check_frame(Bytes bytes) {
  const size_t compared = std::min(bytes.size(), magic.size());
  if (bytes.empty() || !std::equal(bytes.begin(), bytes.begin() + compared, magic.begin())) {
    refuse_snapshot("Expected a snapshot of a sampler, got other bytes.");
  }
  if (bytes.size() >= seed_at) {
    const auto found = get<uint32_t>(bytes, version_at);
    if (found != version) {
      refuse_snapshot("Expected a snapshot of version ", version, ", got version ", found,
                      found > version ? ", made by a newer mlx-sampling." : ".");
    }
  }
  const size_t least = tokens_at + no_grammar_size + crc_size;
  if (bytes.size() < least) {
    refuse_snapshot("Expected at least ", least, " bytes, got ", bytes.size(),
                    ": the snapshot is truncated.");
  }
  const Bytes rest = bytes.first(bytes.size() - crc_size).subspan(tokens_at);
  const Bytes grammar = after_tokens("history", rest, get<uint64_t>(bytes, count_at));
  if (grammar.size() < no_grammar_size) refuse_truncated();
  if (grammar[0] != no_grammar) {
    if (grammar.size() < grammar_size) refuse_truncated();
    const auto count = get<uint64_t>(grammar, grammar_size - 8);
    if (!after_tokens("grammar", grammar.subspan(grammar_size), count).empty()) refuse_truncated();
  } else if (grammar.size() != no_grammar_size) {
    refuse_truncated();
  }
  const size_t crc_at = bytes.size() - crc_size;
  if (get<uint32_t>(bytes, crc_at) != crc32(bytes.first(crc_at))) {
    refuse_snapshot("The checksum does not match: the snapshot is damaged.");
  }
}

template <typename T>
void expect_same(std::string_view what, T found, T wanted) {
  if (found == wanted) return;
  refuse_snapshot("Expected a snapshot with ", what, " ", wanted, ", as the sampler has, got ",
                  found, ".");
}

uint8_t bounded(Bytes bytes, size_t at, uint8_t greatest) {
  if (bytes[at] > greatest)
    refuse_snapshot("The fields contradict each other: the snapshot is damaged.");
  return bytes[at];
}

std::string_view name_of(NegInf neg_inf) { return neg_inf == NegInf::error ? "error" : "masked"; }

// The settings that the request and the snapshot must share.
void check_settings(const RequestState& state, Bytes bytes) {
  const auto reference = static_cast<Reference>(bounded(bytes, reference_at, 1));
  expect_same("reference", reference_name(reference), reference_name(state.reference()));
  const auto neg_inf = static_cast<NegInf>(bounded(bytes, neg_inf_at, 1));
  expect_same("neg_inf", name_of(neg_inf), name_of(state.neg_inf()));
  const size_t width = get<uint32_t>(bytes, width_at);
  if (state.vocab_size() != 0) expect_same("a vocabulary of", width, state.vocab_size());
}

void read_sums(RequestState& state, Bytes bytes) {
  const uint8_t flags = bounded(bytes, flags_at, all_flags);
  const auto present = [&](uint8_t flag, size_t at, size_t end) {
    const bool zero = std::all_of(bytes.begin() + static_cast<ptrdiff_t>(at),
                                  bytes.begin() + static_cast<ptrdiff_t>(end),
                                  [](uint8_t byte) { return byte == 0; });
    if ((flags & flag) == 0 && !zero) {
      refuse_snapshot("The fields contradict each other: the snapshot is damaged.");
    }
    return (flags & flag) != 0;
  };
  if (present(has_mu, mu_at, weighted_sum_at)) state.mirostat_mu = get_float(bytes, mu_at);
  const bool pending = present(has_pending, pending_token_at, width_at);
  if (present(has_average, weighted_sum_at, pending_token_at)) {
    AdaptiveAverage average{get_float(bytes, weighted_sum_at), get_float(bytes, total_weight_at)};
    if (pending) {
      average.pending_token = get<uint32_t>(bytes, pending_token_at);
      average.pending_p = get_float(bytes, pending_p_at);
      state.expect_token("restore", *average.pending_token);
    }
    state.adaptive_average = average;
  } else if (pending) {
    refuse_snapshot("The fields contradict each other: the snapshot is damaged.");
  }
}

void put_grammar(std::vector<uint8_t>& bytes, const std::optional<GrammarState>& grammar) {
  if (!grammar) return put(bytes, static_cast<uint8_t>(no_grammar));
  put(bytes, static_cast<uint8_t>(grammar->is_waiting() ? waiting_grammar : begun_grammar));
  put(bytes, grammar->fingerprint());
  put(bytes, static_cast<uint32_t>(grammar->skipped()));
  put(bytes, static_cast<uint64_t>(grammar->tokens().size()));
  for (const uint32_t token : grammar->tokens()) put(bytes, token);
}

void read_grammar(RequestState& state, Bytes bytes) {
  const auto kind = bounded(bytes, 0, waiting_grammar);
  if ((kind != no_grammar) != state.grammar.has_value()) {
    refuse_snapshot("Expected a snapshot ", state.grammar ? "with" : "without",
                    " a grammar, as the sampler has, got one ",
                    state.grammar ? "without." : "with.");
  }
  if (kind == no_grammar) return;
  if (get<uint64_t>(bytes, 1) != state.grammar->fingerprint()) {
    refuse_snapshot("Expected a snapshot of the sampler's grammar and vocabulary, got another's.");
  }
  const auto tokens = read_tokens(bytes.subspan(grammar_size), get<uint64_t>(bytes, 13));
  state.grammar->replay(tokens, get<uint32_t>(bytes, 9), kind == waiting_grammar);
}

}  // namespace

std::vector<uint8_t> snapshot(const RequestState& state) {
  const auto average = state.adaptive_average.value_or(AdaptiveAverage{0, 0});
  std::vector<uint8_t> bytes(magic.begin(), magic.end());
  put(bytes, version);
  put(bytes, state.seed());
  put(bytes, static_cast<uint8_t>(state.reference()));
  put(bytes, static_cast<uint8_t>(state.neg_inf()));
  put(bytes, flags_of(state));
  put_float(bytes, state.mirostat_mu.value_or(0.0f));
  put_float(bytes, average.weighted_sum);
  put_float(bytes, average.total_weight);
  put(bytes, average.pending_token.value_or(0));
  put_float(bytes, average.pending_token ? average.pending_p : 0.0f);
  put(bytes, static_cast<uint32_t>(state.width()));
  Streams streams = state.streams;
  for (const Mt19937* stream : in_order(streams)) {
    const auto words = stream->snapshot();
    bytes.insert(bytes.end(), words.begin(), words.end());
  }
  const auto tokens = state.history.tokens();
  put(bytes, static_cast<uint64_t>(tokens.size()));
  for (const uint32_t token : tokens) put(bytes, token);
  put_grammar(bytes, state.grammar);
  put(bytes, crc32(bytes));
  return bytes;
}

void restore(RequestState& state, Bytes bytes, std::optional<uint32_t> seed) {
  check_frame(bytes);
  check_settings(state, bytes);
  if (seed) expect_same("seed", get<uint32_t>(bytes, seed_at), *seed);
  RequestState fresh(get<uint32_t>(bytes, seed_at), state.reference(), state.neg_inf(),
                     state.vocab_size());
  fresh.expect_width(get<uint32_t>(bytes, width_at));
  read_sums(fresh, bytes);
  size_t at = streams_at;
  for (Mt19937* stream : in_order(fresh.streams)) {
    stream->restore(bytes.subspan(at, Mt19937::snapshot_size));
    at += Mt19937::snapshot_size;
  }
  const auto count = get<uint64_t>(bytes, count_at);
  for (const uint32_t token : read_tokens(bytes.subspan(tokens_at), count)) {
    fresh.expect_token("restore", token);
    fresh.history.accept(token);
  }
  fresh.grammar = state.grammar;
  read_grammar(fresh, bytes.subspan(tokens_at + 4 * count));
  state = std::move(fresh);
}

}  // namespace mlx_sampling
