// A request's state as bytes: streams, mirostat's mu, adaptive_p's sums, history; not its row.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/request_state.h"

namespace mlx_sampling {

// The same bytes on every platform: see the layout in snapshot.cpp.
std::vector<uint8_t> snapshot(const RequestState& state);

// Makes `state` go on where the snapshot was taken, without a row. Throws std::invalid_argument,
// leaving the state as it was, where the bytes are foreign, of another version, cut short or
// damaged, and where reference, neg_inf or width are not those of `state`. Takes over the seed,
// which has to be `seed` where one is named.
void restore(RequestState& state, std::span<const uint8_t> bytes,
             std::optional<uint32_t> seed = std::nullopt);

}  // namespace mlx_sampling
