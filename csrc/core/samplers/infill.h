// For filling a gap in a text: ends it where ending is likely, else merges tokens that begin alike.
#pragma once

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/samplers/stage.h"

namespace mlx_sampling {

// What infill needs to know of a vocabulary.
struct InfillTokens {
  // By id; empty for special tokens, which then merge with none. So do ids past the end.
  std::shared_ptr<const std::vector<std::string>> texts;
  std::vector<uint32_t> end_of_generation;  // fill-in-the-middle separators too
  uint32_t end;                             // what stands in where no other token is left
};

// Meant to come after top_k and top_p, since it ends the text unless that is unlikely by a margin
// that grows with the number of candidates. Sorts, and writes probabilities; those of tokens that
// were merged are added up, their logits are not.
class Infill : public Stage {
 public:
  // Throws std::invalid_argument where there are no texts.
  explicit Infill(InfillTokens tokens);

  std::string_view name() const override { return "infill"; }
  void apply(Candidates& candidates, RequestState& state) const override;

 private:
  bool ends(const Candidate& candidate) const { return end_ids_.contains(candidate.id); }
  bool ending_is_likely(const std::vector<Candidate>& data) const;
  void merge_prefixes(std::vector<Candidate>& data) const;

  InfillTokens tokens_;
  std::unordered_set<uint32_t> end_ids_;
};

}  // namespace mlx_sampling
