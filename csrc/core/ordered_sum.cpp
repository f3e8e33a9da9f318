#include "core/ordered_sum.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/clones.h"
#include "core/fast_paths.h"

namespace mlx_sampling {
namespace {

constexpr size_t block = 128;

// Where a sum is: at least `low`, a power of two, and less than `high`, the next one.
struct Range {
  float low;
  float high;
  float half;  // of a unit in the last place
};

// Empty for what is not positive, and near the ends of float's range.
Range range_around(float sum) {
  if (!(sum >= 1e-30f && sum <= 1e30f)) return {1, 0, 0};
  const float low = std::ldexp(1.0f, std::ilogb(sum));
  return {low, 2 * low, std::ldexp(low, -std::numeric_limits<float>::digits)};
}

struct Moves {
  double sum;
  bool usable;  // no addend is halfway, or negative, or NaN
};

// Counts moves in units of the last place: a sum of integers is vectorised, one of floats is not.
// `low` or more in one move is out of the range whatever the rest is, and counts as `low`.
class Units {
 public:
  explicit Units(const Range& range)
      : limit_(range.low), half_(range.half), per_unit_(0.5f / range.half) {}

  [[gnu::always_inline]] void add(float moved, float error) {
    const float capped = moved < limit_ ? moved : limit_;
    units_ += static_cast<int32_t>((capped > 0 ? capped : 0) * per_unit_);
    unusable_ |= static_cast<int32_t>(std::abs(error) == half_) | static_cast<int32_t>(moved < 0);
  }

  Moves moves() const { return {2.0 * half_ * units_, unusable_ == 0}; }

 private:
  float limit_;
  float half_;
  float per_unit_;
  int32_t units_ = 0;  // at most `block` times 2**23
  int32_t unusable_ = 0;
};

// Of at most `block` addends.
MLX_SAMPLING_CLONES Moves float_moves(float start, const float* x, size_t count, Range range) {
  Units units(range);
  for (size_t i = 0; i < count; ++i) {
    const float moved = (start + x[i]) - start;
    units.add(moved, x[i] - moved);
  }
  return units.moves();
}

MLX_SAMPLING_CLONES Moves square_moves(float start, const float* x, float mean, Range range) {
  Units units(range);
  for (size_t i = 0; i < block; ++i) {
    const double distance = x[i] - mean;
    const double sum = start + distance * distance;
    const float rounded = static_cast<float>(sum);
    // An error next to a half may be rounded to one, which costs time only.
    units.add(rounded - start, static_cast<float>(sum - rounded));
  }
  return units.moves();
}

struct DoubleMoves {
  double sum;
  bool usable;  // no addend is halfway, or too large to be looked at
};

// Of a block. `low` is the power of two at or below the sum: 1.5 times it has the same last place,
// and adding less than half of it stays where that holds. Moves are multiples of that place and
// their sums below 2**53 of it, so any order of them is exact.
MLX_SAMPLING_CLONES DoubleMoves double_moves(const float* x, double low) {
  constexpr size_t lanes = 8;
  static_assert(block % lanes == 0);
  const double base = 1.5 * low;
  const double half = std::ldexp(low, -std::numeric_limits<double>::digits);
  const double limit = low / 64;  // a lane of such adds up to less than `low`, a block to 2 `low`
  std::array<double, lanes> sums{};
  std::array<int64_t, lanes> unusable{};
  for (size_t i = 0; i < block; i += lanes) {
    for (size_t lane = 0; lane < lanes; ++lane) {
      const double addend = x[i + lane];
      const double moved = (base + addend) - base;
      sums[lane] += moved;
      unusable[lane] |= static_cast<int64_t>(std::abs(addend - moved) == half) |
                        static_cast<int64_t>(!(addend < limit));
    }
  }
  DoubleMoves moves{0, true};
  for (size_t lane = 0; lane < lanes; ++lane) {
    moves.sum += sums[lane];
    moves.usable &= unusable[lane] == 0;
  }
  return moves;
}

// `one` adds one addend; `moves_of` looks at a block of them.
template <typename One, typename MovesOf>
float sum_by_blocks(float sum, size_t count, One&& one, MovesOf&& moves_of) {
  size_t i = 0;
  if (fast_paths()) {
    for (; i + block <= count; i += block) {
      const Range range = range_around(sum);
      if (range.low < range.high) {
        const Moves moves = moves_of(sum, i, range);
        if (moves.usable && sum + moves.sum < range.high) {
          sum = static_cast<float>(sum + moves.sum);
          continue;
        }
      }
      for (size_t j = i; j < i + block; ++j) sum = one(sum, j);
    }
  }
  for (; i < count; ++i) sum = one(sum, i);
  return sum;
}

}  // namespace

float add_in_order(float start, const float* x, size_t count) {
  return sum_by_blocks(
      start, count, [=](float sum, size_t i) { return sum + x[i]; },
      [=](float sum, size_t i, const Range& range) {
        return float_moves(sum, x + i, block, range);
      });
}

double add_in_order(double start, const float* x, size_t count) {
  double sum = start;
  size_t i = 0;
  if (fast_paths()) {
    for (; i + block <= count; i += block) {
      if (sum >= 1e-30 && sum <= 1e30) {
        const double low = std::ldexp(1.0, std::ilogb(sum));
        const DoubleMoves moves = double_moves(x + i, low);
        if (moves.usable && sum + moves.sum < 2 * low) {
          sum += moves.sum;
          continue;
        }
      }
      for (size_t j = i; j < i + block; ++j) sum += x[j];
    }
  }
  for (; i < count; ++i) sum += x[i];
  return sum;
}

bool add_in_any_order(float& sum, const float* x, size_t count) {
  const Range range = range_around(sum);
  if (!(range.low < range.high)) return count == 0;
  double moved = sum;
  for (size_t i = 0; i < count; i += block) {
    const Moves moves = float_moves(sum, x + i, std::min(block, count - i), range);
    moved += moves.sum;
    if (!moves.usable || !(moved < range.high)) return false;
  }
  sum = static_cast<float>(moved);
  return true;
}

float add_squares_in_order(float start, const float* x, size_t count, float mean) {
  return sum_by_blocks(
      start, count,
      [=](float sum, size_t i) {
        const double distance = x[i] - mean;
        return static_cast<float>(sum + distance * distance);
      },
      [=](float sum, size_t i, const Range& range) {
        return square_moves(sum, x + i, mean, range);
      });
}

}  // namespace mlx_sampling
