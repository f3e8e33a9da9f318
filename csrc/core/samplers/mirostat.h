// Picks so that the surprise of the tokens stays near a target (Basu et al., 2021, "Mirostat: A
// Neural Text Decoding Algorithm That Directly Controls Perplexity"): versions 1 and 2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/samplers/stage.h"

namespace mlx_sampling {

// What both versions share. The request's bound on the surprise, mu, starts at 2 tau, in the first
// step, and moves by eta times the error of each step. Draws from the mirostat stream, as
// Mt19937::discrete does.
class MirostatBase : public Stage {
 public:
  bool selects() const override { return true; }
  bool once() const override { return true; }
  void apply(Candidates& candidates, RequestState& state) const override;
  void weigh(Candidates& candidates, RequestState& state) const override;
  void record_pick(const Candidates& candidates, size_t picked, RequestState& state) const override;
  void apply_row(std::span<const float> row, Candidates& candidates,
                 RequestState& state) const override;

 protected:
  MirostatBase(std::string_view name, double tau, double eta);

  // Sorts and drops what is beyond `mu`, without sorting it. False, with nothing changed, where
  // that cannot be done. `ids` null: an id is a position.
  virtual bool keep_lazily(std::span<const float>, const uint32_t*, float, Candidates&,
                           Reference) const {
    return false;
  }

  // Drops what is beyond `mu`; the candidates are sorted and have p.
  virtual void truncate(Candidates& candidates, float mu) const = 0;

 private:
  float mu(const RequestState& state) const;
  void cut(Candidates& candidates, RequestState& state) const;
  void pick(Candidates& candidates, RequestState& state) const;

  float tau_;
  float eta_;
};

// Version 1 estimates how probabilities fall with rank from the first m candidates, and keeps as
// many candidates as that law gives for a vocabulary of `vocab_size`.
class Mirostat : public MirostatBase {
 public:
  // Throws std::invalid_argument for a tau or eta that is no finite float32, and for an m or
  // vocab_size below 1.
  Mirostat(double tau, double eta, int64_t vocab_size, int64_t m = 100);

  std::string_view name() const override { return "mirostat"; }

 protected:
  void truncate(Candidates& candidates, float mu) const override;

 private:
  float vocab_size_;
  size_t m_;
};

// Version 2 keeps the candidates whose own surprise is at most mu.
class MirostatV2 : public MirostatBase {
 public:
  // Throws std::invalid_argument for a tau or eta that is no finite float32.
  MirostatV2(double tau, double eta);

  std::string_view name() const override { return "mirostat_v2"; }

 protected:
  bool keep_lazily(std::span<const float> logits, const uint32_t* ids, float mu,
                   Candidates& candidates, Reference reference) const override;
  void truncate(Candidates& candidates, float mu) const override;
};

}  // namespace mlx_sampling
