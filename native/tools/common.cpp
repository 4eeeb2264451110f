#include <cstdio>

#include "commands.h"

namespace tool {

std::string describe(const malisdk_tensor_spec& spec) {
  Array shape_only;
  shape_only.dtype = spec.dtype;
  shape_only.shape.assign(spec.shape, spec.shape + spec.rank);
  return shape_only.describe();
}

std::string megabytes(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f MB", static_cast<double>(bytes) / 1e6);
  return text;
}

malisdk_tensor tensor_of(const std::string& name, Array& array) {
  if (array.shape.size() > MALISDK_MAX_RANK) {
    throw FileError("'" + name + "': got rank " + std::to_string(array.shape.size()) + "; expected at most " +
                    std::to_string(MALISDK_MAX_RANK));
  }
  malisdk_tensor tensor = {};
  tensor.name = name.c_str();
  tensor.dtype = array.dtype;
  tensor.rank = static_cast<uint32_t>(array.shape.size());
  for (size_t axis = 0; axis < array.shape.size(); ++axis) tensor.shape[axis] = array.shape[axis];
  tensor.data = array.bytes.data();
  tensor.size_bytes = array.bytes.size();
  return tensor;
}

Array empty_array(const malisdk_tensor_spec& spec) {
  Array array;
  array.dtype = spec.dtype;
  array.shape.assign(spec.shape, spec.shape + spec.rank);
  array.bytes.resize(spec.size_bytes);
  return array;
}

}  // namespace tool
