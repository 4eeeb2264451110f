// A verified file with its weights uploaded and its kernels built for one device.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "bytes.h"
#include "container.h"
#include "device.h"
#include "memory.h"
#include "program.h"
#include "tensor.h"

namespace malisdk {

// Immutable once made, so any number of threads and sessions may share it.
class Model {
 public:
  struct Options {
    const char* device = nullptr;
    const char* cache_dir = nullptr;
    const char* opencl_library = nullptr;
  };

  Model(const ByteSource& source, const Options& options);
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  const OpenCl& cl() const noexcept { return *cl_; }
  const plan::Plan& plan() const noexcept { return container_.plan(); }
  const Device& device() const noexcept { return device_; }
  cl_context context() const noexcept { return context_.get(); }
  const Weights& weights() const noexcept { return weights_; }
  const std::vector<malisdk_tensor_spec>& inputs() const noexcept { return inputs_; }
  const std::vector<malisdk_tensor_spec>& outputs() const noexcept { return outputs_; }
  cl_program program_of(uint32_t kernel) const { return built_.programs[built_.program_of[kernel]].get(); }
  uint64_t weights_bytes() const noexcept { return container_.weights().size_bytes; }
  uint32_t kernels_from_cache() const noexcept { return built_.from_cache; }
  const std::string& platform_text() const noexcept { return platform_text_; }

  // Drivers do not survive a fork: whoever uses a model must be the process that loaded it.
  bool is_of_this_process() const noexcept;
  void require_this_process() const;

 private:
  void check_device() const;
  void check_kernels() const;

  Container container_;
  std::vector<malisdk_tensor_spec> inputs_;
  std::vector<malisdk_tensor_spec> outputs_;
  pid_t process_;
  const OpenCl* cl_;
  Device device_;
  std::string platform_text_;
  Context context_;
  Weights weights_;
  BuiltKernels built_;
};

}  // namespace malisdk
