// The stages of a chain that need nothing but numbers; users see params.py and chain.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "core/error.h"
#include "core/fast_paths.h"
#include "core/samplers/adaptive_p.h"
#include "core/samplers/dist.h"
#include "core/samplers/dynamic_temperature.h"
#include "core/samplers/greedy.h"
#include "core/samplers/logit_bias.h"
#include "core/samplers/min_p.h"
#include "core/samplers/mirostat.h"
#include "core/samplers/temperature.h"
#include "core/samplers/top_k.h"
#include "core/samplers/top_n_sigma.h"
#include "core/samplers/top_p.h"
#include "core/samplers/typical_p.h"
#include "core/samplers/xtc.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace mlx_sampling {
namespace {

using HostRow = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void fill_candidates(const HostRow& row, const Bytes& array) {
  if (array.size() < row.size() * sizeof(Candidate)) {
    refuse("[fill_candidates] Expected room for ", row.size(), " candidates.");
  }
  auto* data = reinterpret_cast<Candidate*>(array.data());
  for (size_t i = 0; i < row.size(); ++i) data[i] = {static_cast<uint32_t>(i), row.data()[i], 0};
}

void bind_stages(nb::module_& m) {
  nb::class_<Stage>(m, "Stage", "One stage of a chain: immutable, shared between requests.")
      .def_prop_ro("name", &Stage::name);
  nb::class_<Temperature, Stage>(m, "Temperature", "Divides the logits; see temperature.h.")
      .def(nb::init<double>(), "temperature"_a);
  nb::class_<LogitBias, Stage>(m, "LogitBias", "Adds to some logits; see logit_bias.h.")
      .def(
          "__init__",
          [](LogitBias* self, const std::vector<std::pair<uint32_t, float>>& entries) {
            std::vector<LogitBiasEntry> biases;
            for (const auto& [id, bias] : entries) biases.push_back({id, bias});
            new (self) LogitBias(std::move(biases));
          },
          "entries"_a);
  nb::class_<TopNSigma, Stage>(m, "TopNSigma", "Masks the far tail; see top_n_sigma.h.")
      .def(nb::init<double>(), "n"_a);
  nb::class_<TopK, Stage>(m, "TopK", "Keeps the greatest logits; see top_k.h.")
      .def(nb::init<int64_t>(), "k"_a);
  nb::class_<TypicalP, Stage>(m, "TypicalP", "Keeps typical candidates; see typical_p.h.")
      .def(nb::init<double, int64_t>(), "p"_a, "min_keep"_a = 1);
  nb::class_<TopP, Stage>(m, "TopP", "Keeps the nucleus; see top_p.h.")
      .def(nb::init<double, int64_t>(), "p"_a, "min_keep"_a = 1);
  nb::class_<MinP, Stage>(m, "MinP", "Keeps p near the greatest; see min_p.h.")
      .def(nb::init<double, int64_t>(), "p"_a, "min_keep"_a = 1);
  nb::class_<Xtc, Stage>(m, "Xtc", "Drops top choices now and then; see xtc.h.")
      .def(nb::init<double, double, int64_t>(), "probability"_a, "threshold"_a, "min_keep"_a = 1);
  nb::class_<DynamicTemperature, Stage>(m, "DynamicTemperature",
                                        "Divides by what entropy asks; see "
                                        "dynamic_temperature.h.")
      .def(nb::init<double, double, double>(), "temperature"_a, "range"_a, "exponent"_a);
  nb::class_<Mirostat, Stage>(m, "Mirostat", "Holds the surprise, version 1; see mirostat.h.")
      .def(nb::init<double, double, int64_t, int64_t>(), "tau"_a, "eta"_a, "vocab_size"_a,
           "m"_a = 100);
  nb::class_<MirostatV2, Stage>(m, "MirostatV2", "Holds the surprise, version 2; see mirostat.h.")
      .def(nb::init<double, double>(), "tau"_a, "eta"_a);
  nb::class_<AdaptiveP, Stage>(m, "AdaptiveP", "Holds the probability; see adaptive_p.h.")
      .def(nb::init<double, double>(), "target"_a, "decay"_a);
  nb::class_<Dist, Stage>(m, "Dist", "Draws from the softmax; see dist.h.").def(nb::init<>());
  nb::class_<Greedy, Stage>(m, "Greedy", "Picks the first maximum; see greedy.h.")
      .def(nb::init<>());
}

}  // namespace

void bind_sampler(nb::module_& m) {
  bind_stages(m);

  m.def("fill_candidates", &fill_candidates, "row"_a, "array"_a,
        "For benchmarks: fills memory as llama.cpp's callers fill their candidate array.");
  m.def("set_fast_paths", &set_fast_paths, "on"_a, "For tests: see fast_paths.h.");
}

}  // namespace mlx_sampling
