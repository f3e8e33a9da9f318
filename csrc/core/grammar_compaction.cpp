#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "core/grammar_builder.h"

namespace mlx_sampling {
namespace {

using Edge = LooseAutomaton::Edge;
using Kind = LooseAutomaton::Kind;

constexpr uint32_t none = std::numeric_limits<uint32_t>::max();

// Edges by the state that they leave.
class Leaving {
 public:
  explicit Leaving(const LooseAutomaton& loose) : begins_(loose.states + 2) {
    for (const Edge& edge : loose.edges) ++begins_[edge.from + 2];
    for (size_t i = 2; i < begins_.size(); ++i) begins_[i] += begins_[i - 1];
    edges_.resize(loose.edges.size());
    for (const Edge& edge : loose.edges) edges_[begins_[edge.from + 1]++] = edge;
  }

  std::span<const Edge> operator[](uint32_t state) const {
    return std::span(edges_).subspan(begins_[state], begins_[state + 1] - begins_[state]);
  }

 private:
  std::vector<uint32_t> begins_;
  std::vector<Edge> edges_;
};

// States that are reached by a byte, a token or a call, each with all that can leave it.
class Compaction {
 public:
  explicit Compaction(const LooseAutomaton& loose)
      : loose_(loose), leaving_(loose), number_(loose.states, none), seen_(loose.states, none) {}

  GrammarAutomaton run() {
    find_ends();
    result_.rules.resize(loose_.rules.size());
    result_.token_sets = loose_.token_sets;
    result_.root_is_nullable = loose_.root_is_nullable;
    result_.root = loose_.root;
    for (uint32_t i = 0; i < loose_.rules.size(); ++i) {
      const LooseAutomaton::Rule& rule = loose_.rules[i];
      result_.rules[i] = {number(rule.start, i), rule.minimum, rule.maximum, 0,
                          rule.counted,          false};
    }
    for (uint32_t i = 0; i < order_.size(); ++i) leave(i);
    close_states();
    set_classes();
    return std::move(result_);
  }

 private:
  void find_ends() {
    end_of_.assign(loose_.states, none);
    for (uint32_t i = 0; i < loose_.rules.size(); ++i) end_of_[loose_.rules[i].end] = i;
  }

  uint32_t number(uint32_t state, uint32_t rule) {
    if (number_[state] == none) {
      number_[state] = static_cast<uint32_t>(order_.size());
      order_.push_back(state);
      result_.states.push_back({});
      result_.states.back().rule = rule;
    }
    return number_[state];
  }

  // Everything that leaves the state, by way of empty moves too.
  void gather(uint32_t i) {
    gathered_.clear();
    pending_ = {order_[i]};
    seen_[order_[i]] = i;
    while (!pending_.empty()) {
      const uint32_t state = pending_.back();
      pending_.pop_back();
      if (end_of_[state] != none) mark_end(i);
      for (const Edge& edge : leaving_[state]) {
        if (edge.kind != Kind::empty) {
          gathered_.push_back(edge);
        } else if (seen_[edge.to] != i) {
          seen_[edge.to] = i;
          pending_.push_back(edge.to);
        }
      }
      work_ += leaving_[state].size() + 1;
      check_edges(work_ / 8);
    }
  }

  void mark_end(uint32_t i) {
    const GrammarAutomaton::Rule& rule = result_.rules[result_.states[i].rule];
    if (!rule.counted) {
      result_.states[i].final = true;
    } else if (i != rule.start) {
      result_.states[i].again = true;
    }
  }

  void leave(uint32_t i) {
    gather(i);
    for (Edge& edge : gathered_) edge.from = i;
    const auto key = [](const Edge& e) {
      return std::tuple(e.kind, e.what, e.first, e.last, e.to);
    };
    std::sort(gathered_.begin(), gathered_.end(),
              [&](const Edge& a, const Edge& b) { return key(a) < key(b); });
    gathered_.erase(std::unique(gathered_.begin(), gathered_.end()), gathered_.end());
    result_.states[i].bytes = static_cast<uint32_t>(result_.byte_edges.size());
    result_.states[i].calls = static_cast<uint32_t>(result_.call_edges.size());
    result_.states[i].tokens = static_cast<uint32_t>(result_.token_edges.size());
    result_.states[i].has_edges = !gathered_.empty();
    for (const Edge& edge : gathered_) {
      const uint32_t target = number(edge.to, result_.states[i].rule);
      if (edge.kind == Kind::bytes) {
        result_.byte_edges.push_back({edge.first, edge.last, target});
      } else if (edge.kind == Kind::call) {
        result_.call_edges.push_back({edge.what, target, false});
      } else {
        result_.token_edges.push_back({edge.what, target});
      }
    }
    edges_ += gathered_.size();
    check_edges(edges_);
  }

  void close_states() {
    GrammarAutomaton::State last;
    last.bytes = static_cast<uint32_t>(result_.byte_edges.size());
    last.calls = static_cast<uint32_t>(result_.call_edges.size());
    last.tokens = static_cast<uint32_t>(result_.token_edges.size());
    result_.states.push_back(last);
    for (auto& edge : result_.call_edges) {
      const GrammarAutomaton::State& target = result_.states[edge.target];
      edge.tail = target.final && !target.again && !target.has_edges;
    }
  }

  // Bytes that no edge tells apart are one class.
  void set_classes() {
    std::array<bool, 257> begins{};
    for (const auto& edge : result_.byte_edges) {
      begins[edge.first] = true;
      begins[edge.last + 1] = true;
    }
    for (uint32_t byte = 0; byte < 256; ++byte) {
      if (byte != 0 && begins[byte]) ++result_.classes;
      result_.class_of[byte] = static_cast<uint8_t>(result_.classes);
    }
    ++result_.classes;
    for (auto& edge : result_.byte_edges) {
      edge.first = result_.class_of[edge.first];
      edge.last = result_.class_of[edge.last];
    }
  }

  const LooseAutomaton& loose_;
  const Leaving leaving_;
  std::vector<uint32_t> number_;  // of the states that are kept
  std::vector<uint32_t> order_;   // and which they are
  std::vector<uint32_t> end_of_;  // a rule
  std::vector<uint32_t> seen_;    // by the gathering of which state
  std::vector<uint32_t> pending_;
  std::vector<Edge> gathered_;
  GrammarAutomaton result_;
  size_t edges_ = 0;
  size_t work_ = 0;
};

// Tarjan's strongly connected components, without recursion. They come out callees first.
class Components {
 public:
  explicit Components(GrammarAutomaton& automaton)
      : automaton_(automaton), index_(automaton.rules.size(), none), low_(automaton.rules.size()) {}

  void run() {
    for (uint32_t rule = 0; rule < index_.size(); ++rule) {
      if (index_[rule] == none) visit(rule);
    }
    for (auto& rule : automaton_.rules) rule.component = components_ - 1 - rule.component;
  }

 private:
  struct Frame {
    uint32_t rule;
    size_t next;  // call to look at
  };

  std::span<const GrammarAutomaton::CallEdge> calls(uint32_t rule) const {
    return automaton_.calls_of(automaton_.rules[rule].start);
  }

  void enter(uint32_t rule) {
    index_[rule] = low_[rule] = count_++;
    open_.push_back(rule);
    frames_.push_back({rule, 0});
  }

  void visit(uint32_t root) {
    enter(root);
    while (!frames_.empty()) {
      auto& [rule, next] = frames_.back();
      if (next == calls(rule).size()) {
        leave(rule);
        continue;
      }
      const uint32_t callee = calls(rule)[next++].rule;
      if (callee == rule) automaton_.rules[rule].cyclic = true;
      if (index_[callee] == none) {
        enter(callee);
      } else if (!is_closed(callee)) {
        low_[rule] = std::min(low_[rule], index_[callee]);
      }
    }
  }

  void leave(uint32_t rule) {
    frames_.pop_back();
    if (!frames_.empty()) {
      uint32_t& low = low_[frames_.back().rule];
      low = std::min(low, low_[rule]);
    }
    if (low_[rule] != index_[rule]) return;
    const bool alone = open_.back() == rule;
    while (true) {
      const uint32_t member = open_.back();
      open_.pop_back();
      automaton_.rules[member].component = components_;
      if (!alone) automaton_.rules[member].cyclic = true;
      low_[member] = none;  // closed
      if (member == rule) break;
    }
    ++components_;
  }

  bool is_closed(uint32_t rule) const { return low_[rule] == none; }

  GrammarAutomaton& automaton_;
  std::vector<uint32_t> index_;
  std::vector<uint32_t> low_;
  std::vector<uint32_t> open_;
  std::vector<Frame> frames_;
  uint32_t count_ = 0;
  uint32_t components_ = 0;
};

}  // namespace

GrammarAutomaton compact(const LooseAutomaton& loose) { return Compaction(loose).run(); }

void order_rules(GrammarAutomaton& automaton) { Components(automaton).run(); }

}  // namespace mlx_sampling
