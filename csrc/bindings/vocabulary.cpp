// A vocabulary; users see vocabulary.py.
#include "core/vocabulary.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "bindings/bindings.h"
#include "core/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace mlx_sampling {
namespace {

using Column = nb::ndarray<nb::numpy, uint32_t, nb::ndim<1>>;

uint32_t checked(const Vocabulary& vocabulary, uint32_t token) {
  if (token >= vocabulary.size()) {
    refuse("[vocabulary] Expected a token id in [0, ", vocabulary.size(), "), got ", token, ".");
  }
  return token;
}

void make_vocabulary(Vocabulary* self, const std::vector<nb::bytes>& texts,
                     const std::vector<uint32_t>& control, const std::vector<uint32_t>& ends) {
  std::vector<std::string> bytes;
  bytes.reserve(texts.size());
  for (const nb::bytes& text : texts) bytes.emplace_back(text.c_str(), text.size());
  const nb::gil_scoped_release release;
  new (self) Vocabulary(bytes, control, ends);
}

nb::bytes bytes_of(const Vocabulary& vocabulary, uint32_t token) {
  const std::string_view bytes = vocabulary.bytes(checked(vocabulary, token));
  return nb::bytes(bytes.data(), bytes.size());
}

template <typename Field>
Column column(size_t size, Field field) {
  auto values = std::make_unique<uint32_t[]>(size);
  for (size_t i = 0; i < size; ++i) values[i] = field(i);
  nb::capsule owner(values.get(), [](void* p) noexcept { delete[] static_cast<uint32_t*>(p); });
  return Column(values.release(), {size}, owner);
}

std::tuple<Column, Column, Column, Column, Column> trie_of(const Vocabulary& vocabulary) {
  const TokenTrie& trie = vocabulary.trie();
  const auto nodes = trie.nodes();
  const size_t size = nodes.size();
  return {column(size, [&](size_t i) { return nodes[i].end; }),
          column(size, [&](size_t i) { return nodes[i].tokens; }),
          column(size, [&](size_t i) { return uint32_t{nodes[i].depth}; }),
          column(size, [&](size_t i) { return uint32_t{nodes[i].byte}; }),
          column(trie.tokens().size(), [&](size_t i) { return trie.tokens()[i]; })};
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
