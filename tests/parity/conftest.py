"""Shared by the live tests: the llama.cpp to compare with."""

import llama
import pytest


@pytest.fixture(scope="module")
def library():
    """The library of release 0.5.0; a skip says why there is none."""
    try:
        return llama.find()
    except llama.LlamaUnavailable as error:
        pytest.skip(f"no llama.cpp to compare with: {error}")


@pytest.fixture(scope="module")
def model_path():
    """A GGUF file with a real vocabulary; a skip says why there is none."""
    try:
        return llama.find_model()
    except llama.LlamaUnavailable as error:
        pytest.skip(f"no vocabulary: {error}")


@pytest.fixture(scope="module")
def upstream_vocabulary(library, model_path):
    """That vocabulary as llama.cpp reads it."""
    return library.open_vocabulary(model_path)
