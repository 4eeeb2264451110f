// An OpenCL library for tests: forwards every call to the real one and, by script, fails calls, changes limits and
// counts objects. Driven from Python through the stub_* functions.
#include <dlfcn.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

namespace {

struct Failure {
  int nth;  // from 1; 0: every call
  cl_int code;
};

std::mutex mutex;
std::map<std::string, Failure> failures;
std::map<std::string, int> calls;
std::map<cl_uint, unsigned long long> limits;
unsigned long long kernel_group_limit;
bool garbage_binaries;
bool no_platforms;
std::atomic<long> live_objects{0};

template <class Function>
Function real(Function, const char* name) {
  static void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : reinterpret_cast<Function>(dlsym(library, name));
}

// CL_SUCCESS, or what the script wants this call to fail with.
cl_int enter(const char* name) {
  const std::lock_guard<std::mutex> lock(mutex);
  const int number = ++calls[name];
  const auto found = failures.find(name);
  if (found == failures.end()) return CL_SUCCESS;
  return found->second.nth == 0 || found->second.nth == number ? found->second.code : CL_SUCCESS;
}

}  // namespace

#define STUB_API extern "C" __attribute__((visibility("default")))
#define REAL(name) real(&name, #name)
#define FORWARD(name, parameters, arguments)     \
  STUB_API cl_int CL_API_CALL name parameters {  \
    const cl_int scripted = enter(#name);        \
    if (scripted != CL_SUCCESS) return scripted; \
    return REAL(name) arguments;                 \
  }
#define CREATE(type, name, parameters, arguments)          \
  STUB_API type CL_API_CALL name parameters {              \
    const cl_int scripted = enter(#name);                  \
    if (scripted != CL_SUCCESS) {                          \
      if (errcode_ret != nullptr) *errcode_ret = scripted; \
      return nullptr;                                      \
    }                                                      \
    type object = REAL(name) arguments;                    \
    if (object != nullptr) ++live_objects;                 \
    return object;                                         \
  }
#define RELEASE(name, type)                       \
  STUB_API cl_int CL_API_CALL name(type object) { \
    enter(#name);                                 \
    --live_objects;                               \
    return REAL(name)(object);                    \
  }

STUB_API void stub_reset() {
  const std::lock_guard<std::mutex> lock(mutex);
  failures.clear();
  calls.clear();
  limits.clear();
  kernel_group_limit = 0;
  garbage_binaries = false;
  no_platforms = false;
}
STUB_API void stub_fail(const char* name, int nth, int code) {
  const std::lock_guard<std::mutex> lock(mutex);
  failures[name] = {nth, code};
}
STUB_API void stub_limit(unsigned what, unsigned long long value) { limits[what] = value; }
STUB_API void stub_kernel_group(unsigned long long value) { kernel_group_limit = value; }
STUB_API void stub_garbage_binaries() { garbage_binaries = true; }
STUB_API void stub_no_platforms() { no_platforms = true; }
STUB_API int stub_calls(const char* name) {
  const std::lock_guard<std::mutex> lock(mutex);
  return calls[name];
}
STUB_API long stub_live() { return live_objects; }

STUB_API cl_int CL_API_CALL clGetPlatformIDs(cl_uint count, cl_platform_id* platforms, cl_uint* got) {
  const cl_int scripted = enter("clGetPlatformIDs");
  if (scripted != CL_SUCCESS) return scripted;
  if (no_platforms) return -1001;
  return REAL(clGetPlatformIDs)(count, platforms, got);
}
STUB_API cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t size, void* value,
                                            size_t* got) {
  const cl_int scripted = enter("clGetDeviceInfo");
  if (scripted != CL_SUCCESS) return scripted;
  const cl_int code = REAL(clGetDeviceInfo)(device, what, size, value, got);
  const auto limit = limits.find(what);
  if (code == CL_SUCCESS && value != nullptr && limit != limits.end()) std::memcpy(value, &limit->second, size);
  return code;
}
STUB_API cl_int CL_API_CALL clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device,
                                                     cl_kernel_work_group_info what, size_t size, void* value,
                                                     size_t* got) {
  const cl_int scripted = enter("clGetKernelWorkGroupInfo");
  if (scripted != CL_SUCCESS) return scripted;
  const cl_int code = REAL(clGetKernelWorkGroupInfo)(kernel, device, what, size, value, got);
  if (code == CL_SUCCESS && what == CL_KERNEL_WORK_GROUP_SIZE && kernel_group_limit != 0) {
    std::memcpy(value, &kernel_group_limit, size);
  }
  return code;
}
STUB_API cl_int CL_API_CALL clGetProgramInfo(cl_program program, cl_program_info what, size_t size, void* value,
                                             size_t* got) {
  const cl_int scripted = enter("clGetProgramInfo");
  if (scripted != CL_SUCCESS) return scripted;
  const cl_int code = REAL(clGetProgramInfo)(program, what, size, value, got);
  if (code == CL_SUCCESS && what == CL_PROGRAM_BINARIES && garbage_binaries) {
    std::memset(*static_cast<unsigned char**>(value), 0x5A, 64);
  }
  return code;
}
STUB_API void* CL_API_CALL clEnqueueMapBuffer(cl_command_queue queue, cl_mem buffer, cl_bool blocking,
                                              cl_map_flags flags, size_t offset, size_t size, cl_uint waits,
                                              const cl_event* wait_list, cl_event* event, cl_int* errcode_ret) {
  const cl_int scripted = enter("clEnqueueMapBuffer");
  if (scripted != CL_SUCCESS) {
    *errcode_ret = scripted;
    return nullptr;
  }
  return REAL(clEnqueueMapBuffer)(queue, buffer, blocking, flags, offset, size, waits, wait_list, event, errcode_ret);
}
STUB_API cl_int CL_API_CALL clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dimensions,
                                                   const size_t* offset, const size_t* global, const size_t* local,
                                                   cl_uint waits, const cl_event* wait_list, cl_event* event) {
  const cl_int scripted = enter("clEnqueueNDRangeKernel");
  if (scripted != CL_SUCCESS) return scripted;
  const cl_int code =
      REAL(clEnqueueNDRangeKernel)(queue, kernel, dimensions, offset, global, local, waits, wait_list, event);
  if (code == CL_SUCCESS && event != nullptr) ++live_objects;
  return code;
}
STUB_API cl_int CL_API_CALL clGetEventInfo(cl_event event, cl_event_info what, size_t size, void* value, size_t* got) {
  // Scripted here means: the launch itself failed on the device.
  const cl_int scripted = enter("clGetEventInfo");
  const cl_int code = REAL(clGetEventInfo)(event, what, size, value, got);
  if (scripted != CL_SUCCESS) std::memcpy(value, &scripted, sizeof scripted);
  return code;
}

FORWARD(clBuildProgram,
        (cl_program program, cl_uint count, const cl_device_id* devices, const char* options,
         void(CL_CALLBACK* notify)(cl_program, void*), void* user),
        (program, count, devices, options, notify, user))
FORWARD(clEnqueueUnmapMemObject,
        (cl_command_queue queue, cl_mem buffer, void* data, cl_uint waits, const cl_event* wait_list, cl_event* event),
        (queue, buffer, data, waits, wait_list, event))
FORWARD(clFinish, (cl_command_queue queue), (queue))
FORWARD(clGetDeviceIDs,
        (cl_platform_id platform, cl_device_type type, cl_uint count, cl_device_id* devices, cl_uint* got),
        (platform, type, count, devices, got))
FORWARD(clGetEventProfilingInfo, (cl_event event, cl_profiling_info what, size_t size, void* value, size_t* got),
        (event, what, size, value, got))
FORWARD(clGetKernelInfo, (cl_kernel kernel, cl_kernel_info what, size_t size, void* value, size_t* got),
        (kernel, what, size, value, got))
FORWARD(clGetPlatformInfo, (cl_platform_id platform, cl_platform_info what, size_t size, void* value, size_t* got),
        (platform, what, size, value, got))
FORWARD(clGetProgramBuildInfo,
        (cl_program program, cl_device_id device, cl_program_build_info what, size_t size, void* value, size_t* got),
        (program, device, what, size, value, got))
FORWARD(clSetKernelArg, (cl_kernel kernel, cl_uint index, size_t size, const void* value), (kernel, index, size, value))

CREATE(cl_context, clCreateContext,
       (const cl_context_properties* properties, cl_uint count, const cl_device_id* devices,
        void(CL_CALLBACK* notify)(const char*, const void*, size_t, void*), void* user, cl_int* errcode_ret),
       (properties, count, devices, notify, user, errcode_ret))
CREATE(cl_command_queue, clCreateCommandQueue,
       (cl_context context, cl_device_id device, cl_command_queue_properties properties, cl_int* errcode_ret),
       (context, device, properties, errcode_ret))
CREATE(cl_mem, clCreateBuffer, (cl_context context, cl_mem_flags flags, size_t size, void* data, cl_int* errcode_ret),
       (context, flags, size, data, errcode_ret))
CREATE(cl_mem, clCreateSubBuffer,
       (cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type, const void* info, cl_int* errcode_ret),
       (buffer, flags, type, info, errcode_ret))
CREATE(cl_program, clCreateProgramWithSource,
       (cl_context context, cl_uint count, const char** texts, const size_t* lengths, cl_int* errcode_ret),
       (context, count, texts, lengths, errcode_ret))
CREATE(cl_program, clCreateProgramWithBinary,
       (cl_context context, cl_uint count, const cl_device_id* devices, const size_t* lengths,
        const unsigned char** binaries, cl_int* status, cl_int* errcode_ret),
       (context, count, devices, lengths, binaries, status, errcode_ret))
CREATE(cl_kernel, clCreateKernel, (cl_program program, const char* name, cl_int* errcode_ret),
       (program, name, errcode_ret))

RELEASE(clReleaseCommandQueue, cl_command_queue)
RELEASE(clReleaseContext, cl_context)
RELEASE(clReleaseEvent, cl_event)
RELEASE(clReleaseKernel, cl_kernel)
RELEASE(clReleaseMemObject, cl_mem)
RELEASE(clReleaseProgram, cl_program)
