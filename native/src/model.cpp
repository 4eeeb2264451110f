#include "model.h"

#include <unistd.h>

#include <cinttypes>

namespace malisdk {
namespace {

std::vector<malisdk_tensor_spec> specs_of(const flatbuffers::Vector<flatbuffers::Offset<plan::TensorSpec>>& tensors) {
  std::vector<malisdk_tensor_spec> specs;
  specs.reserve(tensors.size());
  for (const plan::TensorSpec* tensor : tensors) specs.push_back(make_spec(*tensor));
  return specs;
}

Context make_context(const OpenCl& cl, const Device& device) {
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                              reinterpret_cast<cl_context_properties>(device.platform), 0};
  cl_int code = CL_SUCCESS;
  Context context(cl, cl.clCreateContext(properties, 1, &device.id, nullptr, nullptr, &code));
  if (code != CL_SUCCESS) fail_cl(code, "clCreateContext", device.name);
  return context;
}

BuiltKernels build(const OpenCl& cl, cl_context context, const Device& device, const Container& container,
                   const ByteSource& source, const char* cache_dir) {
  const std::string text = container.read_sources(source);
  std::vector<KernelSource> sources;
  for (const plan::Kernel* kernel : *container.plan().kernels()) {
    sources.push_back(
        {kernel->name()->str(), std::string_view(text).substr(static_cast<size_t>(kernel->source_offset()),
                                                              static_cast<size_t>(kernel->source_bytes()))});
  }
  return build_kernels(cl, context, device, sources, BinaryCache(cache_dir));
}

std::string size_text(const flatbuffers::Vector<uint32_t>& size) {
  return format("%ux%ux%u", size.Get(0), size.Get(1), size.Get(2));
}

}  // namespace

Model::Model(const ByteSource& source, const Options& options)
    : container_(source),
      inputs_(specs_of(*plan().inputs())),
      outputs_(specs_of(*plan().outputs())),
      process_(getpid()),
      cl_(&load_opencl(options.opencl_library)),
      device_(choose_device(*cl_, options.device)),
      platform_text_(device_.platform_name + ", " + device_.platform_version) {
  check_device();
  context_ = make_context(*cl_, device_);
  built_ = build(*cl_, context_.get(), device_, container_, source, options.cache_dir);
  check_kernels();
  weights_ = Weights(*cl_, context_.get(), device_, container_, source);
}

void Model::check_device() const {
  const char* name = device_.name.c_str();
  if (plan().needs_fp16() && !device_.has_fp16) {
    const bool is_rusticl = device_.platform_name.find("rusticl") != std::string::npos;
    fail(MALISDK_UNSUPPORTED,
         "%s: has no cl_khr_fp16, which this model needs; expected a device with half precision\nhint: %s", name,
         is_rusticl ? "set RUSTICL_FEATURES=fp16 in the environment" : "compile the model with --dtype float32");
  }
  if (plan().needs_fp64() && !device_.has_fp64) {
    fail(MALISDK_UNSUPPORTED, "%s: has no cl_khr_fp64, which this model needs; expected a device with double precision",
         name);
  }
  uint64_t needed_bytes = weights_bytes() + plan().arena_bytes();
  for (const auto& spec : inputs_) needed_bytes += spec.size_bytes;
  for (const auto& spec : outputs_) needed_bytes += spec.size_bytes;
  // Mesa's llvmpipe says 0 where it cannot find out.
  if (device_.global_memory_bytes > 0 && needed_bytes > device_.global_memory_bytes) {
    fail(MALISDK_UNSUPPORTED,
         "%s: too little memory, got %" PRIu64 " bytes; expected at least %" PRIu64 " for this model", name,
         device_.global_memory_bytes, needed_bytes);
  }
}

void Model::check_kernels() const {
  std::vector<uint32_t> arguments(plan().kernels()->size());
  for (uint32_t i = 0; i < plan().kernels()->size(); ++i) {
    const plan::Kernel& kernel = *plan().kernels()->Get(i);
    const char* name = kernel.name()->c_str();
    const cl_kernel built = built_.kernels[i].get();
    const auto& local_size = *kernel.local_size();
    const std::string local_text = size_text(local_size);
    const uint64_t group = uint64_t{local_size.Get(0)} * local_size.Get(1) * local_size.Get(2);

    size_t allowed = 0;
    check_cl(
        cl_->clGetKernelWorkGroupInfo(built, device_.id, CL_KERNEL_WORK_GROUP_SIZE, sizeof allowed, &allowed, nullptr),
        "clGetKernelWorkGroupInfo");
    if (group > allowed) {
      fail(MALISDK_UNSUPPORTED, "kernel '%s': its work-group does not fit %s, got %s; expected at most %zu work-items",
           name, device_.name.c_str(), local_text.c_str(), allowed);
    }
    for (uint32_t axis = 0; axis < 3; ++axis) {
      if (local_size.Get(axis) > device_.max_work_items[axis]) {
        fail(MALISDK_UNSUPPORTED,
             "kernel '%s': its work-group does not fit %s, got %s; expected at most %zu in dimension %u", name,
             device_.name.c_str(), local_text.c_str(), device_.max_work_items[axis], axis);
      }
    }
    size_t required[3] = {0, 0, 0};
    check_cl(cl_->clGetKernelWorkGroupInfo(built, device_.id, CL_KERNEL_COMPILE_WORK_GROUP_SIZE, sizeof required,
                                           required, nullptr),
             "clGetKernelWorkGroupInfo");
    const bool same =
        required[0] == local_size.Get(0) && required[1] == local_size.Get(1) && required[2] == local_size.Get(2);
    if (required[0] != 0 && !same) {
      fail(MALISDK_DAMAGED_FILE,
           "kernel '%s': damaged, the plan says work-group %s; expected the source's own %zux%zux%zu", name,
           local_text.c_str(), required[0], required[1], required[2]);
    }
    cl_uint count = 0;
    check_cl(cl_->clGetKernelInfo(built, CL_KERNEL_NUM_ARGS, sizeof count, &count, nullptr), "clGetKernelInfo");
    arguments[i] = count;
  }
  for (const plan::Launch* launch : *plan().launches()) {
    if (launch->buffers()->size() != arguments[launch->kernel()]) {
      fail(MALISDK_DAMAGED_FILE, "kernel '%s': damaged, the plan gives it %u arguments; expected %u",
           plan().kernels()->Get(launch->kernel())->name()->c_str(), launch->buffers()->size(),
           arguments[launch->kernel()]);
    }
  }
}

bool Model::is_of_this_process() const noexcept { return getpid() == process_; }

void Model::require_this_process() const {
  if (is_of_this_process()) return;
  fail(MALISDK_DEVICE_ERROR,
       "model '%s': was loaded by process %d and is used by its fork %d; expected the process that loaded it\nhint: "
       "load models "
       "after fork, or start a new process (multiprocessing: method 'spawn')",
       plan().model_name()->c_str(), static_cast<int>(process_), static_cast<int>(getpid()));
}

}  // namespace malisdk
