#include "hash.h"

#define XXH_INLINE_ALL
#define XXH_NO_XXH3
#include "xxhash/xxhash.h"

namespace malisdk {

struct StreamHash::State {
  XXH64_state_t value;
};

uint64_t hash64(const void* data, size_t size_bytes, uint64_t seed) noexcept { return XXH64(data, size_bytes, seed); }

StreamHash::StreamHash() : state_(std::make_unique<State>()) { XXH64_reset(&state_->value, 0); }
StreamHash::~StreamHash() = default;

void StreamHash::update(const void* data, size_t size_bytes) noexcept {
  XXH64_update(&state_->value, data, size_bytes);
}

uint64_t StreamHash::digest() const noexcept { return XXH64_digest(&state_->value); }

}  // namespace malisdk
