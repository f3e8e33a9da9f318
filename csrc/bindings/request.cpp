// A request: its state, its chain, and the steps that take rows. Users see sampler.py and batch.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/convert.h"
#include "core/chain.h"
#include "core/error.h"
#include "core/logprobs.h"
#include "core/pick.h"
#include "core/snapshot.h"
#include "core/step.h"
#include "ops/host_row.h"

namespace nb = nanobind;
namespace mx = mlx::core;
using namespace nb::literals;

namespace mlx_sampling {
namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;
using HostRow = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using HostBatch = nb::ndarray<const float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Timings = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>;

Column<float> row_of(const RequestState& state) {
  const InUse use(state);
  return column<float>(state.row(), [](float logit) { return logit; });
}

std::tuple<Column<uint32_t>, Column<float>, Column<float>> candidates_of(RequestState& state) {
  const InUse use(state);
  place_candidates(state);
  const auto& data = state.candidates.data;
  return {column<uint32_t>(data, [](const Candidate& c) { return c.id; }),
          column<float>(data, [](const Candidate& c) { return c.logit; }),
          column<float>(data, [](const Candidate& c) { return c.p; })};
}

std::pair<Column<uint32_t>, Column<float>> law_of(RequestState& state) {
  const InUse use(state);
  place_candidates(state);
  const auto& data = state.candidates.data;
  return {column<uint32_t>(data, [](const Candidate& c) { return c.id; }),
          column<float>(data, [](const Candidate& c) { return c.p; })};
}

Column<uint32_t> history_of(const RequestState& state) {
  const InUse use(state);
  return column<uint32_t>(state.history.tokens(), [](uint32_t token) { return token; });
}

std::optional<std::tuple<float, float, std::optional<uint32_t>, float>> average_of(
    const RequestState& state) {
  const InUse use(state);
  if (!state.adaptive_average) return std::nullopt;
  const AdaptiveAverage& average = *state.adaptive_average;
  return std::tuple(average.weighted_sum, average.total_weight, average.pending_token,
                    average.pending_p);
}

void set_row(RequestState& state, const HostRow& row) {
  const nb::gil_scoped_release release;
  const InUse use(state);
  state.copy_row({row.data(), row.size()});
}

std::pair<uint32_t, Timings> as_tuple(const Step& step) {
  const auto& [forward, readback, finite_scan, chain, grammar] = step.timings;
  return {step.token, {forward, readback, finite_scan, chain, grammar}};
}

std::pair<uint32_t, Timings> step_of_array(const Chain& chain, RequestState& state,
                                           const mx::array& row) {
  return as_tuple(step(chain, state, row));
}

std::pair<uint32_t, Timings> step_of_host_row(const Chain& chain, RequestState& state,
                                              const HostRow& row) {
  const nb::gil_scoped_release release;
  return as_tuple(step(chain, state, [&] { state.copy_row({row.data(), row.size()}); }));
}

// A token and its timings per row, or the exception.
nb::list as_list(const std::vector<StepResult>& results) {
  nb::list list;
  for (const StepResult& result : results) {
    list.append(result.error ? error_object(result.error) : nb::cast(as_tuple(result.step)));
  }
  return list;
}

std::vector<Request> paired(const std::vector<Chain*>& chains,
                            const std::vector<RequestState*>& states) {
  if (chains.size() != states.size()) {
    refuse("[sample_batch] Expected as many chains as states, got ", chains.size(), " and ",
           states.size(), ".");
  }
  std::vector<Request> requests;
  for (size_t i = 0; i < chains.size(); ++i) requests.push_back({chains[i], states[i]});
  return requests;
}

nb::list batch_of_array(const std::vector<Chain*>& chains, const std::vector<RequestState*>& states,
                        const mx::array& rows, size_t threads) {
  const auto results = [&] {
    const nb::gil_scoped_release release;
    return step_batch(paired(chains, states), rows, threads);
  }();
  return as_list(results);
}

nb::list batch_of_host_rows(const std::vector<Chain*>& chains,
                            const std::vector<RequestState*>& states, const HostBatch& rows,
                            size_t threads) {
  const auto results = [&] {
    const nb::gil_scoped_release release;
    const auto requests = paired(chains, states);
    const size_t width = rows.shape(1);
    const auto fill = [&](size_t i) {
      requests[i].state->copy_row({rows.data() + i * width, width});
    };
    return step_batch(requests, fill, threads);
  }();
  return as_list(results);
}

nb::bytes snapshot_of(const RequestState& state) {
  const auto bytes = [&] {
    const nb::gil_scoped_release release;
    const InUse use(state);
    return snapshot(state);
  }();
  return nb::bytes(bytes.data(), bytes.size());
}

void restore_from(RequestState& state, const nb::bytes& bytes, std::optional<uint32_t> seed) {
  const nb::gil_scoped_release release;
  const InUse use(state);
  restore(state, {static_cast<const uint8_t*>(bytes.data()), bytes.size()}, seed);
}

std::vector<std::pair<uint32_t, double>> top_of(const Chain& chain, RequestState& state,
                                                std::string_view kind, size_t count) {
  const InUse use(state);
  std::vector<std::pair<uint32_t, double>> pairs;
  for (const auto& [token, logprob] : top_logprobs(chain, state, parse_logprob_kind(kind), count)) {
    pairs.emplace_back(token, logprob);
  }
  return pairs;
}

using Find = std::function<std::optional<size_t>(const nb::bytes&)>;

void constrain(RequestState& state, std::shared_ptr<const Grammar> grammar, bool masks_first,
               std::optional<std::vector<uint32_t>> tokens, Find find) {
  const InUse use(state);
  std::shared_ptr<GrammarTriggers> triggers;
  if (tokens || find) {
    triggers = std::make_shared<GrammarTriggers>();
    if (tokens) triggers->tokens = std::move(*tokens);
    if (find) {
      triggers->find = [find = std::move(find)](const std::string& text) {
        const nb::gil_scoped_acquire acquire;
        return find(nb::bytes(text.data(), text.size()));
      };
    }
  }
  state.grammar.emplace(std::move(grammar), masks_first, std::move(triggers));
}

// What is asked of a grammar, where there is one.
template <bool (GrammarState::*question)() const>
std::optional<bool> asked(const RequestState& state) {
  const InUse use(state);
  if (!state.grammar) return std::nullopt;
  return (*state.grammar.*question)();
}

void bind_state(nb::module_& m) {
  nb::class_<RequestState::Mark>(m, "Mark", "A place in a request's history to roll back to.")
      .def_ro("accepted", &RequestState::Mark::accepted, "Tokens of the history.");
  nb::class_<RequestState>(m, "RequestState", "What a request changes; see request_state.h.")
      .def(
          "__init__",
          [](RequestState* self, uint32_t seed, std::string_view reference,
             std::string_view neg_inf, size_t vocab_size) {
            new (self)
                RequestState(seed, parse_reference(reference), parse_neg_inf(neg_inf), vocab_size);
          },
          "seed"_a, nb::kw_only(), "reference"_a = "libc++", "neg_inf"_a = "error",
          "vocab_size"_a = 0)
      .def_prop_ro("seed", &RequestState::seed)
      .def_prop_ro("reference", [](const RequestState& s) { return reference_name(s.reference()); })
      .def_prop_ro("distribution",
                   [](RequestState& s) -> Mt19937& { return s.streams.distribution; })
      .def_prop_ro("xtc", [](RequestState& s) -> Mt19937& { return s.streams.xtc; })
      .def_prop_ro("mirostat", [](RequestState& s) -> Mt19937& { return s.streams.mirostat; })
      .def_prop_ro("adaptive", [](RequestState& s) -> Mt19937& { return s.streams.adaptive; })
      .def(
          "refill_row",
          [](RequestState& s, const mx::array& row) {
            const InUse use(s);
            refill_row(s, row);
          },
          "row"_a, Release(), "Opens a row from an mx.array.")
      .def("set_row", &set_row, nb::arg("row").noconvert(), "Opens a row from float32 host memory.")
      .def(
          "finish_row",
          [](RequestState& s) {
            const InUse use(s);
            s.finish_row();
          },
          Release(), "Checks and retains the open row.")
      .def_prop_ro("has_row", &RequestState::has_row)
      .def_prop_ro("width", &RequestState::width, "Of the rows; 0 where any will do.")
      .def("row", &row_of, "A copy of the retained row.")
      .def("candidates", &candidates_of, "Ids, logits and p that the last step left.")
      .def_ro("mirostat_mu", &RequestState::mirostat_mu, "None before mirostat's first step.")
      .def_prop_ro("adaptive_average", &average_of,
                   "Weighted sum, total weight, pending token and its p; None before the first "
                   "step of adaptive_p.")
      .def("constrain", &constrain, "grammar"_a, "masks_first"_a, "trigger_tokens"_a = nb::none(),
           "find_trigger"_a = nb::none(), "Puts the request under a grammar; see grammar_state.h.")
      .def_prop_ro("grammar_is_waiting", &asked<&GrammarState::is_waiting>,
                   "Whether a lazy grammar has not begun; None without a grammar.")
      .def_prop_ro("grammar_is_completed", &asked<&GrammarState::is_completed>,
                   "Whether the text may end; None without a grammar.")
      .def_prop_ro("grammar_is_terminated", &asked<&GrammarState::is_terminated>,
                   "Whether it has ended; None without a grammar.")
      .def("law", &law_of, "Ids and p of the candidates that the last step left.")
      .def(
          "mark",
          [](const RequestState& s) {
            const InUse use(s);
            return s.mark();
          },
          "Where the request stands; see request_state.h.")
      .def(
          "rollback",
          [](RequestState& s, const RequestState::Mark& mark) {
            const InUse use(s);
            s.rollback(mark);
          },
          "mark"_a, "Takes back what was accepted since the mark; the streams go on.")
      .def(
          "reseed",
          [](RequestState& s, uint32_t seed) {
            const InUse use(s);
            s.reseed(seed);
          },
          "seed"_a, "Starts every stream at another seed.")
      .def("history", &history_of, "The accepted tokens, oldest first.")
      .def(
          "fork",
          [](const RequestState& s) {
            const InUse use(s);
            return RequestState(s);
          },
          Release(), "A copy that goes its own way.")
      .def("snapshot", &snapshot_of, "The state without its row, as bytes; see snapshot.h.")
      .def("restore", &restore_from, "bytes"_a, "seed"_a = nb::none(),
           "Goes on where a snapshot was taken, of that seed where one is named.")
      .def(
          "reset",
          [](RequestState& s) {
            const InUse use(s);
            s.reset();
          },
          Release());
}

}  // namespace

void bind_request(nb::module_& m) {
  bind_state(m);
  nb::class_<Chain>(m, "Chain", "Stages in order, the last of which selects; see chain.h.")
      .def(
          "__init__",
          [](Chain* self, const std::vector<std::shared_ptr<Stage>>& stages) {
            new (self) Chain({stages.begin(), stages.end()});
          },
          "stages"_a)
      .def_prop_ro("names",
                   [](const Chain& chain) {
                     std::vector<std::string_view> names;
                     for (const auto& stage : chain.stages()) names.push_back(stage->name());
                     return names;
                   })
      .def(
          "sample",
          [](const Chain& chain, RequestState& s) {
            const InUse use(s);
            return pick(chain, s).token;
          },
          "state"_a, Release(), "A token from the state's row; see pick.h.")
      .def(
          "accept",
          [](const Chain& chain, RequestState& s, uint32_t token) {
            const InUse use(s);
            chain.accept(s, token);
          },
          "state"_a, "token"_a, Release(), "Adds a generated token; see chain.h.")
      .def(
          "accept_prompt",
          [](const Chain& chain, RequestState& s, const std::vector<uint32_t>& tokens) {
            const InUse use(s);
            chain.accept_prompt(s, tokens);
          },
          "state"_a, "tokens"_a, Release(), "Adds the prompt's tokens, all of them or none.")
      .def("step", &step_of_array, "state"_a, "row"_a, Release(),
           "A token, and nanoseconds of its phases, from an mx.array.")
      .def("step", &step_of_host_row, "state"_a, nb::arg("row").noconvert(),
           "The same from float32 host memory.")
      .def("top_logprobs", &top_of, "state"_a, "kind"_a, "count"_a, Release(),
           "Tokens and log probabilities; see logprobs.h.")
      .def(
          "logprob",
          [](const Chain& chain, RequestState& s, std::string_view kind, uint32_t token) {
            const InUse use(s);
            return logprob_of(chain, s, parse_logprob_kind(kind), token);
          },
          "state"_a, "kind"_a, "token"_a, Release(), "That of one token.");
  m.def("step_batch", &batch_of_array, "chains"_a, "states"_a, "rows"_a, "threads"_a,
        "Per row a token and its timings, or an exception; from an mx.array.");
  m.def("step_batch", &batch_of_host_rows, "chains"_a, "states"_a, nb::arg("rows").noconvert(),
        "threads"_a, "The same from float32 host memory.");
}

}  // namespace mlx_sampling
