// XXH64 with seed 0, the hash of every part of a .mali file and of the kernel cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace malisdk {

uint64_t hash64(const void* data, size_t size_bytes, uint64_t seed = 0) noexcept;

// The same, over bytes that come in pieces.
class StreamHash {
 public:
  StreamHash();
  ~StreamHash();
  StreamHash(const StreamHash&) = delete;
  StreamHash& operator=(const StreamHash&) = delete;
  void update(const void* data, size_t size_bytes) noexcept;
  uint64_t digest() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace malisdk
