// Tensors at the boundary: element types, specs and the strict comparison of what the caller hands in.
#pragma once

#include <string>
#include <vector>

#include "malisdk/malisdk.h"
#include "schema/plan_generated.h"

namespace malisdk {

const char* dtype_name(malisdk_dtype dtype) noexcept;
uint64_t dtype_bytes(malisdk_dtype dtype) noexcept;

// "float32[1,3,224,224]".
std::string describe(malisdk_dtype dtype, uint32_t rank, const int64_t* shape);

// The strings of the result point into the plan. The spec must have passed check_plan.
malisdk_tensor_spec make_spec(const plan::TensorSpec& spec);

// The index among `specs` that `tensor` is for. `kind` is "input" or "output". Throws INVALID_ARGUMENT for an unknown
// name or a NULL, WRONG_TENSOR for another dtype, rank, shape or size.
uint32_t match_tensor(const std::vector<malisdk_tensor_spec>& specs, const malisdk_tensor& tensor, const char* kind);

}  // namespace malisdk
