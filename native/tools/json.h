// A strict reader for the small JSON files beside smoke cases.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace tool {

struct Json {
  enum class Kind { null, boolean, number, string, array, object };
  Kind kind = Kind::null;
  bool boolean = false;
  double number = 0;
  std::string string;
  std::vector<Json> array;
  std::map<std::string, Json> object;

  // A member that must be there with that kind. Throws FileError that names `path`.
  const Json& member(const std::string& path, const std::string& key, Kind kind) const;
  // NULL when there is none or it is null.
  const Json* find(const std::string& key) const;
};

// Throws FileError with the position of the fault.
Json read_json(const std::string& path);

}  // namespace tool
