// On x86-64 Linux the loader picks the widest copy of a function that the CPU runs; elsewhere there
// is one copy. For loops of integers, or of float operations each of which rounds by itself: such
// a loop has the same bits at every width, since nothing is fused (see CMakeLists.txt).
// MLX_SAMPLING_NO_CLONES leaves one copy, so that tests can compile for each instruction set.
#pragma once

#if defined(__x86_64__) && defined(__linux__) && !defined(MLX_SAMPLING_NO_CLONES)
#define MLX_SAMPLING_CLONES __attribute__((target_clones("arch=x86-64-v4", "avx2", "default")))
#else
#define MLX_SAMPLING_CLONES
#endif
