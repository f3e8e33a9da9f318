// One function per area of the extension module.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>

namespace mlx_sampling {

void bind_errors(nanobind::module_& m);
void bind_ops(nanobind::module_& m);
void bind_rng(nanobind::module_& m);
void bind_sampler(nanobind::module_& m);
void bind_request(nanobind::module_& m);
void bind_history(nanobind::module_& m);
void bind_vocabulary(nanobind::module_& m);
void bind_grammar_syntax(nanobind::module_& m);
void bind_grammar(nanobind::module_& m);
void bind_speculative(nanobind::module_& m);

// What Python would raise for it.
nanobind::object error_object(const std::exception_ptr& error);

}  // namespace mlx_sampling
