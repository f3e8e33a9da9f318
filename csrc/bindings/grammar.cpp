// A grammar and the state of a request in it; users see grammar.py.
#include "core/grammar.h"

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string_view>
#include <vector>

#include "bindings/bindings.h"
#include "core/grammar_matcher.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace mlx_sampling {
namespace {

using Release = nb::call_guard<nb::gil_scoped_release>;
using Words = nb::ndarray<uint32_t, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::string_view view(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

bool accept_text(GrammarMatcher& self, const nb::bytes& text) {
  const nb::gil_scoped_release release;
  return self.accept_text(view(text));
}

size_t viable_prefix(const GrammarMatcher& self, const nb::bytes& text) {
  const nb::gil_scoped_release release;
  return self.viable_prefix(view(text));
}

void fill_words(const GrammarMatcher& self, const Words& words) {
  const nb::gil_scoped_release release;
  self.fill_bitmask({words.data(), words.size()});
}

nb::list history(const GrammarMatcher& self) {
  nb::list steps;
  for (size_t i = 0; i < self.steps(); ++i) {
    const auto [is_text, token, text] = self.step(i);
    if (is_text) {
      steps.append(nb::bytes(text.data(), text.size()));
    } else {
      steps.append(token);
    }
  }
  return steps;
}

}  // namespace

void bind_grammar(nb::module_& m) {
  nb::class_<Grammar>(m, "Grammar", "A grammar ready to be matched; see grammar.h.")
      .def(nb::new_([](const GrammarSyntax& syntax, std::shared_ptr<const Vocabulary> vocabulary) {
             const nb::gil_scoped_release release;
             return std::const_pointer_cast<Grammar>(
                 Grammar::compile(syntax, std::move(vocabulary)));
           }),
           "syntax"_a, "vocabulary"_a.none() = nb::none())
      .def_prop_ro("fingerprint", &Grammar::fingerprint);
  nb::class_<GrammarMatcher>(m, "GrammarMatcher",
                             "A request's state in a grammar; see grammar_matcher.h.")
      .def(nb::init<std::shared_ptr<const Grammar>>(), "grammar"_a)
      .def("accept_token", &GrammarMatcher::accept_token, "token"_a, Release(),
           "False: refused, and nothing changed.")
      .def("can_accept", &GrammarMatcher::can_accept, "token"_a, Release())
      .def("accept_text", &accept_text, "text"_a, "False: refused, and nothing changed.")
      .def("viable_prefix", &viable_prefix, "text"_a, "How many bytes can be taken.")
      .def("fill_bitmask", &fill_words, nb::arg("words").noconvert(),
           "Into uint32 words, one bit per token; see grammar_matcher.h.")
      .def("is_completed", &GrammarMatcher::is_completed)
      .def("is_terminated", &GrammarMatcher::is_terminated)
      .def("forced_tokens", &GrammarMatcher::forced_tokens, "limit"_a = 1024, Release())
      .def("steps", &GrammarMatcher::steps)
      .def("history", &history, "The accepted tokens, and texts as bytes.")
      .def("rollback", &GrammarMatcher::rollback, "count"_a, Release())
      .def("reset", &GrammarMatcher::reset, Release())
      .def(
          "fork", [](const GrammarMatcher& self) { return GrammarMatcher(self); }, Release(),
          "A copy that goes its own way.");
}

}  // namespace mlx_sampling
