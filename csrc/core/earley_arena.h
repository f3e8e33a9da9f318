// Memory that is only ever given back as a whole, its size counted.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

namespace mlx_sampling {

class EarleyArena {
 public:
  explicit EarleyArena(std::atomic<size_t>& memory) : memory_(memory) {}

  // `count` objects, each made from nothing; what they own themselves is never given back.
  template <typename T>
  std::span<T> make(size_t count) {
    static_assert(std::is_trivially_destructible_v<T> && alignof(T) <= alignof(std::max_align_t));
    T* const first = static_cast<T*>(take(count * sizeof(T)));
    for (size_t i = 0; i < count; ++i) new (first + i) T{};
    return {first, count};
  }

  template <typename T>
  std::span<const T> copy(std::span<const T> values) {
    const std::span<T> made = make<T>(values.size());
    std::copy(values.begin(), values.end(), made.begin());
    return made;
  }

 private:
  static constexpr size_t block_size = size_t{64} << 10;

  void* take(size_t bytes) {
    constexpr size_t align = alignof(std::max_align_t);
    bytes = (bytes + align - 1) / align * align;
    if (bytes > left_) {
      const size_t size = std::max(bytes, block_size);
      blocks_.push_back(std::make_unique_for_overwrite<std::byte[]>(size));
      memory_.fetch_add(size, std::memory_order_relaxed);
      next_ = blocks_.back().get();
      left_ = size;
    }
    std::byte* const taken = next_;
    next_ += bytes;
    left_ -= bytes;
    return taken;
  }

  std::atomic<size_t>& memory_;
  std::vector<std::unique_ptr<std::byte[]>> blocks_;
  std::byte* next_ = nullptr;
  size_t left_ = 0;
};

}  // namespace mlx_sampling
