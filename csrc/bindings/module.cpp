#include "bindings/bindings.h"

NB_MODULE(_ext, m) {
  m.doc() = "Compiled half of mlx_sampling.";
  // MLX's types must be registered before functions that take them are.
  nanobind::module_::import_("mlx.core");
  mlx_sampling::bind_errors(m);
  mlx_sampling::bind_ops(m);
  mlx_sampling::bind_rng(m);
  mlx_sampling::bind_sampler(m);
  mlx_sampling::bind_history(m);
  mlx_sampling::bind_request(m);
  mlx_sampling::bind_vocabulary(m);
  mlx_sampling::bind_grammar_syntax(m);
  mlx_sampling::bind_grammar(m);
  mlx_sampling::bind_speculative(m);
}
