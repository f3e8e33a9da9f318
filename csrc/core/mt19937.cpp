#include "core/mt19937.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>
#include <string>

#include "core/bytes.h"

namespace mlx_sampling {
namespace {

constexpr float two_pow_32_f32 = 4294967296.0f;
constexpr double two_pow_32 = 4294967296.0;
constexpr double two_pow_64 = 18446744073709551616.0;

// Snapshot, little-endian: magic, version, position, 624 state words, CRC-32 of all before it. The
// index into the block follows from the position.
constexpr std::array<uint8_t, 8> magic = {'m', 'l', 'x', 's', 'M', 'T', '1', '9'};
constexpr uint32_t version = 1;
constexpr size_t version_at = magic.size();
constexpr size_t position_at = version_at + 4;
constexpr size_t words_at = position_at + 8;

[[noreturn]] void refuse(const std::string& reason) {
  throw std::invalid_argument("[Mt19937.restore] " + reason);
}

double checked_sum(std::span<const double> weights) {
  std::ostringstream error;
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!(std::isfinite(weights[i]) && weights[i] >= 0)) {
      error << "[discrete] Expected finite weights >= 0, got " << weights[i] << " at index " << i
            << ".";
      throw std::invalid_argument(error.str());
    }
    sum += weights[i];
  }
  if (weights.empty()) {
    error << "[discrete] Expected at least one weight, got none.";
  } else if (!(sum > 0 && std::isfinite(sum))) {
    error << "[discrete] Expected weights with a positive finite sum, got " << sum << ".";
  } else {
    return sum;
  }
  throw std::invalid_argument(error.str());
}

}  // namespace

Mt19937::Mt19937(uint32_t seed) {
  words_[0] = seed;
  for (uint32_t i = 1; i < word_count; ++i) {
    const uint32_t previous = words_[i - 1];
    words_[i] = 1812433253u * (previous ^ (previous >> 30)) + i;
  }
}

void Mt19937::twist() {
  constexpr size_t shift = 397;
  const auto renew = [this](size_t i, size_t following, size_t shifted) {
    const uint32_t y = (words_[i] & 0x80000000u) | (words_[following] & 0x7FFFFFFFu);
    words_[i] = words_[shifted] ^ (y >> 1) ^ ((y & 1) != 0 ? 0x9908B0DFu : 0u);
  };
  size_t i = 0;
  for (; i < word_count - shift; ++i) renew(i, i + 1, i + shift);
  for (; i < word_count - 1; ++i) renew(i, i + 1, i + shift - word_count);
  renew(i, 0, shift - 1);
  index_ = 0;
}

float Mt19937::uniform_f32(Reference reference) {
  const float u = static_cast<float>(next()) / two_pow_32_f32;
  return reference == Reference::libstdcxx && u >= 1.0f ? std::nextafter(1.0f, 0.0f) : u;
}

double Mt19937::uniform_f64(Reference reference) {
  const double low = next();
  const double high = next();
  const double u = (low + high * two_pow_32) / two_pow_64;
  return reference == Reference::libstdcxx && u >= 1.0 ? std::nextafter(1.0, 0.0) : u;
}

size_t Mt19937::discrete(std::span<const double> weights, Reference reference) {
  const double sum = checked_sum(weights);
  if (weights.size() == 1 && reference == Reference::libstdcxx) return 0;
  const double u = uniform_f64(reference);
  const size_t last = weights.size() - 1;
  double cumulated = 0;
  for (size_t i = 0; i < last; ++i) {
    cumulated += weights[i] / sum;
    if (reference == Reference::libcxx ? cumulated > u : cumulated >= u) return i;
  }
  return last;
}

std::vector<uint8_t> Mt19937::snapshot() const {
  std::vector<uint8_t> bytes(magic.begin(), magic.end());
  put(bytes, version);
  put(bytes, position_);
  for (uint32_t word : words_) put(bytes, word);
  put(bytes, crc32(bytes));
  return bytes;
}

void Mt19937::restore(std::span<const uint8_t> bytes) {
  constexpr size_t crc_at = words_at + 4 * word_count;
  static_assert(crc_at + 4 == snapshot_size);
  const size_t compared = std::min(bytes.size(), magic.size());
  if (bytes.empty() || !std::equal(bytes.begin(), bytes.begin() + compared, magic.begin())) {
    refuse("Expected a snapshot of an Mt19937, got other bytes.");
  }
  if (bytes.size() >= position_at) {
    const auto found = get<uint32_t>(bytes, version_at);
    if (found != version) {
      refuse("Expected a snapshot of version " + std::to_string(version) + ", got version " +
             std::to_string(found) + (found > version ? ", made by a newer mlx-sampling." : "."));
    }
  }
  if (bytes.size() != snapshot_size) {
    refuse("Expected a snapshot of " + std::to_string(snapshot_size) + " bytes, got " +
           std::to_string(bytes.size()) + ": it is truncated or has something appended.");
  }
  if (get<uint32_t>(bytes, crc_at) != crc32(bytes.first(crc_at))) {
    refuse("The checksum does not match: the snapshot is damaged.");
  }
  std::array<uint32_t, word_count> words;
  for (size_t i = 0; i < word_count; ++i) words[i] = get<uint32_t>(bytes, words_at + 4 * i);
  // No seed leads here, and the engine would give zeros for ever.
  if (words[0] >> 31 == 0 &&
      std::all_of(words.begin() + 1, words.end(), [](auto w) { return w == 0; })) {
    refuse("The state is all zeros: the snapshot is no Mt19937's.");
  }
  words_ = words;
  position_ = get<uint64_t>(bytes, position_at);
  index_ = position_ == 0 ? word_count : static_cast<size_t>((position_ - 1) % word_count) + 1;
}

}  // namespace mlx_sampling
