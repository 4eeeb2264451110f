#include "tensor.h"

#include <cinttypes>
#include <cstring>

#include "error.h"

namespace malisdk {
namespace {

struct DtypeFacts {
  const char* name;
  uint64_t bytes;
};

constexpr DtypeFacts kDtypes[] = {
    {"float32", 4}, {"float16", 2}, {"float64", 8}, {"int8", 1},  {"uint8", 1},  {"int16", 2},
    {"uint16", 2},  {"int32", 4},   {"uint32", 4},  {"int64", 8}, {"uint64", 8}, {"bool", 1},
};

const DtypeFacts* facts_of(malisdk_dtype dtype) noexcept {
  const auto index = static_cast<uint32_t>(dtype);
  return index < sizeof kDtypes / sizeof kDtypes[0] ? &kDtypes[index] : nullptr;
}

std::string names_of(const std::vector<malisdk_tensor_spec>& specs) {
  std::string names;
  for (const malisdk_tensor_spec& spec : specs) names += format("%s'%s'", names.empty() ? "" : ", ", spec.name);
  return names.empty() ? "none" : names;
}

}  // namespace

const char* dtype_name(malisdk_dtype dtype) noexcept {
  const DtypeFacts* facts = facts_of(dtype);
  return facts != nullptr ? facts->name : nullptr;
}

uint64_t dtype_bytes(malisdk_dtype dtype) noexcept {
  const DtypeFacts* facts = facts_of(dtype);
  return facts != nullptr ? facts->bytes : 0;
}

std::string describe(malisdk_dtype dtype, uint32_t rank, const int64_t* shape) {
  const char* name = dtype_name(dtype);
  std::string text = name != nullptr ? name : format("dtype %d", static_cast<int>(dtype));
  text += "[";
  for (uint32_t axis = 0; axis < rank && axis < MALISDK_MAX_RANK; ++axis) {
    text += format("%s%" PRId64, axis == 0 ? "" : ",", shape[axis]);
  }
  return text + "]";
}

malisdk_tensor_spec make_spec(const plan::TensorSpec& spec) {
  malisdk_tensor_spec result = {};
  result.name = spec.name()->c_str();
  result.dtype = static_cast<malisdk_dtype>(spec.dtype());
  result.rank = spec.shape()->size();
  result.size_bytes = dtype_bytes(result.dtype);
  for (uint32_t axis = 0; axis < result.rank; ++axis) {
    result.shape[axis] = spec.shape()->Get(axis);
    result.size_bytes *= static_cast<uint64_t>(result.shape[axis]);
  }
  return result;
}

uint32_t match_tensor(const std::vector<malisdk_tensor_spec>& specs, const malisdk_tensor& tensor, const char* kind) {
  if (tensor.name == nullptr) {
    fail(MALISDK_INVALID_ARGUMENT, "%s: has no name, got NULL; expected one of %s", kind, names_of(specs).c_str());
  }
  uint32_t index = 0;
  while (index < specs.size() && std::strcmp(specs[index].name, tensor.name) != 0) ++index;
  if (index == specs.size()) {
    fail(MALISDK_INVALID_ARGUMENT, "%s: unknown name, got '%s'; expected one of %s", kind, tensor.name,
         names_of(specs).c_str());
  }
  const malisdk_tensor_spec& spec = specs[index];
  const bool same_type = tensor.dtype == spec.dtype && tensor.rank == spec.rank;
  if (!same_type || std::memcmp(tensor.shape, spec.shape, sizeof(int64_t) * spec.rank) != 0) {
    fail(MALISDK_WRONG_TENSOR, "%s '%s': wrong tensor, got %s; expected %s", kind, spec.name,
         describe(tensor.dtype, tensor.rank, tensor.shape).c_str(),
         describe(spec.dtype, spec.rank, spec.shape).c_str());
  }
  if (tensor.size_bytes != spec.size_bytes) {
    fail(MALISDK_WRONG_TENSOR, "%s '%s': wrong size, got %" PRIu64 " bytes; expected %" PRIu64 " for %s", kind,
         spec.name, tensor.size_bytes, spec.size_bytes, describe(spec.dtype, spec.rank, spec.shape).c_str());
  }
  if (tensor.data == nullptr && spec.size_bytes > 0) {
    fail(MALISDK_INVALID_ARGUMENT, "%s '%s': no data, got NULL; expected %" PRIu64 " bytes", kind, spec.name,
         spec.size_bytes);
  }
  return index;
}

}  // namespace malisdk
