// malisdk for C++17: thin RAII classes over malisdk.h, header only. Failures are malisdk::Error.
//
//   malisdk::Model model("net.mali");
//   malisdk::Session session(model);
//   std::vector<float> image(...), scores(...);
//   session.run({model.tensor_for_input(0, image)}, {model.tensor_for_output(0, scores)});
#ifndef MALISDK_MALISDK_HPP
#define MALISDK_MALISDK_HPP

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "malisdk/malisdk.h"

namespace malisdk {
inline namespace abi1 {

class Error : public std::runtime_error {
 public:
  Error(malisdk_status status, const std::string& text) : std::runtime_error(text), status_(status) {}
  malisdk_status status() const noexcept { return status_; }

 private:
  malisdk_status status_;
};

inline void check(malisdk_status status) {
  if (status != MALISDK_OK) throw Error(status, malisdk_last_error());
}

// Absent values mean the defaults that malisdk_model_options describes.
struct Options {
  std::optional<std::string> device;
  std::optional<std::string> cache_dir;
  std::optional<std::string> opencl_library;
};

// A tensor of the caller's memory in the form that `spec` asks for. `size_bytes` is what the caller has there.
inline malisdk_tensor make_tensor(const malisdk_tensor_spec& spec, void* data, uint64_t size_bytes) {
  malisdk_tensor tensor = {};
  tensor.name = spec.name;
  tensor.dtype = spec.dtype;
  tensor.rank = spec.rank;
  for (uint32_t axis = 0; axis < spec.rank; ++axis) tensor.shape[axis] = spec.shape[axis];
  tensor.data = data;
  tensor.size_bytes = size_bytes;
  return tensor;
}

class Model {
 public:
  explicit Model(const std::string& path, const Options& options = {}) {
    const malisdk_model_options raw = raw_options(options);
    check(malisdk_model_load(path.c_str(), &raw, &handle_));
  }
  Model(const void* data, uint64_t size_bytes, const Options& options = {}) {
    const malisdk_model_options raw = raw_options(options);
    check(malisdk_model_load_memory(data, size_bytes, &raw, &handle_));
  }
  ~Model() { malisdk_model_destroy(handle_); }
  Model(Model&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Model& operator=(Model&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  malisdk_model* get() const noexcept { return handle_; }

  malisdk_model_info info() const {
    malisdk_model_info info = {};
    info.struct_size = sizeof info;
    check(malisdk_model_info_get(handle_, &info));
    return info;
  }
  malisdk_tensor_spec input(uint32_t index) const {
    malisdk_tensor_spec spec;
    check(malisdk_model_input(handle_, index, &spec));
    return spec;
  }
  malisdk_tensor_spec output(uint32_t index) const {
    malisdk_tensor_spec spec;
    check(malisdk_model_output(handle_, index, &spec));
    return spec;
  }
  std::vector<malisdk_tensor_spec> inputs() const {
    std::vector<malisdk_tensor_spec> specs;
    for (uint32_t i = 0, count = info().input_count; i < count; ++i) specs.push_back(input(i));
    return specs;
  }
  std::vector<malisdk_tensor_spec> outputs() const {
    std::vector<malisdk_tensor_spec> specs;
    for (uint32_t i = 0, count = info().output_count; i < count; ++i) specs.push_back(output(i));
    return specs;
  }

  // The vector must stay as it is until the run is over.
  template <class Element>
  malisdk_tensor tensor_for_input(uint32_t index, std::vector<Element>& values) const {
    return make_tensor(input(index), values.data(), values.size() * sizeof(Element));
  }
  template <class Element>
  malisdk_tensor tensor_for_output(uint32_t index, std::vector<Element>& values) const {
    return make_tensor(output(index), values.data(), values.size() * sizeof(Element));
  }

 private:
  static malisdk_model_options raw_options(const Options& options) {
    malisdk_model_options raw = {};
    raw.struct_size = sizeof raw;
    raw.device = options.device ? options.device->c_str() : nullptr;
    raw.cache_dir = options.cache_dir ? options.cache_dir->c_str() : nullptr;
    raw.opencl_library = options.opencl_library ? options.opencl_library->c_str() : nullptr;
    return raw;
  }

  malisdk_model* handle_ = nullptr;
};

// For one thread at a time.
class Session {
 public:
  struct Profile {
    std::vector<malisdk_launch_profile> launches;
    uint64_t total_ns = 0;
  };

  explicit Session(const Model& model, bool profile = false) {
    malisdk_session_options options = {};
    options.struct_size = sizeof options;
    options.profile = profile ? 1 : 0;
    check(malisdk_session_create(model.get(), &options, &handle_));
  }
  ~Session() { malisdk_session_destroy(handle_); }
  Session(Session&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Session& operator=(Session&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  malisdk_session* get() const noexcept { return handle_; }

  void run(const std::vector<malisdk_tensor>& inputs, std::vector<malisdk_tensor> outputs) {
    check(malisdk_session_run(handle_, inputs.data(), static_cast<uint32_t>(inputs.size()), outputs.data(),
                              static_cast<uint32_t>(outputs.size())));
  }

  // Needs a session made with profile = true that has run before.
  Profile profile() {
    const malisdk_launch_profile* launches = nullptr;
    uint32_t count = 0;
    Profile result;
    check(malisdk_session_profile(handle_, &launches, &count, &result.total_ns));
    result.launches.assign(launches, launches + count);
    return result;
  }

 private:
  malisdk_session* handle_ = nullptr;
};

// The memory of an input, to be written in place; given back by the destructor or by unmap, which reports failures.
class MappedInput {
 public:
  MappedInput(Session& session, uint32_t index) : session_(session.get()), index_(index) {
    check(malisdk_session_map_input(session_, index_, &data_));
  }
  ~MappedInput() {
    if (data_ != nullptr) static_cast<void>(malisdk_session_unmap_input(session_, index_) == MALISDK_OK);
  }
  MappedInput(const MappedInput&) = delete;
  MappedInput& operator=(const MappedInput&) = delete;
  void unmap() {
    if (std::exchange(data_, nullptr) != nullptr) check(malisdk_session_unmap_input(session_, index_));
  }
  void* data() const noexcept { return data_; }

 private:
  malisdk_session* session_;
  uint32_t index_;
  void* data_ = nullptr;
};

// The memory of an output after a run, to be read in place.
class MappedOutput {
 public:
  MappedOutput(Session& session, uint32_t index) : session_(session.get()), index_(index) {
    void* data = nullptr;
    check(malisdk_session_map_output(session_, index_, &data));
    data_ = data;
  }
  ~MappedOutput() {
    if (data_ != nullptr) static_cast<void>(malisdk_session_unmap_output(session_, index_) == MALISDK_OK);
  }
  MappedOutput(const MappedOutput&) = delete;
  MappedOutput& operator=(const MappedOutput&) = delete;
  void unmap() {
    if (std::exchange(data_, nullptr) != nullptr) check(malisdk_session_unmap_output(session_, index_));
  }
  const void* data() const noexcept { return data_; }

 private:
  malisdk_session* session_;
  uint32_t index_;
  const void* data_ = nullptr;
};

inline std::vector<malisdk_device_info> devices(const std::optional<std::string>& opencl_library = {}) {
  const char* library = opencl_library ? opencl_library->c_str() : nullptr;
  uint32_t count = 0;
  check(malisdk_device_count(library, &count));
  std::vector<malisdk_device_info> list(count);
  for (uint32_t i = 0; i < count; ++i) check(malisdk_device_info_get(library, i, &list[i]));
  return list;
}

}  // namespace abi1
}  // namespace malisdk

#endif  // MALISDK_MALISDK_HPP
