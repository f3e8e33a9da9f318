// The core's errors as Python's. Those with a name of their own are classes of mlx_sampling.errors:
// they have two bases.
#include <nanobind/nanobind.h>

#include <exception>
#include <new>
#include <stdexcept>

#include "bindings/bindings.h"
#include "core/grammar_error.h"
#include "core/request_state.h"

namespace nb = nanobind;

namespace mlx_sampling {
namespace {

nb::object class_of(const char* name) {
  return nb::module_::import_("mlx_sampling.errors").attr(name);
}

// Throws on what has no class of its own.
nb::object named_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const NonfiniteLogits& e) {
    return class_of("NonfiniteLogitsError")(e.what());
  } catch (const GrammarRefusal& e) {
    return class_of("GrammarRefusalError")(e.what());
  } catch (const GrammarError& e) {
    return class_of("GrammarError")(e.what(), e.line, e.column);
  }
}

void translate(const std::exception_ptr& error, void*) {
  const nb::object raised = named_error(error);
  PyErr_SetObject(raised.type().ptr(), raised.ptr());
}

}  // namespace

nb::object error_object(const std::exception_ptr& error) {
  const auto make = [](nb::handle type, const char* text) { return type(text); };
  try {
    return named_error(error);
  } catch (const std::invalid_argument& e) {
    return make(PyExc_ValueError, e.what());
  } catch (const std::bad_alloc& e) {
    return make(PyExc_MemoryError, e.what());
  } catch (const std::exception& e) {
    return make(PyExc_RuntimeError, e.what());
  }
}

void bind_errors(nb::module_&) { nb::register_exception_translator(translate); }

}  // namespace mlx_sampling
