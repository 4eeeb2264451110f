#include "opencl.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>

#include "error.h"

namespace malisdk {
namespace {

// Linux names first: the ICD loader, then Arm's own library; then where Android vendors keep theirs.
constexpr const char* kCandidates[] = {
    "libOpenCL.so.1",
    "libOpenCL.so",
    "libmali.so.1",
    "libmali.so",
    "libOpenCL-pixel.so",
    "/vendor/lib64/libOpenCL.so",
    "/system/vendor/lib64/libOpenCL.so",
    "/vendor/lib64/egl/libGLES_mali.so",
    "/system/vendor/lib64/egl/libGLES_mali.so",
};

std::atomic<pid_t> owner_process{0};

std::unique_ptr<OpenCl> open_library(const char* path, std::string& reasons) {
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* reason = dlerror();
    reasons += format("\n  %s", reason != nullptr ? reason : path);
    return nullptr;
  }
  auto library = std::make_unique<OpenCl>();
  library->path = path;
  std::string missing;
#define MALISDK_RESOLVE(name)                                                      \
  library->name = reinterpret_cast<decltype(library->name)>(dlsym(handle, #name)); \
  if (library->name == nullptr) missing += " " #name;
  MALISDK_OPENCL_ENTRIES(MALISDK_RESOLVE)
#undef MALISDK_RESOLVE
  if (missing.empty()) return library;
  dlclose(handle);
  reasons += format("\n  %s: no usable OpenCL library, it lacks:%s", path, missing.c_str());
  return nullptr;
}

bool has_platform(const OpenCl& library) {
  cl_uint count = 0;
  return library.clGetPlatformIDs(0, nullptr, &count) == CL_SUCCESS && count > 0;
}

// Boards often carry an ICD loader that knows no driver beside a driver that needs no loader: a library without any
// platform is only taken when no later candidate has one.
std::unique_ptr<OpenCl> search(std::string& reasons) {
  std::unique_ptr<OpenCl> without_platform;
  for (const char* candidate : kCandidates) {
    auto library = open_library(candidate, reasons);
    if (library == nullptr) continue;
    if (has_platform(*library)) return library;
    if (without_platform == nullptr) without_platform = std::move(library);
  }
  return without_platform;
}

}  // namespace

const OpenCl& load_opencl(const char* path) {
  const pid_t owner = owner_process.load();
  if (owner != 0 && owner != getpid()) {
    fail(
        MALISDK_DEVICE_ERROR,
        "OpenCL: was started by process %d before it forked this process %d; expected a process that starts it itself\n"
        "hint: load models after fork, or start a new process (multiprocessing: method 'spawn')",
        static_cast<int>(owner), static_cast<int>(getpid()));
  }
  if (path == nullptr) path = std::getenv("MALISDK_OPENCL_LIBRARY");
  const std::string key = path != nullptr ? path : "";

  static std::mutex mutex;
  // Never destroyed: threads of the driver may outlive main.
  static auto& loaded = *new std::map<std::string, std::unique_ptr<OpenCl>>();
  const std::lock_guard<std::mutex> lock(mutex);
  const auto known = loaded.find(key);
  if (known != loaded.end()) return *known->second;

  std::string reasons;
  auto library = key.empty() ? search(reasons) : open_library(key.c_str(), reasons);
  if (library == nullptr) {
    fail(MALISDK_NO_OPENCL,
         "OpenCL: no usable library, tried:%s\nhint: install the board's OpenCL driver, or name its library with "
         "MALISDK_OPENCL_LIBRARY",
         reasons.c_str());
  }
  owner_process.store(getpid());
  return *loaded.emplace(key, std::move(library)).first->second;
}

}  // namespace malisdk
