#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <string_view>

#include "bindings/bindings.h"
#include "core/mt19937.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace mlx_sampling {
namespace {

constexpr const char* class_doc = R"doc(
The C++ standard's mt19937 engine, and the draws that standard libraries take from it.

Every platform gives the same words and the same floats. `reference` says whose conversions are
meant: "libc++" (the default) or "libstdc++". One engine is used by one thread at a time.

Args:
    seed: int in [0, 2**32 - 1].

Raises:
    ValueError: The seed is out of range.

Example:
    >>> from mlx_sampling import Mt19937
    >>> rng = Mt19937(5489)
    >>> rng.next()
    3499211612
    >>> saved = rng.snapshot()
    >>> first = rng.discrete([0.5, 0.25, 0.25])
    >>> rng.restore(saved)
    >>> rng.discrete([0.5, 0.25, 0.25]) == first, rng.position
    (True, 3)
)doc";

constexpr const char* next_doc = R"doc(
Draws one word.

Returns:
    int in [0, 2**32 - 1].
)doc";

constexpr const char* uniform_f32_doc = R"doc(
Draws a float32 from one word: the word over 2**32, computed in float32.

Args:
    reference: "libc++": exactly 1.0 comes out for the 128 greatest words. "libstdc++":
        1 - 2**-24 there. Default: "libc++".

Returns:
    float in [0, 1].

Raises:
    ValueError: Unknown `reference`.
)doc";

constexpr const char* uniform_f64_doc = R"doc(
Draws a float64 from two words: (first + second * 2**32) / 2**64.

Args:
    reference: "libc++": exactly 1.0 can come out, once in 2**54 draws. "libstdc++":
        1 - 2**-53 there. Default: "libc++".

Returns:
    float in [0, 1].

Raises:
    ValueError: Unknown `reference`.
)doc";

constexpr const char* discrete_doc = R"doc(
Draws an index in proportion to weights, as `std::discrete_distribution` does.

The weights are normalised and cumulated in float64; the index is where a `uniform_f64` falls. At
the very edge (a uniform of 0 or 1) that can be an index of weight 0, as in the libraries.

Args:
    weights: Finite numbers >= 0, at least one, with a positive finite sum. They need not add to 1.
    reference: "libc++": two words, the first cumulated weight above the uniform. "libstdc++":
        two words, the first that is not below it; one weight draws none. Default: "libc++".

Returns:
    int in [0, len(weights)).

Raises:
    ValueError: Bad weights or unknown `reference`; nothing is drawn then.
)doc";

constexpr const char* snapshot_doc = R"doc(
Returns the engine's exact state as bytes that any platform's `restore` takes.

They hold a version and a checksum.
)doc";

constexpr const char* restore_doc = R"doc(
Continues from where `snapshot` was taken.

Args:
    data: What `snapshot` returned.

Raises:
    ValueError: Foreign, damaged or truncated bytes, or another version; the engine is as it was.
)doc";

uint32_t seed_of(const nb::int_& seed) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(seed.ptr(), &overflow);
  if (overflow != 0 || value < 0 || value > UINT32_MAX) {
    const std::string shown = nb::repr(seed).c_str();
    throw nb::value_error(("[seed] Expected an int in [0, 2**32 - 1], got " + shown + ".").c_str());
  }
  return static_cast<uint32_t>(value);
}

}  // namespace

void bind_rng(nb::module_& m) {
  nb::class_<Mt19937>(m, "Mt19937", class_doc)
      .def(
          "__init__",
          [](Mt19937* self, const nb::int_& seed) { new (self) Mt19937(seed_of(seed)); }, "seed"_a)
      .def("next", &Mt19937::next, next_doc)
      .def(
          "uniform_f32",
          [](Mt19937& self, std::string_view reference) {
            return self.uniform_f32(parse_reference(reference));
          },
          "reference"_a = "libc++", uniform_f32_doc)
      .def(
          "uniform_f64",
          [](Mt19937& self, std::string_view reference) {
            return self.uniform_f64(parse_reference(reference));
          },
          "reference"_a = "libc++", uniform_f64_doc)
      .def(
          "discrete",
          [](Mt19937& self, const std::vector<double>& weights, std::string_view reference) {
            return self.discrete(weights, parse_reference(reference));
          },
          "weights"_a, "reference"_a = "libc++", discrete_doc)
      .def_prop_ro("position", &Mt19937::position, "Words drawn since the seed.")
      .def(
          "snapshot",
          [](const Mt19937& self) {
            const std::vector<uint8_t> bytes = self.snapshot();
            return nb::bytes(bytes.data(), bytes.size());
          },
          snapshot_doc)
      .def(
          "restore",
          [](Mt19937& self, const nb::bytes& data) {
            self.restore({static_cast<const uint8_t*>(data.data()), data.size()});
          },
          "data"_a, restore_doc);
}

}  // namespace mlx_sampling
