#include "device.h"

#include <strings.h>

#include <algorithm>
#include <cstring>
#include <mutex>

namespace malisdk {
namespace {

template <class Get>
std::string read_text(Get&& get, const char* call) {
  size_t size_bytes = 0;
  check_cl(get(0, nullptr, &size_bytes), call);
  std::string text(size_bytes, '\0');
  if (size_bytes > 0) check_cl(get(size_bytes, text.data(), nullptr), call);
  return text.substr(0, text.find('\0'));
}

std::string platform_text(const OpenCl& cl, cl_platform_id platform, cl_platform_info what) {
  return read_text([&](size_t n, void* p, size_t* got) { return cl.clGetPlatformInfo(platform, what, n, p, got); },
                   "clGetPlatformInfo");
}

std::string device_text(const OpenCl& cl, cl_device_id device, cl_device_info what) {
  return read_text([&](size_t n, void* p, size_t* got) { return cl.clGetDeviceInfo(device, what, n, p, got); },
                   "clGetDeviceInfo");
}

template <class Value>
Value device_value(const OpenCl& cl, cl_device_id device, cl_device_info what) {
  Value value = {};
  check_cl(cl.clGetDeviceInfo(device, what, sizeof value, &value, nullptr), "clGetDeviceInfo");
  return value;
}

bool has_word(const std::string& words, const char* word) {
  return (" " + words + " ").find(std::string(" ") + word + " ") != std::string::npos;
}

uint64_t power_of_two_above(uint64_t value) {
  uint64_t power = 1;
  while (power < value && power < (1u << 20)) power *= 2;
  return power;
}

Device describe_device(const OpenCl& cl, cl_platform_id platform, cl_device_id id) {
  Device device;
  device.platform = platform;
  device.id = id;
  device.platform_name = platform_text(cl, platform, CL_PLATFORM_NAME);
  device.platform_version = platform_text(cl, platform, CL_PLATFORM_VERSION);
  device.name = device_text(cl, id, CL_DEVICE_NAME);
  device.version = device_text(cl, id, CL_DEVICE_VERSION);
  device.driver = device_text(cl, id, CL_DRIVER_VERSION);
  const auto type = device_value<cl_device_type>(cl, id, CL_DEVICE_TYPE);
  device.is_gpu = (type & CL_DEVICE_TYPE_GPU) != 0;
  device.is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0;
  const std::string extensions = device_text(cl, id, CL_DEVICE_EXTENSIONS);
  device.has_fp16 = has_word(extensions, "cl_khr_fp16");
  device.has_fp64 = has_word(extensions, "cl_khr_fp64");
  device.compute_units = device_value<cl_uint>(cl, id, CL_DEVICE_MAX_COMPUTE_UNITS);
  device.global_memory_bytes = device_value<cl_ulong>(cl, id, CL_DEVICE_GLOBAL_MEM_SIZE);
  device.max_allocation_bytes = device_value<cl_ulong>(cl, id, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  device.max_work_group = device_value<size_t>(cl, id, CL_DEVICE_MAX_WORK_GROUP_SIZE);
  size_t items[8] = {};
  check_cl(cl.clGetDeviceInfo(id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof items, items, nullptr), "clGetDeviceInfo");
  std::copy(items, items + 3, device.max_work_items);
  device.base_alignment_bytes = power_of_two_above(device_value<cl_uint>(cl, id, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8);
  return device;
}

bool contains_ignoring_case(const std::string& text, const char* part) {
  const size_t length = std::strlen(part);
  for (size_t i = 0; i + length <= text.size(); ++i) {
    if (strncasecmp(text.c_str() + i, part, length) == 0) return true;
  }
  return false;
}

std::vector<cl_platform_id> list_platforms(const OpenCl& cl) {
  cl_uint count = 0;
  // An ICD loader without drivers answers with an error of its own; that is no platforms, not a failure.
  if (cl.clGetPlatformIDs(0, nullptr, &count) != CL_SUCCESS || count == 0) return {};
  std::vector<cl_platform_id> platforms(count);
  check_cl(cl.clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
  return platforms;
}

[[noreturn]] void fail_no_device(const OpenCl& cl, const char* wanted, const std::vector<Device>& devices) {
  std::string found;
  for (const Device& device : devices) {
    found += format("\n  %s on %s", device.name.c_str(), device.platform_name.c_str());
  }
  if (found.empty()) {
    for (const cl_platform_id platform : list_platforms(cl)) {
      try {
        found += format("\n  platform %s without a device", platform_text(cl, platform, CL_PLATFORM_NAME).c_str());
      } catch (const ClError&) {
        found += "\n  a platform that cannot say its name";
      }
    }
  }
  const char* hint = "";
  if (found.empty()) {
    hint = "\nhint: install the board's OpenCL driver: its vendor's libmali, or Mesa's rusticl (mesa-opencl-icd)";
  } else if (contains_ignoring_case(found, "rusticl") && devices.empty()) {
    hint = "\nhint: Mesa shows its devices only with RUSTICL_ENABLE=panfrost in the environment";
  }
  fail(MALISDK_NO_DEVICE, "device '%s': not found by %s, which offers:%s%s", wanted, cl.path.c_str(),
       found.empty() ? " no platform at all" : found.c_str(), hint);
}

}  // namespace

std::vector<Device> list_devices(const OpenCl& cl) {
  // Drivers start themselves in the first call that asks for devices; two threads at once crash pocl 3.1 or find none.
  static std::mutex starting;
  const std::lock_guard<std::mutex> lock(starting);
  std::vector<Device> devices;
  for (const cl_platform_id platform : list_platforms(cl)) {
    cl_uint count = 0;
    if (cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS || count == 0) continue;
    std::vector<cl_device_id> ids(count);
    if (cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, ids.data(), nullptr) != CL_SUCCESS) continue;
    for (const cl_device_id id : ids) {
      try {
        if (device_value<cl_bool>(cl, id, CL_DEVICE_AVAILABLE) == CL_TRUE) {
          devices.push_back(describe_device(cl, platform, id));
        }
      } catch (const ClError&) {
        // One broken driver must not hide the others.
      }
    }
  }
  return devices;
}

Device choose_device(const OpenCl& cl, const char* wanted) {
  const std::string name = wanted != nullptr && *wanted != '\0' ? wanted : "auto";
  std::vector<Device> devices = list_devices(cl);
  const bool any = name == "auto";
  const auto fits = [&](const Device& device) {
    if (any || name == "gpu") return device.is_gpu;
    if (name == "cpu") return device.is_cpu;
    return contains_ignoring_case(device.name, name.c_str()) ||
           contains_ignoring_case(device.platform_name, name.c_str());
  };
  auto chosen = std::find_if(devices.begin(), devices.end(), fits);
  if (chosen == devices.end() && any) chosen = devices.begin();
  if (chosen == devices.end()) fail_no_device(cl, name.c_str(), devices);
  return *chosen;
}

}  // namespace malisdk
