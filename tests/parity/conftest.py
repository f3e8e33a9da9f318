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
