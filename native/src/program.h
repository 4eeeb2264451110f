// From kernel sources to kernels.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cache.h"
#include "cl_check.h"
#include "device.h"

namespace malisdk {

struct KernelSource {
  std::string name;       // the entry point
  std::string_view text;  // complete in itself; may begin with #pragma lines
};

// The kernels of one model. A kernel object stays with its program, since Mali compiles when the first one is created.
struct BuiltKernels {
  std::vector<Program> programs;
  std::vector<uint32_t> program_of;  // index into `programs`, per source
  std::vector<Kernel> kernels;       // one per source
  uint32_t from_cache = 0;           // kernels that came out of the cache
};

// Joins the sources into a few programs and builds those at the same time (one after the other with
// MALISDK_BUILD_THREADS=1, for drivers that cannot). Throws BUILD_FAILED with the build log.
BuiltKernels build_kernels(const OpenCl& cl, cl_context context, const Device& device,
                           const std::vector<KernelSource>& sources, const BinaryCache& cache);

}  // namespace malisdk
