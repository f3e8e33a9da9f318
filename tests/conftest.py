"""Shared by all tests: a small random model, and the packaged one."""

import pytest
from tiny_models import tiny_llama


@pytest.fixture(scope="session")
def tiny_model():
    return tiny_llama()


@pytest.fixture(scope="session")
def packaged():
    """The packaged model and its tokenizer; a skip says how to get it."""
    pytest.importorskip("mlx_lm")
    from mlx_sampling.gguf import packaged_model_path

    try:
        packaged_model_path()
    except FileNotFoundError as error:
        pytest.skip(str(error))
    from mlx_sampling.mlx_lm import load

    return load(None)
