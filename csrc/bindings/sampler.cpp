// What python/mlx_sampling/sampler.py is built on; users see that module.
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <vector>

#include "bindings/bindings.h"
#include "core/chain.h"
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
#include "ops/host_row.h"

namespace nb = nanobind;
namespace mx = mlx::core;
using namespace nb::literals;

namespace mlx_sampling {
namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;
using HostRow = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Column = nb::ndarray<nb::numpy, T, nb::ndim<1>>;

template <typename T, typename Range, typename Field>
Column<T> column(const Range& range, Field field) {
  auto values = std::make_unique<T[]>(range.size());
  std::transform(range.begin(), range.end(), values.get(), field);
  nb::capsule owner(values.get(), [](void* p) noexcept { delete[] static_cast<T*>(p); });
  return Column<T>(values.release(), {range.size()}, owner);
}

Column<float> row_of(const RequestState& state) {
  return column<float>(state.row(), [](float logit) { return logit; });
}

std::tuple<Column<uint32_t>, Column<float>, Column<float>> candidates_of(
    const RequestState& state) {
  const auto& data = state.candidates.data;
  return {column<uint32_t>(data, [](const Candidate& c) { return c.id; }),
          column<float>(data, [](const Candidate& c) { return c.logit; }),
          column<float>(data, [](const Candidate& c) { return c.p; })};
}

Column<uint32_t> history_of(const RequestState& state) {
  return column<uint32_t>(state.history.tokens(), [](uint32_t token) { return token; });
}

void set_row(RequestState& state, const HostRow& row) {
  nb::gil_scoped_release release;
  state.copy_row({row.data(), row.size()});
}

void fill_candidates(const HostRow& row, const Bytes& array) {
  if (array.size() < row.size() * sizeof(Candidate)) {
    throw std::invalid_argument("[fill_candidates] Expected room for every candidate.");
  }
  auto* data = reinterpret_cast<Candidate*>(array.data());
  for (size_t i = 0; i < row.size(); ++i) data[i] = {static_cast<uint32_t>(i), row.data()[i], 0};
}

std::optional<std::tuple<float, float, std::optional<uint32_t>, float>> average_of(
    const RequestState& state) {
  if (!state.adaptive_average) return std::nullopt;
  const AdaptiveAverage& average = *state.adaptive_average;
  return std::tuple(average.weighted_sum, average.total_weight, average.pending_token,
                    average.pending_p);
}

// The error class is Python's: it has two bases.
void translate(const std::exception_ptr& error, void*) {
  try {
    std::rethrow_exception(error);
  } catch (const NonfiniteLogits& e) {
    const nb::object type =
        nb::module_::import_("mlx_sampling.errors").attr("NonfiniteLogitsError");
    PyErr_SetString(type.ptr(), e.what());
  }
}

void bind_stages(nb::module_& m) {
  nb::class_<Sampler>(m, "Stage", "One stage of a chain: immutable, shared between requests.")
      .def_prop_ro("name", &Sampler::name);
  nb::class_<Temperature, Sampler>(m, "Temperature", "Divides the logits; see temperature.h.")
      .def(nb::init<double>(), "temperature"_a);
  nb::class_<LogitBias, Sampler>(m, "LogitBias", "Adds to some logits; see logit_bias.h.")
      .def(
          "__init__",
          [](LogitBias* self, const std::vector<std::pair<uint32_t, float>>& entries) {
            std::vector<LogitBiasEntry> biases;
            for (const auto& [id, bias] : entries) biases.push_back({id, bias});
            new (self) LogitBias(std::move(biases));
          },
          "entries"_a);
  nb::class_<TopNSigma, Sampler>(m, "TopNSigma", "Masks the far tail; see top_n_sigma.h.")
      .def(nb::init<double>(), "n"_a);
  nb::class_<TopK, Sampler>(m, "TopK", "Keeps the greatest logits; see top_k.h.")
      .def(nb::init<int64_t>(), "k"_a);
  nb::class_<TypicalP, Sampler>(m, "TypicalP", "Keeps typical candidates; see typical_p.h.")
      .def(nb::init<double, int64_t>(), "p"_a, "min_keep"_a = 1);
  nb::class_<TopP, Sampler>(m, "TopP", "Keeps the nucleus; see top_p.h.")
      .def(nb::init<double, int64_t>(), "p"_a, "min_keep"_a = 1);
  nb::class_<MinP, Sampler>(m, "MinP", "Keeps p near the greatest; see min_p.h.")
      .def(nb::init<double, int64_t>(), "p"_a, "min_keep"_a = 1);
  nb::class_<Xtc, Sampler>(m, "Xtc", "Drops top choices now and then; see xtc.h.")
      .def(nb::init<double, double, int64_t>(), "probability"_a, "threshold"_a, "min_keep"_a = 1);
  nb::class_<DynamicTemperature, Sampler>(m, "DynamicTemperature",
                                          "Divides by what entropy asks; see "
                                          "dynamic_temperature.h.")
      .def(nb::init<double, double, double>(), "temperature"_a, "range"_a, "exponent"_a);
  nb::class_<Mirostat, Sampler>(m, "Mirostat", "Holds the surprise, version 1; see mirostat.h.")
      .def(nb::init<double, double, int64_t, int64_t>(), "tau"_a, "eta"_a, "vocab_size"_a,
           "m"_a = 100);
  nb::class_<MirostatV2, Sampler>(m, "MirostatV2", "Holds the surprise, version 2; see mirostat.h.")
      .def(nb::init<double, double>(), "tau"_a, "eta"_a);
  nb::class_<AdaptiveP, Sampler>(m, "AdaptiveP", "Holds the probability; see adaptive_p.h.")
      .def(nb::init<double, double>(), "target"_a, "decay"_a);
  nb::class_<Dist, Sampler>(m, "Dist", "Draws from the softmax; see dist.h.").def(nb::init<>());
  nb::class_<Greedy, Sampler>(m, "Greedy", "Picks the first maximum; see greedy.h.")
      .def(nb::init<>());
}

}  // namespace

void bind_sampler(nb::module_& m) {
  nb::register_exception_translator(translate);
  bind_stages(m);

  m.def("fill_candidates", &fill_candidates, "row"_a, "array"_a,
        "For benchmarks: fills memory as llama.cpp's callers fill their candidate array.");
  m.def("set_fast_paths", &set_fast_paths, "on"_a, "For tests: see fast_paths.h.");
  nb::class_<RequestState>(m, "RequestState", "What a request changes; see request_state.h.")
      .def(
          "__init__",
          [](RequestState* self, uint32_t seed, std::string_view reference,
             std::string_view neg_inf) {
            new (self) RequestState(seed, parse_reference(reference), parse_neg_inf(neg_inf));
          },
          "seed"_a, nb::kw_only(), "reference"_a = "libc++", "neg_inf"_a = "error")
      .def_prop_ro("seed", &RequestState::seed)
      .def_prop_ro("reference", [](const RequestState& s) { return reference_name(s.reference()); })
      .def_prop_ro("distribution",
                   [](RequestState& s) -> Mt19937& { return s.streams.distribution; })
      .def_prop_ro("xtc", [](RequestState& s) -> Mt19937& { return s.streams.xtc; })
      .def_prop_ro("mirostat", [](RequestState& s) -> Mt19937& { return s.streams.mirostat; })
      .def_prop_ro("adaptive", [](RequestState& s) -> Mt19937& { return s.streams.adaptive; })
      .def("refill_row", &refill_row, "row"_a, Release(), "Opens a row from an mx.array.")
      .def("set_row", &set_row, nb::arg("row").noconvert(), "Opens a row from float32 host memory.")
      .def("finish_row", &RequestState::finish_row, Release(), "Checks and retains the open row.")
      .def_prop_ro("has_row", &RequestState::has_row)
      .def("row", &row_of, "A copy of the retained row.")
      .def("candidates", &candidates_of, "Ids, logits and p that the last step left.")
      .def_ro("mirostat_mu", &RequestState::mirostat_mu, "None before mirostat's first step.")
      .def_prop_ro("adaptive_average", &average_of,
                   "Weighted sum, total weight, pending token and its p; None before the first "
                   "step of adaptive_p.")
      .def("history", &history_of, "The accepted tokens, oldest first.")
      .def(
          "fork", [](const RequestState& s) { return RequestState(s); }, Release(),
          "A copy that goes its own way.")
      .def("reset", &RequestState::reset);

  nb::class_<Chain>(m, "Chain", "Stages in order, the last of which selects; see chain.h.")
      .def(
          "__init__",
          [](Chain* self, const std::vector<std::shared_ptr<Sampler>>& stages) {
            new (self) Chain({stages.begin(), stages.end()});
          },
          "stages"_a)
      .def("sample", &Chain::sample, "state"_a, Release(), "A token from the state's row.")
      .def("accept", &Chain::accept, "state"_a, "token"_a, Release(),
           "Adds a token to the state's history and tells the stages.");
}

}  // namespace mlx_sampling
