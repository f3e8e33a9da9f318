// Snapshots as bytes, little-endian on every platform, and the checksum that guards them.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace mlx_sampling {

// CRC-32 of IEEE 802.3, as zlib's.
inline constexpr std::array<uint32_t, 256> crc_table = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320u : 0u);
    table[byte] = crc;
  }
  return table;
}();

inline uint32_t crc32(std::span<const uint8_t> bytes) {
  uint32_t crc = ~0u;
  for (uint8_t byte : bytes) crc = (crc >> 8) ^ crc_table[(crc ^ byte) & 0xFF];
  return ~crc;
}

template <typename T>
void put(std::vector<uint8_t>& bytes, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) bytes.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

inline void put_float(std::vector<uint8_t>& bytes, float value) {
  put(bytes, std::bit_cast<uint32_t>(value));
}

// The caller has checked that `bytes` go that far.
template <typename T>
T get(std::span<const uint8_t> bytes, size_t at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(bytes[at + i]) << (8 * i));
  }
  return value;
}

inline float get_float(std::span<const uint8_t> bytes, size_t at) {
  return std::bit_cast<float>(get<uint32_t>(bytes, at));
}

}  // namespace mlx_sampling
