// Command line of one subcommand: what it takes, what was given, and its help.
#pragma once

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "malisdk/malisdk.hpp"

namespace tool {

// A misuse of the command line or a file that is not what it should be; exit code 2 and 3.
class UsageError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
class FileError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Option {
  std::string name;   // "--runs"
  std::string value;  // "N"; empty: a switch
  std::string help;
  bool required = false;
  bool repeated = false;
};

struct Syntax {
  std::string command;
  std::vector<std::string> positionals;  // "MODEL"
  std::string summary;
  std::vector<Option> options;
};

class Arguments {
 public:
  // Throws UsageError; names the nearest option for an unknown one.
  Arguments(const Syntax& syntax, const std::vector<std::string>& words);

  const std::string& positional(size_t index) const { return positionals_.at(index); }
  bool has(const std::string& option) const { return values_.count(option) != 0; }
  std::vector<std::string> all(const std::string& option) const;
  std::string get(const std::string& option, const std::string& otherwise) const;
  uint32_t number(const std::string& option, uint32_t otherwise, uint32_t least, uint32_t most) const;
  // --device, --cache-dir and --opencl-library.
  malisdk::Options model_options() const;

 private:
  std::vector<std::string> positionals_;
  std::map<std::string, std::vector<std::string>> values_;
};

// The three options of every command that loads a model.
std::vector<Option> with_model_options(std::vector<Option> options);
std::string help_text(const Syntax& syntax);

// " (did you mean 'x'?)", or nothing when no candidate is near.
std::string suggestion(const std::string& word, const std::vector<std::string>& candidates);

}  // namespace tool
