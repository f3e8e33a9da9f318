// The stages that look back on accepted tokens, and those that know tokens' texts.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/convert.h"
#include "core/samplers/dry.h"
#include "core/samplers/dry_breakers.h"
#include "core/samplers/infill.h"
#include "core/samplers/penalties.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace mlx_sampling {
namespace {

using Sequences = std::vector<std::vector<uint32_t>>;

Sequences breakers_of(const std::vector<nb::bytes>& texts, const nb::bytes& breaker,
                      const nb::callable& tokenize) {
  return dry_breakers(
      strings(texts), {breaker.c_str(), breaker.size()}, [&](std::string_view rest) {
        return nb::cast<std::vector<uint32_t>>(tokenize(nb::bytes(rest.data(), rest.size())));
      });
}

}  // namespace

void bind_history(nb::module_& m) {
  nb::class_<Penalties, Stage>(m, "Penalties", "Penalises recent tokens; see penalties.h.")
      .def(
          "__init__",
          [](Penalties* self, int32_t last_n, double repeat, double freq, double present) {
            new (self) Penalties({last_n, repeat, freq, present});
          },
          "last_n"_a = 64, "repeat"_a = 1.0, "freq"_a = 0.0, "present"_a = 0.0);
  nb::class_<Dry, Stage>(m, "Dry", "Penalises repetitions; see dry.h.")
      .def(
          "__init__",
          [](Dry* self, double multiplier, double base, int32_t allowed_length,
             int32_t penalty_last_n, const Sequences& breakers) {
            new (self) Dry({multiplier, base, allowed_length, penalty_last_n, breakers});
          },
          "multiplier"_a, "base"_a = 1.75, "allowed_length"_a = 2, "penalty_last_n"_a = 64,
          "breakers"_a = Sequences{});
  nb::class_<Infill, Stage>(m, "Infill", "Fills a gap in a text; see infill.h.")
      .def(
          "__init__",
          [](Infill* self, const std::vector<nb::bytes>& texts,
             const std::vector<uint32_t>& end_of_generation, uint32_t end) {
            new (self) Infill({std::make_shared<const std::vector<std::string>>(strings(texts)),
                               end_of_generation, end});
          },
          "texts"_a, "end_of_generation"_a, "end"_a);
  m.def("dry_breakers", &breakers_of, "texts"_a, "breaker"_a, "tokenize"_a,
        "Token sequences that spell a breaker; see dry_breakers.h.");
}

}  // namespace mlx_sampling
