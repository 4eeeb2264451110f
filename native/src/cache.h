// Program binaries on disk, so that kernels are compiled once per device and driver.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace malisdk {

// Nothing here throws for a cache that is missing, read-only, full or damaged: it is a miss then, and only costs time.
class BinaryCache {
 public:
  // `folder` as in malisdk_model_options.cache_dir; NULL looks into the environment, "" turns the cache off.
  explicit BinaryCache(const char* folder);

  // The binary stored under exactly this key, or an empty vector.
  std::vector<uint8_t> load(const std::string& key) const;
  void store(const std::string& key, const std::vector<uint8_t>& binary) const;
  // Forgets an entry that the driver refused.
  void remove(const std::string& key) const;

 private:
  std::string path_of(const std::string& key) const;

  std::string folder_;
};

}  // namespace malisdk
