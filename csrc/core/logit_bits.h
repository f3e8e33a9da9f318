// A logit seen as its bits: the integer key that orders it, and its nonfinite tests.
// Keys are used in place of float comparisons so that NaN, -0.0 and denormals come out the same on
// every backend, whatever its float mode (flush to zero, fast math).
#pragma once

#include <cstdint>
#include <limits>

namespace mlx_sampling {

// Key of a logit: its magnitude bits, negated when the sign is set. -0.0 and 0.0 have key 0; keys
// order as the floats do; +inf is `inf_key`, -inf is `-inf_key`, a NaN lies beyond one of the two.
template <typename WordT, typename KeyT, KeyT kInf>
struct LogitBits {
  using Word = WordT;
  using Key = KeyT;
  static constexpr Key inf_key = kInf;

  static constexpr Key key(Word word) {
    const Key sign = static_cast<Key>(static_cast<Key>(word) >> (8 * sizeof(Key) - 1));
    const Key magnitude =
        static_cast<Key>(word & static_cast<Word>(std::numeric_limits<Key>::max()));
    return static_cast<Key>((magnitude ^ sign) - sign);
  }

  // The bits that have this key, those of 0.0 for 0.
  static constexpr Word word(Key key) {
    const Word sign = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));
    return key >= 0 ? static_cast<Word>(key) : static_cast<Word>(sign | static_cast<Word>(-key));
  }
};

using Float32Bits = LogitBits<uint32_t, int32_t, 0x7F800000>;
using Float16Bits = LogitBits<uint16_t, int16_t, 0x7C00>;
using BFloat16Bits = LogitBits<uint16_t, int16_t, 0x7F80>;

// What greedy_argmax returns in place of a token.
inline constexpr uint32_t no_token = 0xFFFFFFFFu;

// What a -inf logit means to greedy_argmax.
enum class NegInf { error, masked };

}  // namespace mlx_sampling
