// A vocabulary; users see vocabulary.py.
#include "core/vocabulary.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/convert.h"
#include "core/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace mlx_sampling {
namespace {

uint32_t checked(const Vocabulary& vocabulary, uint32_t token) {
  if (token >= vocabulary.size()) {
    refuse("[vocabulary] Expected a token id in [0, ", vocabulary.size(), "), got ", token, ".");
  }
  return token;
}

void make_vocabulary(Vocabulary* self, const std::vector<nb::bytes>& texts,
                     const std::vector<uint32_t>& control, const std::vector<uint32_t>& ends) {
  const auto bytes = strings(texts);
  const nb::gil_scoped_release release;
  new (self) Vocabulary(bytes, control, ends);
}

nb::bytes bytes_of(const Vocabulary& vocabulary, uint32_t token) {
  const std::string_view bytes = vocabulary.bytes(checked(vocabulary, token));
  return nb::bytes(bytes.data(), bytes.size());
}

using Words = Column<uint32_t>;

std::tuple<Words, Words, Words, Words, Words> trie_of(const Vocabulary& vocabulary) {
  const TokenTrie& trie = vocabulary.trie();
  const auto nodes = trie.nodes();
  return {column<uint32_t>(nodes, [](const auto& node) { return node.end; }),
          column<uint32_t>(nodes, [](const auto& node) { return node.tokens; }),
          column<uint32_t>(nodes, [](const auto& node) { return node.depth; }),
          column<uint32_t>(nodes, [](const auto& node) { return node.byte; }),
          column<uint32_t>(trie.tokens(), [](uint32_t token) { return token; })};
}

}  // namespace

void bind_vocabulary(nb::module_& m) {
  nb::class_<Vocabulary>(m, "Vocabulary", "What a model's tokens are; see vocabulary.h.")
      .def("__init__", &make_vocabulary, "texts"_a, "control"_a = std::vector<uint32_t>{},
           "ends"_a = std::vector<uint32_t>{})
      .def_prop_ro("size", &Vocabulary::size)
      .def_prop_ro("ends",
                   [](const Vocabulary& self) {
                     const auto ends = self.ends();
                     return std::vector<uint32_t>(ends.begin(), ends.end());
                   })
      .def_prop_ro("fingerprint", &Vocabulary::fingerprint)
      .def("bytes_of", &bytes_of, "token"_a)
      .def(
          "is_text",
          [](const Vocabulary& self, uint32_t token) { return self.is_text(checked(self, token)); },
          "token"_a)
      .def(
          "is_end",
          [](const Vocabulary& self, uint32_t token) { return self.is_end(checked(self, token)); },
          "token"_a)
      .def(
          "find",
          [](const Vocabulary& self, const nb::bytes& text) {
            return self.find({text.c_str(), text.size()});
          },
          "text"_a)
      .def(
          "trie", &trie_of,
          "For tests: end, tokens, depth and byte of each node, and the tokens; see token_trie.h.");
}

}  // namespace mlx_sampling
