// NumPy's .npy files, version 1.0 to 3.0, little-endian and C order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "malisdk/malisdk.h"

namespace tool {

struct Array {
  malisdk_dtype dtype = MALISDK_FLOAT32;
  std::vector<int64_t> shape;
  std::vector<uint8_t> bytes;

  uint64_t element_count() const { return bytes.size() / malisdk_dtype_bytes(dtype); }
  // Element `index` as a number, whatever the dtype.
  double at(uint64_t index) const;
  std::string describe() const;  // "float32[1,3,224,224]"
};

// Throws FileError for anything that is not exactly such a file.
Array read_npy(const std::string& path);
// Written beside the target and renamed, so that no half of a file is ever seen.
void write_npy(const std::string& path, const Array& array);

// The whole of a text or binary file. Throws FileError.
std::vector<uint8_t> read_file(const std::string& path);

float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);

}  // namespace tool
