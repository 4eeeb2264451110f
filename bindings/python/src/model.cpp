#include "model.h"

#include <pybind11/stl.h>

#include <utility>

#include "error.h"

namespace py = pybind11;

namespace malisdk_py {
namespace {

void refuse_zero_byte(const std::string& text, const char* what) {
  if (text.find('\0') != std::string::npos) {
    throw StatusError(MALISDK_INVALID_ARGUMENT, std::string(what) + ": a zero byte in the text; expected none");
  }
}

const char* or_null(const std::optional<std::string>& text, const char* what) {
  if (!text) return nullptr;
  refuse_zero_byte(*text, what);
  return text->c_str();
}

// Arrays of a dict as tensors, and references that keep their memory while the GIL is gone.
struct Tensors {
  std::vector<malisdk_tensor> raw;
  std::vector<py::object> arrays;

  Tensors(const std::vector<Spec>& specs, Side side, const py::dict& values) {
    for (const auto& [name, value] : values) {
      raw.push_back(tensor_of(find_spec(specs, side, name), value));
      arrays.push_back(py::reinterpret_borrow<py::object>(value));
    }
  }
  uint32_t count() const { return static_cast<uint32_t>(raw.size()); }
};

struct KernelRow {
  std::string kernel, layer, rule;
  uint64_t device_ns, flops, bytes;
};

}  // namespace

MappedMemory::MappedMemory(std::shared_ptr<State> state, const Spec& spec) : state_(std::move(state)), spec_(spec) {
  malisdk_session* session = state_->session.get();
  call_without_gil([&] {
    return spec_.side == Side::input ? malisdk_session_map_input(session, spec_.index, &data_)
                                     : malisdk_session_map_output(session, spec_.index, &data_);
  });
  mapped_ = true;
}

malisdk_status MappedMemory::release() {
  malisdk_session* session = state_->session.get();
  const malisdk_status status = spec_.side == Side::input ? malisdk_session_unmap_input(session, spec_.index)
                                                          : malisdk_session_unmap_output(session, spec_.index);
  if (status == MALISDK_OK) mapped_ = false;
  return status;
}

void MappedMemory::unmap() {
  call_without_gil([this] { return release(); });
}

MappedMemory::~MappedMemory() {
  if (mapped_) static_cast<void>(release());  // nobody is left to tell; the session frees what stays mapped
}

py::array Mapping::enter() {
  if (memory_) {
    throw StatusError(MALISDK_BUSY, "tensor '" + spec_.name + "': this map is open already; expected one block at a time");
  }
  auto memory = std::make_shared<MappedMemory>(state_, spec_);
  auto owner = std::make_unique<std::shared_ptr<MappedMemory>>(memory);
  const py::capsule base(owner.get(), [](void* p) { delete static_cast<std::shared_ptr<MappedMemory>*>(p); });
  owner.release();
  py::array view = view_of(spec_, memory->data(), base);
  memory_ = std::move(memory);
  view_ = view;
  return view;
}

void Mapping::exit() {
  if (!memory_) {
    throw StatusError(MALISDK_INVALID_ARGUMENT, "tensor '" + spec_.name + "': this map is not open");
  }
  const std::shared_ptr<MappedMemory> memory = std::move(memory_);
  const py::object view = std::exchange(view_, py::object());
  empty_view(py::reinterpret_borrow<py::array>(view));
  memory->unmap();
}

Model::Model(const std::string& path, const std::string& device, const std::optional<std::string>& cache_dir,
             const std::optional<std::string>& opencl_library, bool profile) {
  refuse_zero_byte(path, "path");
  refuse_zero_byte(device, "device");
  malisdk_model_options model_options{};
  model_options.struct_size = sizeof model_options;
  model_options.device = device.c_str();
  model_options.cache_dir = or_null(cache_dir, "cache_dir");
  model_options.opencl_library = or_null(opencl_library, "opencl_library");
  malisdk_session_options session_options{};
  session_options.struct_size = sizeof session_options;
  session_options.profile = profile ? 1 : 0;

  auto state = std::make_shared<State>();
  state->profiling = profile;
  call_without_gil([&] {
    malisdk_model* model = nullptr;
    const malisdk_status status = malisdk_model_load(path.c_str(), &model_options, &model);
    state->model.reset(model);
    return status;
  });
  call_without_gil([&] {
    malisdk_session* session = nullptr;
    const malisdk_status status = malisdk_session_create(state->model.get(), &session_options, &session);
    state->session.reset(session);
    return status;
  });
  malisdk_model_info counts{};
  counts.struct_size = sizeof counts;
  check(malisdk_model_info_get(state->model.get(), &counts));
  malisdk_tensor_spec raw{};
  for (uint32_t i = 0; i < counts.input_count; ++i) {
    check(malisdk_model_input(state->model.get(), i, &raw));
    state->inputs.push_back(spec_of(Side::input, i, raw));
  }
  for (uint32_t i = 0; i < counts.output_count; ++i) {
    check(malisdk_model_output(state->model.get(), i, &raw));
    state->outputs.push_back(spec_of(Side::output, i, raw));
  }
  state_ = std::move(state);
}

std::shared_ptr<State> Model::open() const {
  if (!state_) throw StatusError(MALISDK_INVALID_ARGUMENT, "model: used after close()");
  return state_;
}

py::list Model::specs(Side side) const {
  const auto state = open();
  py::list all;
  for (const Spec& spec : side == Side::input ? state->inputs : state->outputs) {
    all.append(py::make_tuple(text_of(spec.name), py::tuple(py::cast(spec.shape)), numpy_dtype(spec.dtype)));
  }
  return all;
}

py::dict Model::info() const {
  const auto state = open();
  malisdk_model_info raw{};
  raw.struct_size = sizeof raw;
  check(malisdk_model_info_get(state->model.get(), &raw));
  using py::literals::operator""_a;
  return py::dict("name"_a = text_of(raw.name), "target"_a = text_of(raw.target), "device"_a = text_of(raw.device),
                  "platform"_a = text_of(raw.platform), "dtype"_a = numpy_dtype(raw.dtype),
                  "kernel_count"_a = raw.kernel_count, "launch_count"_a = raw.launch_count,
                  "weights_bytes"_a = raw.weights_bytes, "arena_bytes"_a = raw.arena_bytes,
                  "kernels_from_cache"_a = raw.kernels_from_cache);
}

void Model::run(const py::dict& inputs, const py::dict& outputs) const {
  const auto state = open();
  const Tensors in(state->inputs, Side::input, inputs);
  Tensors out(state->outputs, Side::output, outputs);
  call_without_gil([&] {
    return malisdk_session_run(state->session.get(), in.raw.data(), in.count(), out.raw.data(), out.count());
  });
}

Mapping Model::map(Side side, py::handle which) const {
  const auto state = open();
  return Mapping(state, find_spec(side == Side::input ? state->inputs : state->outputs, side, which));
}

py::tuple Model::profile(const py::dict& inputs) const {
  const auto state = open();
  const Tensors in(state->inputs, Side::input, inputs);
  if (!state->profiling && in.count() != state->inputs.size()) {
    throw StatusError(MALISDK_INVALID_ARGUMENT, "profile: needs every input of a model that was loaded without profile, got " +
                                                    std::to_string(in.count()) + "; expected " +
                                                    std::to_string(state->inputs.size()) +
                                                    "\nhint: profile(x), or malisdk.load(path, profile=True)");
  }
  std::vector<KernelRow> rows;
  uint64_t total_ns = 0;
  SessionHandle own;  // outlives the call: destroying it would take the text of a failure with it
  call_without_gil([&] {
    malisdk_session* session = state->session.get();
    if (!state->profiling) {
      malisdk_session_options options{};
      options.struct_size = sizeof options;
      options.profile = 1;
      if (const auto status = malisdk_session_create(state->model.get(), &options, &session)) return status;
      own.reset(session);
    }
    const std::lock_guard<std::mutex> lock(state->profile_rows);
    if (in.count() != 0) {
      if (const auto status = malisdk_session_run(session, in.raw.data(), in.count(), nullptr, 0)) return status;
    }
    const malisdk_launch_profile* launches = nullptr;
    uint32_t count = 0;
    if (const auto status = malisdk_session_profile(session, &launches, &count, &total_ns)) return status;
    for (uint32_t i = 0; i < count; ++i) {
      const malisdk_launch_profile& row = launches[i];
      rows.push_back({row.kernel, row.layer, row.rule, row.device_ns, row.flops, row.bytes});
    }
    return malisdk_status{MALISDK_OK};
  });
  py::list launches;
  for (const KernelRow& row : rows) {
    launches.append(py::make_tuple(text_of(row.kernel), text_of(row.layer), text_of(row.rule), row.device_ns, row.flops,
                                   row.bytes));
  }
  return py::make_tuple(launches, total_ns);
}

void Model::close() {
  std::shared_ptr<State> last = std::move(state_);
  const py::gil_scoped_release release;
  last.reset();
}

}  // namespace malisdk_py
