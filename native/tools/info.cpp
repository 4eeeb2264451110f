#include <cstdio>

#include "commands.h"

namespace tool {
namespace {

void print_tensors(const char* title, const std::vector<malisdk_tensor_spec>& specs) {
  for (const auto& spec : specs) {
    std::printf("%-9s '%s'  %s  %llu bytes\n", title, spec.name, describe(spec).c_str(),
                static_cast<unsigned long long>(spec.size_bytes));
  }
}

int info(const Arguments& arguments) {
  const malisdk::Model model(arguments.positional(0), arguments.model_options());
  const malisdk_model_info facts = model.info();
  std::printf("model     %s\n", facts.name);
  std::printf("target    %s\n", facts.target);
  std::printf("dtype     %s\n", malisdk_dtype_name(facts.dtype));
  std::printf("device    %s\n", facts.device);
  std::printf("platform  %s\n", facts.platform);
  print_tensors("input", model.inputs());
  print_tensors("output", model.outputs());
  std::printf("kernels   %u (%u from the cache)\n", facts.kernel_count, facts.kernels_from_cache);
  std::printf("launches  %u\n", facts.launch_count);
  std::printf("weights   %s\n", megabytes(facts.weights_bytes).c_str());
  std::printf("arena     %s\n", megabytes(facts.arena_bytes).c_str());
  return kSuccess;
}

int warmup(const Arguments& arguments) {
  const malisdk::Model model(arguments.positional(0), arguments.model_options());
  const malisdk_model_info facts = model.info();
  std::printf("%s on %s: %u kernels built, %u came from the cache\n", facts.name, facts.device,
              facts.kernel_count - facts.kernels_from_cache, facts.kernels_from_cache);
  return kSuccess;
}

int devices(const Arguments& arguments) {
  const auto list = malisdk::devices(arguments.model_options().opencl_library);
  if (list.empty()) {
    std::fputs(
        "OpenCL: the library offers no device\n"
        "hint: install the board's driver; Mesa's rusticl shows its devices only with RUSTICL_ENABLE=panfrost\n",
        stderr);
    return kFailure;
  }
  for (size_t i = 0; i < list.size(); ++i) {
    const malisdk_device_info& device = list[i];
    std::printf("%s%s\n", i == 0 ? "" : "\n", device.name);
    std::printf("  platform       %s\n", device.platform);
    std::printf("  version        %s, driver %s\n", device.version, device.driver);
    std::printf("  type           %s, %u compute units\n", device.is_gpu ? "GPU" : "CPU or other",
                device.compute_units);
    std::printf("  fp16           %s\n", device.has_fp16 ? "yes" : "no");
    std::printf("  memory         %s\n", megabytes(device.global_memory_bytes).c_str());
    std::printf("  work-group     at most %llu work-items\n", static_cast<unsigned long long>(device.max_work_group));
  }
  return kSuccess;
}

}  // namespace

Command info_command() {
  return {{"info",
           {"MODEL.mali"},
           "Prints what the model takes and gives, and which device it would run on.",
           with_model_options({})},
          info};
}

Command warmup_command() {
  return {{"warmup",
           {"MODEL.mali"},
           "Builds the model's kernels for this device and fills the kernel cache.",
           with_model_options({})},
          warmup};
}

Command devices_command() {
  return {{"devices",
           {},
           "Lists the OpenCL devices of this machine.",
           {{"--opencl-library", "FILE", "the OpenCL library to use (default: the usual names)"}}},
          devices};
}

}  // namespace tool
