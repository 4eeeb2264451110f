// What OpenCL offers, and which of it a model runs on.
#pragma once

#include <string>
#include <vector>

#include "cl_check.h"

namespace malisdk {

struct Device {
  cl_platform_id platform = nullptr;
  cl_device_id id = nullptr;
  std::string platform_name;
  std::string platform_version;
  std::string name;
  std::string version;
  std::string driver;
  bool is_gpu = false;
  bool is_cpu = false;
  bool has_fp16 = false;
  bool has_fp64 = false;
  uint32_t compute_units = 0;
  uint64_t global_memory_bytes = 0;
  uint64_t max_allocation_bytes = 0;
  uint64_t max_work_group = 0;
  size_t max_work_items[3] = {0, 0, 0};
  uint64_t base_alignment_bytes = 1;  // of a sub-buffer's origin; a power of two
};

// Every device of every platform, in the driver's order. Devices that cannot be asked are left out.
std::vector<Device> list_devices(const OpenCl& cl);

// `wanted` as in malisdk_model_options.device. Throws NO_DEVICE with what there is.
Device choose_device(const OpenCl& cl, const char* wanted);

}  // namespace malisdk
