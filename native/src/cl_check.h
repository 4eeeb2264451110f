// OpenCL error codes and handles.
#pragma once

#include <utility>

#include "error.h"
#include "opencl.h"

namespace malisdk {

// "CL_OUT_OF_RESOURCES" for -5.
const char* cl_code_name(cl_int code) noexcept;
malisdk_status status_of(cl_int code) noexcept;

class ClError : public Error {
 public:
  ClError(cl_int code, std::string text) : Error(status_of(code), std::move(text)), code_(code) {}
  cl_int code() const noexcept { return code_; }
  // Worth one more try once the queue is empty.
  bool is_transient() const noexcept { return code_ == CL_OUT_OF_RESOURCES || code_ == CL_OUT_OF_HOST_MEMORY; }

 private:
  cl_int code_;
};

[[noreturn]] void fail_cl(cl_int code, const char* call, const std::string& what = {});

inline void check_cl(cl_int code, const char* call) {
  if (code != CL_SUCCESS) fail_cl(code, call);
}

// Owns one OpenCL object. Entry is the OpenCl member that releases it.
template <class Object, cl_int (CL_API_CALL* OpenCl::*Entry)(Object)>
class Handle {
 public:
  Handle() = default;
  Handle(const OpenCl& cl, Object object) noexcept : cl_(&cl), object_(object) {}
  Handle(Handle&& other) noexcept : cl_(other.cl_), object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(cl_, other.cl_);
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() {
    if (object_ != nullptr) (cl_->*Entry)(object_);
  }
  Object get() const noexcept { return object_; }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  const OpenCl* cl_ = nullptr;
  Object object_ = nullptr;
};

using Context = Handle<cl_context, &OpenCl::clReleaseContext>;
using Queue = Handle<cl_command_queue, &OpenCl::clReleaseCommandQueue>;
using Buffer = Handle<cl_mem, &OpenCl::clReleaseMemObject>;
using Program = Handle<cl_program, &OpenCl::clReleaseProgram>;
using Kernel = Handle<cl_kernel, &OpenCl::clReleaseKernel>;
using Event = Handle<cl_event, &OpenCl::clReleaseEvent>;

}  // namespace malisdk
