// The bytes of a vocabulary's text tokens as one tree, laid out in preorder: a walk over the tree
// is a walk over an array, and leaving a subtree out is a jump.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace mlx_sampling {

class TokenTrie {
 public:
  struct Node {
    uint32_t end;     // the first node after this one's subtree
    uint32_t tokens;  // tokens that end here: tokens()[node.tokens] up to the next node's
    uint16_t depth;   // bytes from the root, which has 0
    uint8_t byte;     // the last of them
  };

  TokenTrie() = default;

  // Of (bytes, id) pairs; no bytes are empty or longer than 65,535. Several ids may have the same
  // bytes.
  explicit TokenTrie(std::vector<std::pair<std::string_view, uint32_t>> texts);

  // The root first; one node past the last, whose `tokens` is the number of tokens, closes the
  // array and is not part of the span.
  std::span<const Node> nodes() const { return {nodes_.data(), nodes_.size() - 1}; }

  // Ids in the order of the nodes: those in a subtree stand side by side.
  std::span<const uint32_t> tokens() const { return tokens_; }

  // Ids that end at a node, and those in its subtree.
  std::span<const uint32_t> tokens_at(uint32_t node) const {
    return between(nodes_[node].tokens, nodes_[node + 1].tokens);
  }
  std::span<const uint32_t> tokens_below(uint32_t node) const {
    return between(nodes_[node].tokens, nodes_[nodes_[node].end].tokens);
  }

  // Bytes of the longest token.
  size_t longest() const { return longest_; }

 private:
  std::span<const uint32_t> between(uint32_t first, uint32_t last) const {
    return std::span<const uint32_t>(tokens_).subspan(first, last - first);
  }

  std::vector<Node> nodes_ = {Node{1, 0, 0, 0}, Node{0, 0, 0, 0}};
  std::vector<uint32_t> tokens_;
  size_t longest_ = 0;
};

}  // namespace mlx_sampling
