#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include "bindings/bindings.h"
#include "ops/argmax.h"
#include "ops/greedy_argmax.h"

namespace nb = nanobind;
namespace mx = mlx::core;
using namespace nb::literals;

namespace mlx_sampling {
namespace {

constexpr const char* argmax_doc = R"doc(
First maximum of each row of logits, as a lazy graph node.

Two phases: one partial (value, index) per chunk of 1,024 logits, then one winner per row. A tie goes
to the lowest index on every backend. NaN never wins; a row with nothing greater than -inf gives 0.
Rows of any strides (sliced, broadcast, reversed) are read where they lie, without a copy.

Args:
    logits: float32, float16 or bfloat16 `[..., V]`, 0 < V < 2**31. Never written.
    stream: MLX stream or device to run on. Default: the current default.

Returns:
    uint32 `[...]`: the token ids.

Raises:
    TypeError: `logits` is no mx.array.
    ValueError: Wrong dtype, a scalar, V = 0, or a stream whose device has no kernel here.

Example:
    >>> import mlx.core as mx
    >>> from mlx_sampling import argmax
    >>> argmax(mx.array([[1.0, 3.0, 3.0], [0.0, -1.0, -2.0]])).tolist()
    [1, 0]
)doc";

constexpr const char* greedy_argmax_doc = R"doc(
Fail-closed greedy pick of each row of logits, as a lazy graph node.

The lowest index among the greatest eligible logits. A row gives `NO_TOKEN` (0xFFFFFFFF) when one of
its raw logits is NaN, +inf or -inf, eligible or not, and when no token is eligible: never a masked id.
Exclusion and bitmask act inside the reduction only; the logits are never written.

A `NO_TOKEN` must not feed an embedding: clamp the id that does and keep this one for the check.

Args:
    logits: float32, float16 or bfloat16 `[..., V]`, 0 < V < 2**31, any strides. Never written.
    excluded: Token ids in [0, V) that no row may pick (a request's end-of-generation ids). Any
        iterable of ints; order and repeats do not matter. Default: none.
    allowed: Packed uint32 bitmask, bit `i % 32` of word `i // 32` set = token i may be picked:
        `[ceil(V / 32)]` for every row or `[..., ceil(V / 32)]` with one row per row of logits.
        Padding bits are ignored. Default: every token.
    neg_inf: "error": a -inf logit is nonfinite. "masked": a -inf is a legal mask, never picked, and
        only NaN and +inf give `NO_TOKEN`. Default: "error".
    stream: MLX stream or device to run on. Default: the current default.

Returns:
    uint32 `[...]`: the token ids, or `NO_TOKEN`.

Raises:
    TypeError: `logits` or `allowed` is no mx.array, or an excluded id is no int.
    ValueError: Wrong dtype, a scalar, V = 0, an excluded id outside [0, V), a bitmask of the wrong
        dtype or shape, an unknown `neg_inf`, or a stream whose device has no kernel here.

Example:
    >>> import mlx.core as mx
    >>> from mlx_sampling import NO_TOKEN, greedy_argmax
    >>> logits = mx.array([[1.0, 3.0, 2.0], [0.0, float("nan"), 5.0]])
    >>> greedy_argmax(logits, excluded=[1]).tolist() == [2, NO_TOKEN]
    True
)doc";

std::vector<int64_t> ids_of(const std::optional<nb::iterable>& ids) {
  std::vector<int64_t> out;
  if (!ids) return out;
  for (nb::handle id : *ids) {
    // An endless iterable must not ignore Ctrl-C.
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (!PyIndex_Check(id.ptr()) || PyBool_Check(id.ptr())) {
      throw nb::type_error("[greedy_argmax] Expected excluded to hold ints.");
    }
    const nb::object index = nb::steal(PyNumber_Index(id.ptr()));
    if (!index.is_valid()) throw nb::python_error();
    int overflow = 0;
    const int64_t value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
    if (overflow != 0) {
      const std::string text = nb::cast<std::string>(nb::str(index));
      throw nb::value_error(
          ("[greedy_argmax] Expected excluded ids in [0, V), got " + text + ".").c_str());
    }
    out.push_back(value);
  }
  return out;
}

NegInf neg_inf_of(const std::string& name) {
  if (name == "error") return NegInf::error;
  if (name == "masked") return NegInf::masked;
  throw nb::value_error(
      ("[greedy_argmax] Expected neg_inf \"error\" or \"masked\", got \"" + name + "\".").c_str());
}

}  // namespace

void bind_ops(nb::module_& m) {
  m.attr("NO_TOKEN") = nb::int_(no_token);
  m.def("argmax", &argmax, "logits"_a, nb::kw_only(), "stream"_a = nb::none(), argmax_doc);
  m.def(
      "greedy_argmax",
      [](const mx::array& logits, const std::optional<nb::iterable>& excluded,
         const std::optional<mx::array>& allowed, const std::string& neg_inf,
         mx::StreamOrDevice stream) {
        return greedy_argmax(logits, ids_of(excluded), allowed, neg_inf_of(neg_inf), stream);
      },
      "logits"_a, nb::kw_only(), "excluded"_a = nb::none(), "allowed"_a = nb::none(),
      "neg_inf"_a = "error", "stream"_a = nb::none(), greedy_argmax_doc);
  m.def("is_available", &mx::array::is_available, "array"_a,
        "Whether the array's value can be read without waiting.");
}

}  // namespace mlx_sampling
