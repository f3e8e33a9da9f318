"""The selection kernels as MLX ops: lazy, compiled, vmapped and batched like MLX's own."""

from mlx_sampling._ext import NO_TOKEN, argmax, greedy_argmax

__all__ = ["NO_TOKEN", "argmax", "greedy_argmax"]
