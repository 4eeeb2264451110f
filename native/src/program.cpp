#include "program.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <numeric>
#include <system_error>
#include <thread>

#include "hash.h"

namespace malisdk {
namespace {

constexpr const char* kBuildOptions = "-cl-std=CL1.2";
// A fixed number, so that cache entries do not depend on how many cores are online. RK3399 has 2 big and 4 little ones.
constexpr size_t kMaxPrograms = 4;
constexpr size_t kMinKernelsPerProgram = 4;
constexpr size_t kMaxLogBytes = 6000;

// The part of a model that becomes one cl_program.
struct Group {
  std::vector<uint32_t> members;  // indices of sources
  std::string text;
  Program program;
  std::vector<Kernel> kernels;  // in the order of `members`
  bool from_cache = false;
};

std::vector<Group> make_groups(const std::vector<KernelSource>& sources) {
  const size_t wanted = (sources.size() + kMinKernelsPerProgram - 1) / kMinKernelsPerProgram;
  std::vector<Group> groups(std::clamp<size_t>(wanted, 1, kMaxPrograms));
  std::vector<uint32_t> order(sources.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return sources[a].text.size() > sources[b].text.size(); });
  for (const uint32_t index : order) {
    auto smallest = std::min_element(groups.begin(), groups.end(),
                                     [](const Group& a, const Group& b) { return a.text.size() < b.text.size(); });
    smallest->members.push_back(index);
    smallest->text.append(sources[index].text).append("\n");
  }
  return groups;
}

class Builder {
 public:
  Builder(const OpenCl& cl, cl_context context, const Device& device, const std::vector<KernelSource>& sources,
          const BinaryCache& cache)
      : cl_(cl), context_(context), device_(device), sources_(sources), cache_(cache) {}

  void build(Group& group) const {
    const std::string key = key_of(group);
    if (from_binary(group, key)) return;
    from_source(group);
    cache_.store(key, binary_of(group.program.get()));
  }

 private:
  std::string key_of(const Group& group) const {
    return format("%s\n%s\n%s\n%s\n%s\n%s\n%016llx%016llx %zu", device_.platform_name.c_str(),
                  device_.platform_version.c_str(), device_.name.c_str(), device_.version.c_str(),
                  device_.driver.c_str(), kBuildOptions,
                  static_cast<unsigned long long>(hash64(group.text.data(), group.text.size())),
                  static_cast<unsigned long long>(hash64(group.text.data(), group.text.size(), 1)), group.text.size());
  }

  bool from_binary(Group& group, const std::string& key) const {
    const std::vector<uint8_t> binary = cache_.load(key);
    if (binary.empty()) return false;
    const size_t size_bytes = binary.size();
    const unsigned char* bytes = binary.data();
    cl_int status = CL_SUCCESS;
    cl_int code = CL_SUCCESS;
    Program program(cl_, cl_.clCreateProgramWithBinary(context_, 1, &device_.id, &size_bytes, &bytes, &status, &code));
    const bool usable =
        code == CL_SUCCESS && status == CL_SUCCESS && program &&
        cl_.clBuildProgram(program.get(), 1, &device_.id, kBuildOptions, nullptr, nullptr) == CL_SUCCESS;
    if (usable) {
      try {
        group.kernels = create_kernels(program.get(), group);
        group.program = std::move(program);
        group.from_cache = true;
        return true;
      } catch (const ClError&) {
        // Handled below: the sources are still there.
      }
    }
    cache_.remove(key);
    return false;
  }

  void from_source(Group& group) const {
    const char* text = group.text.c_str();
    const size_t size_bytes = group.text.size();
    cl_int code = CL_SUCCESS;
    Program program(cl_, cl_.clCreateProgramWithSource(context_, 1, &text, &size_bytes, &code));
    check_cl(code, "clCreateProgramWithSource");
    code = cl_.clBuildProgram(program.get(), 1, &device_.id, kBuildOptions, nullptr, nullptr);
    if (code != CL_SUCCESS) {
      throw ClError(code,
                    format("kernel '%s' and %zu more: do not compile on %s, got %s (%d)\nbuild log:\n%s",
                           sources_[group.members[0]].name.c_str(), group.members.size() - 1, device_.name.c_str(),
                           cl_code_name(code), static_cast<int>(code), build_log(program.get()).c_str()));
    }
    group.kernels = create_kernels(program.get(), group);
    group.program = std::move(program);
  }

  std::vector<Kernel> create_kernels(cl_program program, const Group& group) const {
    std::vector<Kernel> kernels;
    kernels.reserve(group.members.size());
    for (const uint32_t index : group.members) {
      cl_int code = CL_SUCCESS;
      kernels.emplace_back(cl_, cl_.clCreateKernel(program, sources_[index].name.c_str(), &code));
      if (code != CL_SUCCESS) fail_cl(code, "clCreateKernel", format("kernel '%s'", sources_[index].name.c_str()));
    }
    return kernels;
  }

  std::string build_log(cl_program program) const {
    size_t size_bytes = 0;
    const cl_uint what = CL_PROGRAM_BUILD_LOG;
    if (cl_.clGetProgramBuildInfo(program, device_.id, what, 0, nullptr, &size_bytes) != CL_SUCCESS) size_bytes = 0;
    std::string log(size_bytes, '\0');
    if (size_bytes == 0 ||
        cl_.clGetProgramBuildInfo(program, device_.id, what, size_bytes, log.data(), nullptr) != CL_SUCCESS) {
      return "(the driver gives none)";
    }
    log.resize(std::min(log.find('\0'), log.size()));
    if (log.size() > kMaxLogBytes) log = log.substr(0, kMaxLogBytes) + "\n[...]";
    return log;
  }

  // Empty when the driver does not hand its binary out.
  std::vector<uint8_t> binary_of(cl_program program) const {
    size_t size_bytes = 0;
    if (cl_.clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof size_bytes, &size_bytes, nullptr) != CL_SUCCESS) {
      return {};
    }
    std::vector<uint8_t> binary(size_bytes);
    unsigned char* bytes = binary.data();
    if (size_bytes == 0 ||
        cl_.clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof bytes, &bytes, nullptr) != CL_SUCCESS) {
      return {};
    }
    return binary;
  }

  const OpenCl& cl_;
  cl_context context_;
  const Device& device_;
  const std::vector<KernelSource>& sources_;
  const BinaryCache& cache_;
};

size_t thread_count(size_t jobs) {
  size_t limit = std::max(1u, std::thread::hardware_concurrency());
  if (const char* text = std::getenv("MALISDK_BUILD_THREADS")) {
    const long asked = std::strtol(text, nullptr, 10);
    if (asked >= 1) limit = static_cast<size_t>(asked);
  }
  return std::min(jobs, limit);
}

// Runs job(0..count-1) on a few threads; rethrows the failure of the lowest-numbered job.
template <class Job>
void run_parallel(size_t count, const Job& job) {
  std::atomic<size_t> next{0};
  std::vector<std::exception_ptr> failures(count);
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        job(i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> threads;
  try {
    const size_t helpers = thread_count(count) - 1;
    threads.reserve(helpers);
    while (threads.size() < helpers) threads.emplace_back(work);
  } catch (const std::system_error&) {
    // No more threads to be had: this one does the work.
  }
  work();
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace

BuiltKernels build_kernels(const OpenCl& cl, cl_context context, const Device& device,
                           const std::vector<KernelSource>& sources, const BinaryCache& cache) {
  if (sources.empty()) return {};
  std::vector<Group> groups = make_groups(sources);
  const Builder builder(cl, context, device, sources, cache);
  run_parallel(groups.size(), [&](size_t i) { builder.build(groups[i]); });

  BuiltKernels built;
  built.program_of.resize(sources.size());
  built.kernels.resize(sources.size());
  for (Group& group : groups) {
    const auto program_index = static_cast<uint32_t>(built.programs.size());
    for (size_t i = 0; i < group.members.size(); ++i) {
      built.program_of[group.members[i]] = program_index;
      built.kernels[group.members[i]] = std::move(group.kernels[i]);
    }
    if (group.from_cache) built.from_cache += static_cast<uint32_t>(group.members.size());
    built.programs.push_back(std::move(group.program));
  }
  return built;
}

}  // namespace malisdk
