// The platform's expf over many floats at once, with the same bits.
#pragma once

#include <cstddef>

namespace mlx_sampling {

// out[i] = std::exp(x[i]). Why it is exact: a value is computed in double with a small error, and
// then widened both ways by more than that error and libm's own together. Where both ends round to
// one float, libm's value, which lies between them, rounds to it too; elsewhere (some 1 in 250)
// libm itself is called. That needs a bound on libm's error, and glibc from 2.27 on documents one;
// with any other libm every value is libm's own.
void exp_floats(const float* x, size_t count, float* out);

}  // namespace mlx_sampling
