#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>

#include "commands.h"

namespace tool {
namespace {

double milliseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

// Small numbers that are the same in every run: -1 to 1, or 0 to 127 for integers.
Array example_input(const malisdk_tensor_spec& spec) {
  Array array = empty_array(spec);
  const uint64_t width = malisdk_dtype_bytes(spec.dtype);
  uint64_t state = 0x9E3779B97F4A7C15ull;
  for (uint64_t i = 0; i < spec.size_bytes / width; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const double unit = static_cast<double>(state >> 11) / static_cast<double>(1ull << 53);
    uint8_t* element = array.bytes.data() + i * width;
    if (spec.dtype == MALISDK_FLOAT32) {
      const auto value = static_cast<float>(2 * unit - 1);
      std::memcpy(element, &value, width);
    } else if (spec.dtype == MALISDK_FLOAT64) {
      const double value = 2 * unit - 1;
      std::memcpy(element, &value, width);
    } else if (spec.dtype == MALISDK_FLOAT16) {
      const uint16_t value = float_to_half(static_cast<float>(2 * unit - 1));
      std::memcpy(element, &value, width);
    } else {
      element[0] = static_cast<uint8_t>(spec.dtype == MALISDK_BOOL ? unit * 2 : unit * 128);
    }
  }
  return array;
}

uint64_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  if (file == nullptr) return 0;
  unsigned long long kilobytes = 0;
  char line[256];
  while (std::fgets(line, sizeof line, file) != nullptr) {
    if (std::sscanf(line, "VmRSS: %llu", &kilobytes) == 1) break;
  }
  std::fclose(file);
  return kilobytes * 1024;
}

void print_profile(const malisdk::Session::Profile& profile) {
  struct Row {
    std::string kernel, rule;
    uint64_t launches = 0, device_ns = 0, flops = 0, bytes = 0;
  };
  std::map<std::string, Row> by_kernel;
  uint64_t device_ns = 0;
  for (const auto& launch : profile.launches) {
    Row& row = by_kernel[launch.kernel];
    row.kernel = launch.kernel;
    row.rule = launch.rule;
    row.launches += 1;
    row.device_ns += launch.device_ns;
    row.flops += launch.flops;
    row.bytes += launch.bytes;
    device_ns += launch.device_ns;
  }
  if (device_ns == 0) {
    std::printf("\nprofile     the driver does not time kernels; whole run %.3f ms by the host's clock\n",
                static_cast<double>(profile.total_ns) / 1e6);
    return;
  }
  std::vector<Row> rows;
  for (auto& entry : by_kernel) rows.push_back(std::move(entry.second));
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.device_ns > b.device_ns; });
  std::printf("\n%10s %6s %9s %8s %8s  %-24s %s\n", "us", "%", "launches", "GFLOPS", "GB/s", "rule", "kernel");
  for (const Row& row : rows) {
    const auto ns = static_cast<double>(std::max<uint64_t>(row.device_ns, 1));
    std::printf("%10.1f %6.1f %9llu %8.2f %8.2f  %-24s %s\n", ns / 1e3, 100 * ns / static_cast<double>(device_ns),
                static_cast<unsigned long long>(row.launches), static_cast<double>(row.flops) / ns,
                static_cast<double>(row.bytes) / ns, row.rule.c_str(), row.kernel.c_str());
  }
  std::printf("device %.3f ms of %.3f ms on the host's clock\n", static_cast<double>(device_ns) / 1e6,
              static_cast<double>(profile.total_ns) / 1e6);
}

int bench(const Arguments& arguments) {
  const uint32_t runs = arguments.number("--runs", 20, 1, 1000000);
  const uint32_t warmup = arguments.number("--warmup", 2, 0, 1000000);
  auto begin = std::chrono::steady_clock::now();
  const malisdk::Model model(arguments.positional(0), arguments.model_options());
  malisdk::Session session(model, arguments.has("--profile"));
  const double load_ms = milliseconds_since(begin);

  const auto input_specs = model.inputs();
  const auto output_specs = model.outputs();
  std::vector<Array> arrays;
  for (const auto& spec : input_specs) arrays.push_back(example_input(spec));
  for (const auto& spec : output_specs) arrays.push_back(empty_array(spec));
  std::vector<malisdk_tensor> inputs, outputs;
  for (size_t i = 0; i < input_specs.size(); ++i) {
    inputs.push_back(malisdk::make_tensor(input_specs[i], arrays[i].bytes.data(), arrays[i].bytes.size()));
  }
  for (size_t i = 0; i < output_specs.size(); ++i) {
    Array& array = arrays[input_specs.size() + i];
    outputs.push_back(malisdk::make_tensor(output_specs[i], array.bytes.data(), array.bytes.size()));
  }

  begin = std::chrono::steady_clock::now();
  session.run(inputs, outputs);
  const double first_ms = milliseconds_since(begin);
  for (uint32_t i = 0; i < warmup; ++i) session.run(inputs, outputs);
  std::vector<double> times;
  for (uint32_t i = 0; i < runs; ++i) {
    begin = std::chrono::steady_clock::now();
    session.run(inputs, outputs);
    times.push_back(milliseconds_since(begin));
  }
  std::sort(times.begin(), times.end());
  double total_ms = 0;
  for (const double time : times) total_ms += time;
  const auto at = [&](double share) {
    return times[static_cast<size_t>(share * static_cast<double>(times.size() - 1) + 0.5)];
  };

  const malisdk_model_info facts = model.info();
  std::printf("model       %s, %s, %u launches\n", facts.name, malisdk_dtype_name(facts.dtype), facts.launch_count);
  std::printf("device      %s (%s)\n", facts.device, facts.platform);
  std::printf("load        %.1f ms (%u of %u kernels from the cache)\n", load_ms, facts.kernels_from_cache,
              facts.kernel_count);
  std::printf("first run   %.3f ms\n", first_ms);
  std::printf("latency     min %.3f  median %.3f  p95 %.3f  max %.3f ms  (%u runs)\n", times.front(), at(0.5), at(0.95),
              times.back(), runs);
  std::printf("throughput  %.2f runs/s\n", 1000.0 * runs / total_ms);
  std::printf("memory      weights %s, arena %s, resident %s\n", megabytes(facts.weights_bytes).c_str(),
              megabytes(facts.arena_bytes).c_str(), megabytes(resident_bytes()).c_str());
  if (arguments.has("--profile")) print_profile(session.profile());
  return kSuccess;
}

}  // namespace

Command bench_command() {
  return {{"bench",
           {"MODEL.mali"},
           "Times the model on made-up inputs: copying in, all launches, copying out.",
           with_model_options({{"--runs", "N", "timed runs (default: 20)"},
                               {"--warmup", "N", "runs before them, after the first (default: 2)"},
                               {"--profile", "", "also time every kernel on the device"}})},
          bench};
}

}  // namespace tool
