// Tensors between numpy and the C ABI: never converted, never copied, refused instead.
#pragma once

#include <pybind11/numpy.h>

#include <cstdint>
#include <string>
#include <vector>

#include "malisdk/malisdk.h"

namespace malisdk_py {

enum class Side { input, output };

struct Spec {
  Side side;
  uint32_t index;
  std::string name;
  malisdk_dtype dtype;
  std::vector<int64_t> shape;
  uint64_t size_bytes;
};

Spec spec_of(Side side, uint32_t index, const malisdk_tensor_spec& raw);

// Raises StatusError (VERSION_MISMATCH) for a dtype that this extension does not know.
pybind11::dtype numpy_dtype(malisdk_dtype dtype);

// "float32 (1, 3, 224, 224)"
std::string describe(const Spec& spec);

// The array's memory as a tensor of the spec. Raises StatusError (WRONG_TENSOR) naming what was given and what is
// expected when `value` is no ndarray, or has another dtype, byte order or shape, gaps or another order of its elements,
// or, for an output, is read-only.
malisdk_tensor tensor_of(const Spec& spec, pybind11::handle value);

// The spec of that name or index. Raises StatusError (INVALID_ARGUMENT) listing what there is.
const Spec& find_spec(const std::vector<Spec>& specs, Side side, pybind11::handle which);

// An ndarray over `data`, which lives as long as `owner`; read-only for an output.
pybind11::array view_of(const Spec& spec, void* data, const pybind11::capsule& owner);

// Takes the memory away from an array made by view_of: every extent 0, read-only.
void empty_view(const pybind11::array& view);

}  // namespace malisdk_py
