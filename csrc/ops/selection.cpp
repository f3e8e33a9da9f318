#include "ops/selection.h"

#include <string>

#include "core/error.h"
#include "ops/row_layout.h"

#if defined(_METAL_)
#include "mlx/allocator.h"
#include "mlx/backend/metal/device.h"
#endif

namespace mx = mlx::core;

namespace mlx_sampling {

std::vector<mx::array> Selection::jvp(const std::vector<mx::array>&, const std::vector<mx::array>&,
                                      const std::vector<int>&) {
  refuse("[", name(), "] A token id has no gradient: wrap it in mx.stop_gradient.");
}

std::vector<mx::array> Selection::vjp(const std::vector<mx::array>&, const std::vector<mx::array>&,
                                      const std::vector<int>&, const std::vector<mx::array>&) {
  return jvp({}, {}, {});
}

std::vector<mx::Shape> Selection::output_shapes(const std::vector<mx::array>& inputs) {
  check(inputs);
  return {rows_shape(inputs[0])};
}

mx::Stream selection_stream([[maybe_unused]] const char* op, mx::StreamOrDevice s) {
  const mx::Stream stream = mx::to_stream(s);
#if !defined(_METAL_)
  if (stream.device == mx::Device::gpu) {
    refuse("[", op,
           "] Expected a CPU stream, got a GPU stream: this build has no GPU kernels. Pass "
           "stream=mx.cpu.");
  }
#endif
  return stream;
}

#if defined(_METAL_)
namespace {

constexpr size_t metal_chunk_width = 1024;
constexpr size_t metal_threads = 256;

// Lays out as Rows of metal/selection.h.
struct MetalRows {
  uint32_t width;
  uint32_t axes;
  int64_t start;
  int64_t stride;
};
static_assert(sizeof(MetalRows) == 24 && offsetof(MetalRows, start) == 8);

MTL::ComputePipelineState* kernel(const mx::Stream& stream, const MetalSource& source,
                                  const std::string& name) {
  auto& device = mx::metal::device(stream.device);
  auto* library = device.get_library(source.library, [&] { return std::string(source.text); });
  return device.get_kernel(name, library);
}

// A whole number of simdgroups that covers `work` where the pipeline allows it.
size_t thread_count(MTL::ComputePipelineState* pipeline, size_t work) {
  constexpr size_t simd = 32;
  const size_t wanted = std::min(metal_threads, (work + simd - 1) / simd * simd);
  const size_t allowed = pipeline->maxTotalThreadsPerThreadgroup() / simd * simd;
  if (allowed == 0) {
    refuse<std::runtime_error>("[metal] Expected a pipeline of at least 32 threads, got ",
                               pipeline->maxTotalThreadsPerThreadgroup(), ".");
  }
  return std::min(wanted, allowed);
}

mx::array temporary(mx::metal::CommandEncoder& encoder, mx::Shape shape, mx::Dtype dtype) {
  mx::array a(std::move(shape), dtype, nullptr, {});
  a.set_data(mx::allocator::malloc(a.nbytes()));
  encoder.add_temporary(a);
  return a;
}

const char* format_name(mx::Dtype dtype) {
  if (dtype == mx::float32) return "float32";
  return dtype == mx::float16 ? "float16" : "bfloat16";
}

}  // namespace

void bind_rows(mx::metal::CommandEncoder& encoder, const mx::array& a, int index,
               int layout_index) {
  const RowLayout layout = row_layout(a);
  const int64_t least = layout.least_offset();
  const MetalRows rows{static_cast<uint32_t>(layout.width),
                       static_cast<uint32_t>(layout.shape.size()), -least, layout.stride};
  encoder.set_input_array(a, index, least * static_cast<int64_t>(a.itemsize()));
  encoder.set_bytes(rows, layout_index);
  // Metal wants every buffer set: a row layout without axes gets one entry that is not read.
  const std::vector<int32_t> shape = layout.shape.empty() ? std::vector<int32_t>{1} : layout.shape;
  const std::vector<int64_t> strides =
      layout.strides.empty() ? std::vector<int64_t>{0} : layout.strides;
  encoder.set_vector_bytes(shape, layout_index + 1);
  encoder.set_vector_bytes(strides, layout_index + 2);
}

void eval_two_phase(const mx::Stream& stream, const MetalSource& source, const mx::array& logits,
                    mx::array& out, const std::function<void(mx::metal::CommandEncoder&)>& bind) {
  out.set_data(mx::allocator::malloc(out.nbytes()));
  if (out.size() == 0) return;
  auto& encoder = mx::metal::get_command_encoder(stream);
  const size_t rows = out.size();
  const size_t width = logits.shape(-1);
  const size_t chunks = (width + metal_chunk_width - 1) / metal_chunk_width;
  const mx::Shape partials{static_cast<int>(rows), static_cast<int>(chunks)};
  mx::array keys = temporary(encoder, partials, mx::int32);
  mx::array indices = temporary(encoder, partials, mx::uint32);

  auto* phase1 =
      kernel(stream, source, std::string(source.stem) + "_phase1_" + format_name(logits.dtype()));
  encoder.set_compute_pipeline_state(phase1);
  bind_rows(encoder, logits, 0, 3);
  encoder.set_output_array(keys, 1);
  encoder.set_output_array(indices, 2);
  bind(encoder);
  encoder.dispatch_threadgroups(
      MTL::Size(chunks, rows, 1),
      MTL::Size(thread_count(phase1, std::min(width, metal_chunk_width)), 1, 1));

  // The partials are outputs of phase 1 and inputs of phase 2: MLX puts its barrier between them.
  auto* phase2 = kernel(stream, source, "selection_phase2");
  encoder.set_compute_pipeline_state(phase2);
  encoder.set_input_array(keys, 0);
  encoder.set_input_array(indices, 1);
  encoder.set_output_array(out, 2);
  encoder.set_bytes(static_cast<uint32_t>(chunks), 3);
  encoder.dispatch_threadgroups(MTL::Size(rows, 1, 1),
                                MTL::Size(thread_count(phase2, chunks), 1, 1));
}

#else

void eval_two_phase(const mx::Stream&, const MetalSource& source, const mx::array&, mx::array&,
                    const std::function<void(mx::metal::CommandEncoder&)>&) {
  refuse<std::runtime_error>("[", source.stem, "] This build has no GPU kernels.");
}

#endif

}  // namespace mlx_sampling
