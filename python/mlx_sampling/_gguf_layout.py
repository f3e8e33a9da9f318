"""The layout of a GGUF file: its metadata, and which tensors lie where; every byte is checked.

Not here: what they mean (see `gguf` and `gguf_tokenizer`).
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

Result = TypeVar("Result")

# Value types of the metadata section: number -> struct code. 8 is a string, 9 an array.
_SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
_STRING, _ARRAY = 8, 9
_FLOAT64 = 12  # Legal, but `mx.load` crashes on it.

# Tensor types of the format, so that an unsupported one can be named.
_TYPE_NAMES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 9: "Q8_1",
    10: "Q2_K", 11: "Q3_K", 12: "Q4_K", 13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 24: "I8", 25: "I16",
    26: "I32", 27: "I64", 28: "F64", 30: "BF16",
}  # fmt: skip
# Those that `mx.load` keeps bit for bit: name -> (elements per block, bytes per block).
BLOCKS = {"F32": (1, 4), "F16": (1, 2), "Q4_0": (32, 18), "Q4_1": (32, 20), "Q8_0": (32, 34)}
BITS = {"Q4_0": 4, "Q4_1": 4, "Q8_0": 8}
GROUP_SIZE = 32

_ALIGNMENT = 32  # The only one `mx.load` understands.


@dataclass(frozen=True)
class TensorInfo:
    """One tensor's entry."""

    shape: tuple[int, ...]  # Row-major, as MLX has it: the reverse of the order in the file.
    type_name: str
    offset: int


def quote(value: Any) -> str:
    """Formats a metadata value for a message: strings in double quotes, a missing one in words."""
    if value is None:
        return "none"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


class _Reader:
    """A cursor over the file's bytes that never reads beyond their end."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.size = len(data)
        self.at = 0

    def take(self, size: int) -> int:
        """Steps over `size` bytes and returns where they start."""
        start = self.at
        if size > self.size - start:
            raise ValueError(
                f"[gguf] Expected {size} bytes at offset {start}, but the file ends at "
                f"{self.size}: it is truncated or damaged."
            )
        self.at += size
        return start

    def unpack(self, code: str) -> Any:
        """Reads one little-endian scalar of a `struct` code."""
        layout = "<" + code
        return struct.unpack_from(layout, self.data, self.take(struct.calcsize(layout)))[0]

    def string(self) -> str:
        """Reads a length and as many bytes of UTF-8."""
        size = self.unpack("Q")
        start = self.take(size)
        try:
            return self.data[start : start + size].decode("utf-8")
        except UnicodeDecodeError:
            raise ValueError(f"[gguf] Expected UTF-8 text at offset {start}.") from None

    def value(self, kind: int, key: str) -> Any:
        """Reads one metadata value of a numbered type."""
        if kind == _FLOAT64:
            raise _float64_error(key)
        if kind == _STRING:
            return self.string()
        if kind in _SCALARS:
            return self.unpack(_SCALARS[kind])
        if kind != _ARRAY:
            raise ValueError(f"[gguf] Unknown metadata type {kind} before offset {self.at}.")
        kind, count = self.unpack("I"), self.unpack("Q")
        if kind == _FLOAT64:
            raise _float64_error(key)
        if kind == _STRING:
            return [self.string() for _ in range(count)]
        if kind not in _SCALARS:
            raise ValueError(f"[gguf] Unknown array type {kind} before offset {self.at}.")
        size = struct.calcsize("<" + _SCALARS[kind])
        start = self.take(size * count)
        return list(struct.unpack_from(f"<{count}{_SCALARS[kind]}", self.data, start))


def _float64_error(key: str) -> ValueError:
    return ValueError(
        f'[gguf] The key "{key}" is of type FLOAT64, which MLX cannot load: write it as FLOAT32.'
    )


def read_layout(path: Path) -> tuple[dict[str, Any], dict[str, TensorInfo]]:
    """Reads the metadata and the list of tensors, and checks that all of their bytes are there.

    Raises:
        OSError: There is no such regular file.
        ValueError: The file is not GGUF, is cut short, or cannot be loaded.
    """
    return _read(path, _parse_layout)


def read_metadata(path: Path) -> dict[str, Any]:
    """Reads the metadata alone, of whatever model.

    Raises:
        OSError, ValueError: As `read_layout`.
    """
    return _read(path, lambda reader: _parse_metadata(reader)[0])


def _read(path: Path, parse: Callable[[_Reader], Result]) -> Result:
    if path.is_dir():
        raise IsADirectoryError(f"[gguf] Expected a file, got the directory {path}.")
    if not path.exists():
        raise FileNotFoundError(f"[gguf] There is no file {path}.")
    if not path.is_file():  # Opening a FIFO would wait for a writer.
        raise ValueError(f"[gguf] Expected a regular file, got {path}.")
    with open(path, "rb") as file:
        magic = file.read(4)
        if magic != b"GGUF":
            raise ValueError(f"[gguf] Expected a file that begins with b'GGUF', got {magic!r}.")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return parse(_Reader(data))


def _parse_metadata(reader: _Reader) -> tuple[dict[str, Any], int]:
    """Returns the metadata and the number of tensors."""
    reader.take(4)
    version = reader.unpack("I")
    if version not in (2, 3):
        raise ValueError(f"[gguf] Expected version 2 or 3 (little-endian), got {version}.")
    tensor_count, key_count = reader.unpack("Q"), reader.unpack("Q")
    metadata: dict[str, Any] = {}
    for _ in range(key_count):
        key = reader.string()
        if key in metadata:
            raise ValueError(f'[gguf] The key "{key}" occurs twice.')
        metadata[key] = reader.value(reader.unpack("I"), key)
    return metadata, tensor_count


def _parse_layout(reader: _Reader) -> tuple[dict[str, Any], dict[str, TensorInfo]]:
    metadata, tensor_count = _parse_metadata(reader)
    alignment = metadata.get("general.alignment", _ALIGNMENT)
    if type(alignment) is not int or alignment != _ALIGNMENT:
        raise ValueError(f"[gguf] Expected alignment {_ALIGNMENT}, got {quote(alignment)}.")
    tensors: dict[str, TensorInfo] = {}
    for _ in range(tensor_count):
        name = reader.string()
        if name in tensors:
            raise ValueError(f'[gguf] The tensor "{name}" occurs twice.')
        tensors[name] = _parse_tensor(reader, name)

    start = -(-reader.at // _ALIGNMENT) * _ALIGNMENT
    for name, info in tensors.items():
        if info.offset % _ALIGNMENT:
            raise ValueError(
                f'[gguf] Expected an offset of a multiple of {_ALIGNMENT} for "{name}", '
                f"got {info.offset}."
            )
        elements, block = BLOCKS[info.type_name]
        end = start + info.offset + math.prod(info.shape) // elements * block
        if end > reader.size:
            raise ValueError(
                f'[gguf] The tensor "{name}" ends at byte {end}, but the file ends at '
                f"{reader.size}: it is truncated or damaged."
            )
    return metadata, tensors


def _parse_tensor(reader: _Reader, name: str) -> TensorInfo:
    rank = reader.unpack("I")
    if not 1 <= rank <= 4:
        raise ValueError(f'[gguf] Expected 1 to 4 dimensions for "{name}", got {rank}.')
    shape = tuple(reader.unpack("Q") for _ in range(rank))[::-1]
    kind, offset = reader.unpack("I"), reader.unpack("Q")
    type_name = _TYPE_NAMES.get(kind, f"number {kind}")
    if type_name not in BLOCKS:
        raise ValueError(
            f'[gguf] Expected a tensor type of {", ".join(BLOCKS)} for "{name}", got {type_name}.'
        )
    if 0 in shape or shape[-1] % BLOCKS[type_name][0]:
        raise ValueError(f'[gguf] The shape {shape} of "{name}" does not suit type {type_name}.')
    return TensorInfo(shape, type_name, offset)
