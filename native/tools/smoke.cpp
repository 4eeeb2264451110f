#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "commands.h"
#include "json.h"

namespace tool {
namespace {

constexpr double kTiny = 1e-12;  // an all-zero reference then compares absolutely

std::vector<std::string> list_cases(const std::string& folder) {
  DIR* directory = opendir(folder.c_str());
  if (directory == nullptr) throw FileError(folder + ": cannot be opened: " + std::strerror(errno));
  std::vector<std::string> names;
  while (const dirent* entry = readdir(directory)) {
    struct stat info = {};
    const std::string name = entry->d_name;
    if (name[0] != '.' && stat((folder + "/" + name + "/case.json").c_str(), &info) == 0) names.push_back(name);
  }
  closedir(directory);
  std::sort(names.begin(), names.end());
  if (names.empty()) throw FileError(folder + ": holds no smoke case; expected folders with a case.json");
  return names;
}

std::vector<std::string> names_in(const std::string& path, const Json& list) {
  std::vector<std::string> names;
  for (const Json& item : list.array) {
    if (item.kind != Json::Kind::string) throw FileError(path + ": a tensor name is no string");
    names.push_back(item.string);
  }
  return names;
}

// max |y - reference| / max |reference|; infinite when either holds a NaN.
double relative_error(const Array& result, const Array& reference) {
  double largest_error = 0;
  double largest = kTiny;
  for (uint64_t i = 0; i < reference.element_count(); ++i) {
    const double expected = reference.at(i);
    const double error = std::fabs(result.at(i) - expected);
    if (!(error <= std::numeric_limits<double>::max())) return std::numeric_limits<double>::infinity();
    largest_error = std::max(largest_error, error);
    largest = std::max(largest, std::fabs(expected));
  }
  return largest_error / largest;
}

uint64_t index_of_largest(const Array& array) {
  uint64_t best = 0;
  for (uint64_t i = 1; i < array.element_count(); ++i) {
    if (array.at(i) > array.at(best)) best = i;
  }
  return best;
}

const char* verdict(bool passed) { return passed ? "ok" : "WRONG"; }

bool run_case(const std::string& folder, const std::string& name, malisdk::Session& session,
              const std::vector<malisdk_tensor_spec>& output_specs) {
  const std::string path = folder + "/case.json";
  const Json facts = read_json(path);
  const double limit = facts.member(path, "rtol", Json::Kind::number).number;
  const auto inputs = names_in(path, facts.member(path, "inputs", Json::Kind::array));
  const auto outputs = names_in(path, facts.member(path, "outputs", Json::Kind::array));

  std::vector<Array> input_arrays, references, results;
  for (size_t i = 0; i < inputs.size(); ++i) {
    input_arrays.push_back(read_npy(folder + "/input_" + std::to_string(i) + ".npy"));
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    references.push_back(read_npy(folder + "/expected_" + std::to_string(i) + ".npy"));
    const auto spec = std::find_if(output_specs.begin(), output_specs.end(),
                                   [&](const malisdk_tensor_spec& known) { return outputs[i] == known.name; });
    if (spec == output_specs.end()) throw FileError(path + ": the model has no output '" + outputs[i] + "'");
    results.push_back(empty_array(*spec));
    if (results[i].shape != references[i].shape) {
      throw FileError(folder + ": expected_" + std::to_string(i) + ".npy: got " + references[i].describe() +
                      "; expected " + results[i].describe());
    }
  }
  std::vector<malisdk_tensor> given, wanted;
  for (size_t i = 0; i < inputs.size(); ++i) given.push_back(tensor_of(inputs[i], input_arrays[i]));
  for (size_t i = 0; i < outputs.size(); ++i) wanted.push_back(tensor_of(outputs[i], results[i]));
  session.run(given, wanted);

  bool passed = true;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const double error = relative_error(results[i], references[i]);
    const bool fits = error <= limit;
    passed = passed && fits;
    std::printf("%-16s output '%s'  relative error %.3g (limit %.3g)  %s\n", name.c_str(), outputs[i].c_str(), error,
                limit, verdict(fits));
  }
  if (const Json* top1 = facts.find("top1")) {
    if (results.empty()) throw FileError(path + ": top1 without an output");
    const auto expected = static_cast<uint64_t>(top1->member(path, "index", Json::Kind::number).number);
    const std::string label = top1->member(path, "label", Json::Kind::string).string;
    const uint64_t best = index_of_largest(results[0]);
    passed = passed && best == expected;
    std::printf("%-16s top-1 is %llu, expected %llu (%s)  %s\n", name.c_str(), static_cast<unsigned long long>(best),
                static_cast<unsigned long long>(expected), label.c_str(), verdict(best == expected));
  }
  return passed;
}

int smoke(const Arguments& arguments) {
  const std::string folder = arguments.positional(1);
  const auto cases = list_cases(folder);
  const malisdk::Model model(arguments.positional(0), arguments.model_options());
  const auto outputs = model.outputs();
  malisdk::Session session(model);
  const malisdk_model_info facts = model.info();
  std::printf("%s on %s (%s)\n", facts.name, facts.device, facts.platform);
  size_t passed = 0;
  for (const std::string& name : cases) passed += run_case(folder + "/" + name, name, session, outputs) ? 1 : 0;
  std::printf("%zu of %zu cases passed\n", passed, cases.size());
  return passed == cases.size() ? kSuccess : kMismatch;
}

}  // namespace

Command smoke_command() {
  return {
      {"smoke",
       {"MODEL.mali", "DIR"},
       "Runs every case in DIR (DIR/<case>/case.json, input_<i>.npy, expected_<i>.npy) and compares.\nExit code 0: all "
       "agree; 1: some do not.",
       with_model_options({})},
      smoke};
}

}  // namespace tool
