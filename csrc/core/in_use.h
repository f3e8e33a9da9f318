// One thread at a time: a second one that uses an object gets an error in place of a wrong answer.
#pragma once

#include <atomic>
#include <stdexcept>

namespace mlx_sampling {

// An object that two threads use at once.
class ConcurrentUse : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

// Whether a thread works on an object: InUse sets it. Of no value of its own, so that a copy of an
// object is one that nobody uses.
class UseFlag {
 public:
  UseFlag() = default;
  UseFlag(const UseFlag&) {}
  UseFlag& operator=(const UseFlag&) { return *this; }

 private:
  friend class InUse;
  mutable std::atomic_flag taken_;
};

// Held while a thread works on an object that has a `use_flag()` and a name, `use_name`.
class InUse {
 public:
  // Throws ConcurrentUse where another one is held.
  template <typename Object>
  explicit InUse(const Object& object) : flag_(object.use_flag().taken_) {
    if (flag_.test_and_set(std::memory_order_acquire)) refuse(Object::use_name);
  }
  ~InUse() { flag_.clear(std::memory_order_release); }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  [[noreturn]] static void refuse(const char* name);

  std::atomic_flag& flag_;
};

}  // namespace mlx_sampling
