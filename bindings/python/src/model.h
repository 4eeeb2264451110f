// A loaded model and one session to run it in, and the maps of its tensors.
#pragma once

#include <pybind11/numpy.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "malisdk/malisdk.h"
#include "tensor.h"

namespace malisdk_py {

struct Destroy {
  void operator()(malisdk_model* model) const { malisdk_model_destroy(model); }
  void operator()(malisdk_session* session) const { malisdk_session_destroy(session); }
};
using SessionHandle = std::unique_ptr<malisdk_session, Destroy>;

// What must outlive a running call and every view of a tensor's memory, also when the model is closed meanwhile.
struct State {
  std::unique_ptr<malisdk_model, Destroy> model;
  SessionHandle session;
  bool profiling = false;
  std::mutex profile_rows;  // held from a profile until its rows, which the next one overwrites, are copied
  std::vector<Spec> inputs;
  std::vector<Spec> outputs;
};

// One map of one tensor: unmapped once, at the latest when the last view of it is gone.
class MappedMemory {
 public:
  MappedMemory(std::shared_ptr<State> state, const Spec& spec);
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  void* data() const { return data_; }
  void unmap();

 private:
  malisdk_status release();
  std::shared_ptr<State> state_;
  const Spec& spec_;
  void* data_ = nullptr;
  bool mapped_ = false;
};

// The context manager around a MappedMemory.
class Mapping {
 public:
  Mapping(std::shared_ptr<State> state, const Spec& spec) : state_(std::move(state)), spec_(spec) {}
  pybind11::array enter();
  void exit();

 private:
  std::shared_ptr<State> state_;
  const Spec& spec_;
  std::shared_ptr<MappedMemory> memory_;
  pybind11::object view_;
};

class Model {
 public:
  Model(const std::string& path, const std::string& device, const std::optional<std::string>& cache_dir,
        const std::optional<std::string>& opencl_library, bool profile);

  pybind11::list specs(Side side) const;
  pybind11::dict info() const;
  void run(const pybind11::dict& inputs, const pybind11::dict& outputs) const;
  Mapping map(Side side, pybind11::handle which) const;
  pybind11::tuple profile(const pybind11::dict& inputs) const;
  void close();
  bool closed() const { return !state_; }

 private:
  std::shared_ptr<State> open() const;
  std::shared_ptr<State> state_;  // none once closed
};

}  // namespace malisdk_py
