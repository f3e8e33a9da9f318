// Damaged snapshots against restore(), built with sanitizers: each is refused and changes nothing,
// or gives a request that samples on. Prints counts as JSON; a fault ends the program.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/bytes.h"
#include "core/chain.h"
#include "core/grammar.h"
#include "core/grammar_parser.h"
#include "core/pick.h"
#include "core/samplers/adaptive_p.h"
#include "core/samplers/dist.h"
#include "core/samplers/dry.h"
#include "core/samplers/mirostat.h"
#include "core/samplers/penalties.h"
#include "core/samplers/xtc.h"
#include "core/snapshot.h"

using namespace mlx_sampling;

namespace {

using Bytes = std::vector<uint8_t>;
using Random = std::mt19937;

constexpr size_t width = 37;
constexpr size_t streams_at = 43;
constexpr size_t tokens_at = streams_at + 4 * Mt19937::snapshot_size + 8;

void fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

std::vector<Chain> chains() {
  const auto penalties = std::make_shared<Penalties>(PenaltyOptions{8, 1.2, 0.1, 0.1});
  const auto dry = std::make_shared<Dry>(DryOptions{0.5, 1.75, 1, 16, {{3}}});
  const auto xtc = std::make_shared<Xtc>(0.5, 0.01);
  return {Chain({penalties, dry, xtc, std::make_shared<Dist>()}),
          Chain({std::make_shared<Mirostat>(3.0, 0.1, width)}),
          Chain({std::make_shared<MirostatV2>(3.0, 0.1)}),
          Chain({penalties, std::make_shared<AdaptiveP>(0.3, 0.9)})};
}

// Tokens of one letter, of two, and an end, under a grammar that most of them fit.
std::shared_ptr<const Grammar> grammar() {
  std::vector<std::string> texts;
  for (size_t i = 0; i + 1 < width; ++i) {
    texts.push_back(std::string(1 + i / 26, static_cast<char>('a' + i % 26)));
  }
  texts.push_back("<end>");
  const std::vector<uint32_t> ends = {width - 1};
  const auto vocabulary = std::make_shared<const Vocabulary>(texts, std::vector<uint32_t>{}, ends);
  return Grammar::compile(parse_grammar("root ::= ([a-z] [a-w]*){1,40}", "root", vocabulary.get()),
                          vocabulary);
}

// False where the step is refused: probabilities that are not finite are an error, not a crash.
bool step(const Chain& chain, RequestState& state, Random& random) {
  for (float& logit : state.begin_row(width)) logit = static_cast<float>(random() % 64) / 8;
  state.finish_row();
  try {
    const uint32_t token = pick(chain, state).token;
    if (token >= width) fail("A token outside the row.");
    chain.accept(state, token);
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

void put_at(Bytes& bytes, size_t at, uint32_t value) {
  for (size_t i = 0; i < 4; ++i) bytes[at + i] = static_cast<uint8_t>(value >> (8 * i));
}

// Checksums that fit, so that what is behind them is tried.
void seal(Bytes& bytes) {
  if (bytes.size() < tokens_at + 4) return;
  for (size_t i = 0; i < 4; ++i) {
    const size_t at = streams_at + i * Mt19937::snapshot_size;
    const size_t crc_at = Mt19937::snapshot_size - 4;
    put_at(bytes, at + crc_at, crc32(std::span(bytes).subspan(at, crc_at)));
  }
  put_at(bytes, bytes.size() - 4, crc32(std::span(bytes).first(bytes.size() - 4)));
}

Bytes damaged(Bytes bytes, Random& random) {
  const uint32_t kind = random() % 6;
  const size_t at = random() % bytes.size();
  const size_t in_header = random() % streams_at;
  if (kind == 0) bytes.resize(at);
  if (kind == 1) bytes[at] ^= static_cast<uint8_t>(1u << (random() % 8));
  if (kind == 2) bytes.insert(bytes.end(), random() % 64, static_cast<uint8_t>(random()));
  if (kind == 3) bytes[in_header] = static_cast<uint8_t>(random());
  if (kind == 4) put_at(bytes, tokens_at - 8 + random() % 5, random());
  if (kind == 5) {
    for (size_t i = at; i < bytes.size() && i < at + 16; ++i) {
      bytes[i] = static_cast<uint8_t>(random());
    }
  }
  if (random() % 2 == 0) seal(bytes);
  // Exactly as long as it is said to be, so that reading past the end is seen.
  bytes.shrink_to_fit();
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  const int tries = argc > 1 ? std::atoi(argv[1]) : 4000;
  Random random(1);
  const std::vector<Chain> all = chains();
  const auto constraint = grammar();
  int refused = 0, restored = 0, stepped = 0;
  for (int i = 0; i < tries; ++i) {
    const Chain& chain = all[static_cast<size_t>(i) % all.size()];
    RequestState source(static_cast<uint32_t>(random()));
    if (i % 2 == 0) source.grammar.emplace(constraint, i % 4 == 0, nullptr);
    const uint32_t steps = random() % 20;
    for (uint32_t s = 0; s < steps; ++s) step(chain, source, random);
    const Bytes bytes = damaged(snapshot(source), random);
    RequestState state(7, Reference::libcxx, NegInf::error, i % 3 == 0 ? width : 0);
    if (random() % 8 != 0 && source.grammar) state.grammar.emplace(constraint, false, nullptr);
    step(chain, state, random);
    const Bytes before = snapshot(state);
    try {
      restore(state, bytes);
    } catch (const std::invalid_argument&) {
      if (snapshot(state) != before || !state.has_row())
        fail("A refused snapshot changed the state.");
      ++refused;
      continue;
    }
    ++restored;
    if (state.width() != 0 && state.width() != width) continue;
    for (const Chain& other : all) stepped += step(other, state, random);
  }
  std::printf("{\"refused\": %d, \"restored\": %d, \"stepped\": %d}\n", refused, restored, stepped);
  return 0;
}
