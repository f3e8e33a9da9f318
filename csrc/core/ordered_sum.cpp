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

// Moves by addends between bounds, with those left out, and marked, that are not known.
MLX_SAMPLING_CLONES Moves bounded_moves(float start, const float* __restrict low,
                                        const float* __restrict high, size_t count, Range range,
                                        int32_t* __restrict open) {
  const float per_unit = 0.5f / range.half;
  int32_t units = 0;
  int32_t unusable = 0;
  for (size_t i = 0; i < count; ++i) {
    const float moved = (start + low[i]) - start;
    const float other = (start + high[i]) - start;
    const int32_t unknown = static_cast<int32_t>(!(moved == other)) |
                            static_cast<int32_t>(std::abs(low[i] - moved) == range.half) |
                            static_cast<int32_t>(std::abs(high[i] - other) == range.half);
    const float capped = moved < range.low ? moved : range.low;
    const auto in_units = static_cast<int32_t>((capped > 0 ? capped : 0) * per_unit);
    open[i] = unknown;
    unusable |= static_cast<int32_t>(moved < 0);
    units += in_units & (unknown - 1);
  }
  return {2.0 * range.half * units, unusable == 0};
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

bool add_between(float& sum, const float* low, const float* high, size_t count, size_t first,
                 std::vector<uint32_t>& open) {
  const Range range = range_around(sum);
  if (!(range.low < range.high)) return count == 0;
  std::array<int32_t, block> marks;
  double moved = sum;
  for (size_t i = 0; i < count; i += block) {
    const size_t size = std::min(block, count - i);
    const Moves moves = bounded_moves(sum, low + i, high + i, size, range, marks.data());
    moved += moves.sum;
    if (!moves.usable || !(moved < range.high)) return false;
    for (size_t j = 0; j < size; ++j) {
      if (marks[j] != 0) open.push_back(static_cast<uint32_t>(first + i + j));
    }
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
