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

using Words = nb::ndarray<uint32_t, nb::numpy, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::string_view view(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

// `call` on a matcher that no other thread uses meanwhile.
template <typename Matcher, typename Call>
auto alone(Matcher& matcher, Call call) {
  const nb::gil_scoped_release release;
  const InUse use(matcher);
  return call(matcher);
}

bool accept_text(GrammarMatcher& self, const nb::bytes& text) {
  return alone(self, [&](auto& matcher) { return matcher.accept_text(view(text)); });
}

size_t viable_prefix(const GrammarMatcher& self, const nb::bytes& text) {
  return alone(self, [&](auto& matcher) { return matcher.viable_prefix(view(text)); });
}

void fill_words(const GrammarMatcher& self, const Words& words) {
  alone(self, [&](auto& matcher) { matcher.fill_bitmask({words.data(), words.size()}); });
}

// What a member says of a matcher that no other thread is changing.
template <auto member>
auto at_rest(const GrammarMatcher& self) {
  const InUse use(self);
  return (self.*member)();
}

nb::list history(const GrammarMatcher& self) {
  const InUse use(self);
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
      .def(
          "accept_token",
          [](GrammarMatcher& self, uint32_t token) {
            return alone(self, [&](auto& matcher) { return matcher.accept_token(token); });
          },
          "token"_a, "False: refused, and nothing changed.")
      .def(
          "can_accept",
          [](const GrammarMatcher& self, uint32_t token) {
            return alone(self, [&](auto& matcher) { return matcher.can_accept(token); });
          },
          "token"_a)
      .def("accept_text", &accept_text, "text"_a, "False: refused, and nothing changed.")
      .def("viable_prefix", &viable_prefix, "text"_a, "How many bytes can be taken.")
      .def("fill_bitmask", &fill_words, nb::arg("words").noconvert(),
           "Into uint32 words, one bit per token; see grammar_matcher.h.")
      .def("is_completed", &at_rest<&GrammarMatcher::is_completed>)
      .def("is_terminated", &at_rest<&GrammarMatcher::is_terminated>)
      .def(
          "forced_tokens",
          [](const GrammarMatcher& self, size_t limit) {
            return alone(self, [&](auto& matcher) { return matcher.forced_tokens(limit); });
          },
          "limit"_a = 1024)
      .def("steps", &at_rest<&GrammarMatcher::steps>)
      .def("history", &history, "The accepted tokens, and texts as bytes.")
      .def(
          "rollback",
          [](GrammarMatcher& self, size_t count) {
            alone(self, [&](auto& matcher) { matcher.rollback(count); });
          },
          "count"_a)
      .def("reset",
           [](GrammarMatcher& self) { alone(self, [](auto& matcher) { matcher.reset(); }); })
      .def(
          "fork",
          [](const GrammarMatcher& self) {
            return alone(self, [](auto& matcher) { return GrammarMatcher(matcher); });
          },
          "A copy that goes its own way.");
}

}  // namespace mlx_sampling
