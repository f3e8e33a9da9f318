#include "core/exp_floats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "core/clones.h"
#include "core/fast_paths.h"

#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 27)
#define MLX_SAMPLING_BOUNDED_EXPF
#endif
#endif

namespace mlx_sampling {

#ifdef MLX_SAMPLING_BOUNDED_EXPF
namespace {

// glibc's expf: 1.69 * 2**-34 relative before rounding. Ours: r**10 / 10! with |r| <= ln(2) / 2,
// less than 2**-37.
constexpr double widening = 1.7e-10;
static_assert(widening > 1.69 / (1ull << 34) + 1.0 / (1ull << 36));

constexpr size_t group = 16;

// `uncertain`, which no exponential is, where libm has to be asked. Below -104 expf is 0; below
// -87 it may be denormal, for which the bound does not hold.
constexpr float uncertain = -1.0f;

MLX_SAMPLING_CLONES void certain_exps(const float* __restrict x, size_t count,
                                      float* __restrict out) {
  constexpr double log2_e = 1.4426950408889634;
  constexpr double ln_2 = 0.6931471805599453;
  constexpr double to_integer = 6755399441055744.0;  // 1.5 * 2**52: the integer is in the low bits
  for (size_t i = 0; i < count; ++i) {
    const double value = x[i];
    const double shifted = value * log2_e + to_integer;
    const double r = value - (shifted - to_integer) * ln_2;
    double y = 1.0 / 362880;
    y = y * r + 1.0 / 40320;
    y = y * r + 1.0 / 5040;
    y = y * r + 1.0 / 720;
    y = y * r + 1.0 / 120;
    y = y * r + 1.0 / 24;
    y = y * r + 1.0 / 6;
    y = y * r + 0.5;
    y = y * r + 1.0;
    y = y * r + 1.0;
    const uint64_t exponent = std::bit_cast<uint64_t>(shifted) << 52;
    y = std::bit_cast<double>(std::bit_cast<uint64_t>(y) + exponent);
    const float low = static_cast<float>(y * (1 - widening));
    const float high = static_cast<float>(y * (1 + widening));
    const float normal = low == high ? low : uncertain;
    const float in_range = x[i] >= -87.0f && x[i] <= 87.0f ? normal : uncertain;
    out[i] = x[i] < -104.0f ? 0.0f : in_range;
  }
}

}  // namespace

void exp_floats(const float* x, size_t count, float* out) {
  if (!fast_paths()) {
    for (size_t i = 0; i < count; ++i) out[i] = std::exp(x[i]);
    return;
  }
  certain_exps(x, count, out);
  for (size_t begin = 0; begin < count; begin += group) {
    const size_t end = std::min(begin + group, count);
    uint32_t any = 0;
    for (size_t i = begin; i < end; ++i) any |= std::bit_cast<uint32_t>(out[i]);
    if (any >> 31 == 0) continue;
    for (size_t i = begin; i < end; ++i) {
      if (out[i] < 0) out[i] = std::exp(x[i]);
    }
  }
}

#else

void exp_floats(const float* x, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) out[i] = std::exp(x[i]);
}

#endif

}  // namespace mlx_sampling
