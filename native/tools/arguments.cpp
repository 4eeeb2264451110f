#include "arguments.h"

#include <algorithm>
#include <numeric>

namespace tool {
namespace {

size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row.back();
}

std::string synopsis(const Syntax& syntax) {
  std::string text = "malisdk " + syntax.command;
  for (const std::string& positional : syntax.positionals) text += " " + positional;
  for (const Option& option : syntax.options) {
    if (option.required) text += " " + option.name + " " + option.value;
  }
  return text + " [options]";
}

}  // namespace

std::string suggestion(const std::string& word, const std::vector<std::string>& candidates) {
  std::string best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best.empty() ? "" : " (did you mean '" + best + "'?)";
}

Arguments::Arguments(const Syntax& syntax, const std::vector<std::string>& words) {
  const std::string hint = "\nhint: malisdk " + syntax.command + " --help";
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word.size() < 2 || word[0] != '-') {
      positionals_.push_back(word);
      continue;
    }
    const size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto option = std::find_if(syntax.options.begin(), syntax.options.end(),
                                     [&](const Option& known) { return known.name == name; });
    if (option == syntax.options.end()) {
      std::vector<std::string> names;
      for (const Option& known : syntax.options) names.push_back(known.name);
      throw UsageError("malisdk " + syntax.command + ": unknown option, got '" + name + "'" + suggestion(name, names) +
                       hint);
    }
    std::string value;
    if (option->value.empty()) {
      if (equals != std::string::npos) throw UsageError(name + ": takes no value, got '" + word + "'" + hint);
    } else if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (i + 1 < words.size()) {
      value = words[++i];
    } else {
      throw UsageError(name + ": has no value; expected " + option->value + hint);
    }
    std::vector<std::string>& values = values_[name];
    if (!values.empty() && !option->repeated) throw UsageError(name + ": given twice; expected once" + hint);
    values.push_back(value);
  }
  if (positionals_.size() != syntax.positionals.size()) {
    throw UsageError("malisdk " + syntax.command + ": got " + std::to_string(positionals_.size()) +
                     " arguments; expected: " + synopsis(syntax) + hint);
  }
  for (const Option& option : syntax.options) {
    if (option.required && !has(option.name)) {
      throw UsageError("malisdk " + syntax.command + ": " + option.name + " is missing; expected: " + synopsis(syntax) +
                       hint);
    }
  }
}

std::vector<std::string> Arguments::all(const std::string& option) const {
  const auto found = values_.find(option);
  return found != values_.end() ? found->second : std::vector<std::string>{};
}

std::string Arguments::get(const std::string& option, const std::string& otherwise) const {
  const auto found = values_.find(option);
  return found != values_.end() ? found->second.back() : otherwise;
}

uint32_t Arguments::number(const std::string& option, uint32_t otherwise, uint32_t least, uint32_t most) const {
  if (!has(option)) return otherwise;
  const std::string text = get(option, "");
  const bool digits = !text.empty() && text.size() <= 9 && text.find_first_not_of("0123456789") == std::string::npos;
  const unsigned long value = digits ? std::stoul(text) : 0;
  if (!digits || value < least || value > most) {
    throw UsageError(option + ": got '" + text + "'; expected a number from " + std::to_string(least) + " to " +
                     std::to_string(most));
  }
  return static_cast<uint32_t>(value);
}

malisdk::Options Arguments::model_options() const {
  malisdk::Options options;
  if (has("--device")) options.device = get("--device", "");
  if (has("--cache-dir")) options.cache_dir = get("--cache-dir", "");
  if (has("--opencl-library")) options.opencl_library = get("--opencl-library", "");
  return options;
}

std::vector<Option> with_model_options(std::vector<Option> options) {
  options.push_back({"--device", "NAME", "auto, gpu, cpu, or a part of a device's or platform's name (default: auto)"});
  options.push_back({"--cache-dir", "DIR", "folder of the kernel cache; '' for none (default: ~/.cache/malisdk)"});
  options.push_back({"--opencl-library", "FILE", "the OpenCL library to use (default: the usual names)"});
  return options;
}

std::string help_text(const Syntax& syntax) {
  std::string text = "usage: " + synopsis(syntax) + "\n\n" + syntax.summary + "\n\noptions:\n";
  std::vector<std::pair<std::string, std::string>> rows;
  for (const Option& option : syntax.options) {
    rows.emplace_back(option.value.empty() ? option.name : option.name + " " + option.value, option.help);
  }
  rows.emplace_back("--help", "this text");
  size_t width = 0;
  for (const auto& row : rows) width = std::max(width, row.first.size());
  for (const auto& [left, right] : rows) text += "  " + left + std::string(width - left.size() + 2, ' ') + right + "\n";
  return text;
}

}  // namespace tool
