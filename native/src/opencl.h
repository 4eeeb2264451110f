// OpenCL, reached through dlopen: the library links against none, so that it loads on machines without one.
#pragma once

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <string>

// Every entry point used; a library that lacks one of them is refused by name.
#define MALISDK_OPENCL_ENTRIES(X) \
  X(clBuildProgram)               \
  X(clCreateBuffer)               \
  X(clCreateCommandQueue)         \
  X(clCreateContext)              \
  X(clCreateKernel)               \
  X(clCreateProgramWithBinary)    \
  X(clCreateProgramWithSource)    \
  X(clCreateSubBuffer)            \
  X(clEnqueueMapBuffer)           \
  X(clEnqueueNDRangeKernel)       \
  X(clEnqueueUnmapMemObject)      \
  X(clFinish)                     \
  X(clGetDeviceIDs)               \
  X(clGetDeviceInfo)              \
  X(clGetEventInfo)               \
  X(clGetEventProfilingInfo)      \
  X(clGetKernelInfo)              \
  X(clGetKernelWorkGroupInfo)     \
  X(clGetPlatformIDs)             \
  X(clGetPlatformInfo)            \
  X(clGetProgramBuildInfo)        \
  X(clGetProgramInfo)             \
  X(clReleaseCommandQueue)        \
  X(clReleaseContext)             \
  X(clReleaseEvent)               \
  X(clReleaseKernel)              \
  X(clReleaseMemObject)           \
  X(clReleaseProgram)             \
  X(clSetKernelArg)

namespace malisdk {

struct OpenCl {
#define MALISDK_DECLARE(name) decltype(&::name) name = nullptr;
  MALISDK_OPENCL_ENTRIES(MALISDK_DECLARE)
#undef MALISDK_DECLARE
  std::string path;  // as given to dlopen
};

// The OpenCL of this process. `path` as in malisdk_model_options.opencl_library. A library once found stays loaded
// (drivers do not survive dlclose) and is returned again; a failure is not remembered, so a later call may succeed. Any
// thread. Throws NO_OPENCL, or DEVICE_ERROR in a process that was forked after OpenCL had been started.
const OpenCl& load_opencl(const char* path);

}  // namespace malisdk
