// Speculative acceptance: of distributions that the caller has, and of a request's own steps. Users
// see speculative.py and speculative_decoding.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "core/draft_step.h"
#include "core/error.h"
#include "ops/host_row.h"

namespace nb = nanobind;
namespace mx = mlx::core;
using namespace nb::literals;

namespace mlx_sampling {
namespace {

using Probs = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Ids = nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Row = std::pair<std::optional<Ids>, Probs>;
using Timings = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>;
// Of rows that may be the same for every request: any strides but the last.
using Rows = nb::ndarray<const float, nb::ndim<3>, nb::device::cpu>;
using Tokens = nb::ndarray<const uint32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

std::span<const uint32_t> view(const Ids& ids) { return {ids.data(), ids.size()}; }

TokenProbs view(const Row& row) {
  const auto& [ids, probs] = row;
  const std::span<const float> values{probs.data(), probs.size()};
  if (!ids) return {values};
  if (ids->size() == 0) refuse("[probs] Expected at least one token id, got none.");
  return {values, view(*ids)};
}

std::vector<TokenProbs> views(const std::vector<Row>& rows) {
  std::vector<TokenProbs> result;
  for (const Row& row : rows) result.push_back(view(row));
  return result;
}

std::pair<size_t, uint32_t> verify(const Ids& tokens, const std::vector<Row>& drafts,
                                   const std::vector<Row>& targets,
                                   const std::optional<std::vector<Ids>>& orders, Mt19937& stream) {
  auto target_views = views(targets);
  const auto draft_views = views(drafts);
  const nb::gil_scoped_release release;
  check_draft(view(tokens), draft_views, target_views);
  std::vector<std::vector<float>> storage(target_views.size());
  if (orders) {
    if (orders->size() != targets.size()) {
      refuse("[target_orders] Expected an order for each of ", targets.size(), " target rows, got ",
             orders->size(), ".");
    }
    for (size_t i = 0; i < targets.size(); ++i) {
      if (!target_views[i].dense()) {
        refuse("[target_orders] Expected dense target rows: sparse ones have an order.");
      }
      target_views[i] = in_order("target_orders[" + std::to_string(i) + "]", target_views[i].probs,
                                 view((*orders)[i]), storage[i]);
    }
  }
  const auto decision = verify_draft(view(tokens), draft_views, target_views, stream);
  return {decision.accepted, decision.next_token};
}

std::vector<TokenProbs> rows_of(const Rows& rows, size_t request) {
  std::vector<TokenProbs> result;
  for (size_t i = 0; i < rows.shape(1); ++i) {
    const float* first = rows.data() + static_cast<int64_t>(request) * rows.stride(0) +
                         static_cast<int64_t>(i) * rows.stride(1);
    result.push_back({{first, rows.shape(2)}});
  }
  return result;
}

// What verify_draft says of each request, in order.
std::vector<std::pair<size_t, uint32_t>> verify_all(const Tokens& tokens, const Rows& drafts,
                                                    const Rows& targets,
                                                    const std::vector<Mt19937*>& streams) {
  const nb::gil_scoped_release release;
  const size_t count = tokens.shape(0);
  const auto tokens_of = [&](size_t i) {
    return std::span(tokens.data() + i * tokens.shape(1), tokens.shape(1));
  };
  const bool all_the_same = drafts.stride(0) == 0 && targets.stride(0) == 0;
  for (size_t i = 0; i < count; ++i) {
    check_tokens(tokens_of(i), targets.shape(2));
    if (i == 0 || !all_the_same) check_rows(rows_of(drafts, i), rows_of(targets, i));
  }
  std::vector<std::pair<size_t, uint32_t>> decisions;
  decisions.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    Mt19937& stream = *streams[streams.size() == 1 ? 0 : i];
    const auto found = verify_draft(tokens_of(i), rows_of(drafts, i), rows_of(targets, i), stream);
    decisions.emplace_back(found.accepted, found.next_token);
  }
  return decisions;
}

std::tuple<uint32_t, bool, Timings> step_of_rows(const Chain& chain, RequestState& state,
                                                 const mx::array& rows, size_t row,
                                                 std::optional<uint32_t> token,
                                                 const std::optional<Row>& probs) {
  std::optional<Draft> draft;
  if (token.has_value() != probs.has_value()) {
    refuse("[draft_step] Expected a draft token and its probs, got one of them.");
  }
  if (token) draft = Draft{*token, view(*probs)};
  const nb::gil_scoped_release release;
  const DraftStep done = draft_step(chain, state, rows, row, draft);
  const auto& [forward, readback, finite_scan, chain_time, grammar] = done.step.timings;
  return {done.step.token, done.kept, {forward, readback, finite_scan, chain_time, grammar}};
}

}  // namespace

void bind_speculative(nb::module_& m) {
  m.def("verify_draft", &verify, "tokens"_a, "drafts"_a, "targets"_a, "orders"_a.none(), "stream"_a,
        "Drafts kept and the next token; see speculative.h. A row is (ids or None, probs).");
  m.def("verify_drafts", &verify_all, "tokens"_a, "drafts"_a, "targets"_a, "streams"_a,
        "The same for many requests, one stream for all or one each.");
  m.def(
      "draft_step", &step_of_rows, "chain"_a, "state"_a, "rows"_a, "row"_a,
      "token"_a.none() = nb::none(), "probs"_a.none() = nb::none(),
      "A token, whether it is the draft, and timings, from row `row` of [B, V]; see draft_step.h.");
}

}  // namespace mlx_sampling
