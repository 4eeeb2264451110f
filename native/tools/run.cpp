#include <sys/stat.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>

#include "commands.h"

namespace tool {
namespace {

// Tensor names may hold slashes and the like; a file name must not.
std::string file_name(const std::string& tensor) {
  std::string name;
  for (const char c : tensor) name += std::isalnum(static_cast<unsigned char>(c)) || std::strchr("._-", c) ? c : '_';
  return name.empty() || name[0] == '.' ? "_" + name : name;
}

void make_folder(const std::string& path) {
  struct stat info = {};
  if (mkdir(path.c_str(), 0777) == 0) return;
  if (errno == EEXIST && stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return;
  throw FileError(path + ": cannot be made a folder: " + std::strerror(errno));
}

int run(const Arguments& arguments) {
  const malisdk::Model model(arguments.positional(0), arguments.model_options());
  const auto inputs = model.inputs();
  const auto outputs = model.outputs();

  std::vector<std::string> names;
  std::vector<Array> arrays;
  for (const std::string& given : arguments.all("--input")) {
    const size_t equals = given.find('=');
    const bool is_named = equals != std::string::npos && equals > 0;
    if (!is_named && inputs.size() != 1) {
      throw UsageError("--input: got '" + given + "'; expected NAME=FILE.npy, as the model has " +
                       std::to_string(inputs.size()) + " inputs\nhint: malisdk info " + arguments.positional(0));
    }
    names.push_back(is_named ? given.substr(0, equals) : inputs[0].name);
    arrays.push_back(read_npy(is_named ? given.substr(equals + 1) : given));
  }
  std::vector<malisdk_tensor> given;
  for (size_t i = 0; i < arrays.size(); ++i) given.push_back(tensor_of(names[i], arrays[i]));
  std::vector<Array> results;
  for (const auto& spec : outputs) results.push_back(empty_array(spec));
  std::vector<malisdk_tensor> wanted;
  for (size_t i = 0; i < outputs.size(); ++i) {
    wanted.push_back(malisdk::make_tensor(outputs[i], results[i].bytes.data(), results[i].bytes.size()));
  }

  malisdk::Session session(model);
  session.run(given, wanted);

  const std::string folder = arguments.get("--output-dir", "");
  make_folder(folder);
  std::set<std::string> used;
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::string name = file_name(outputs[i].name);
    while (!used.insert(name).second) name += "_";
    const std::string path = folder + "/" + name + ".npy";
    write_npy(path, results[i]);
    std::printf("%s  %s\n", path.c_str(), describe(outputs[i]).c_str());
  }
  return kSuccess;
}

}  // namespace

Command run_command() {
  return {{"run",
           {"MODEL.mali"},
           "Runs the model once on inputs from .npy files and writes every output to DIR/<name>.npy.",
           with_model_options(
               {{"--input", "[NAME=]FILE.npy", "an input; the name may be left out if there is one", true, true},
                {"--output-dir", "DIR", "where the outputs go; made if missing", true}})},
          run};
}

}  // namespace tool
