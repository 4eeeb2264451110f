// The C ABI: every entry point of malisdk.h, and nothing that decides anything.
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "error.h"
#include "model.h"
#include "session.h"
#include "tensor.h"

struct malisdk_model {
  std::shared_ptr<const malisdk::Model> model;
};

struct malisdk_session {
  explicit malisdk_session(std::shared_ptr<const malisdk::Model> model, bool profile)
      : session(std::move(model), profile) {}
  malisdk::Session session;
};

namespace {

using malisdk::fail;
using malisdk::guard;
using malisdk::Session;

template <class Pointer>
void require(Pointer pointer, const char* name) {
  if (pointer == nullptr) fail(MALISDK_INVALID_ARGUMENT, "%s: got NULL; expected a pointer", name);
}

// Out-parameters are NULL or 0 unless the call succeeds.
template <class Value>
Value& prepare(Value* out, const char* name) {
  require(out, name);
  *out = Value{};
  return *out;
}

void check_struct_size(uint32_t got, size_t expected, const char* name) {
  if (got < expected) {
    fail(MALISDK_INVALID_ARGUMENT, "%s.struct_size: got %u; expected sizeof(%s) = %zu", name, got, name, expected);
  }
}

// Options of a caller that may be newer than this library: what we do not know must be unset.
template <class Options>
Options read_options(const Options* given, const char* name) {
  Options options = {};
  if (given == nullptr) return options;
  check_struct_size(given->struct_size, sizeof options, name);
  std::memcpy(&options, given, sizeof options);
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  // No struct of ours will ever be a page long; a larger size is an uninitialised one.
  bool is_known = given->struct_size <= 4096;
  for (size_t i = sizeof options; is_known && i < given->struct_size; ++i) is_known = bytes[i] == 0;
  if (!is_known)
    fail(MALISDK_INVALID_ARGUMENT, "%s: sets an option that this version of the library does not know", name);
  return options;
}

void load(const malisdk::ByteSource& source, const malisdk_model_options* options, malisdk_model*& model) {
  const auto given = read_options(options, "malisdk_model_options");
  const malisdk::Model::Options wanted = {given.device, given.cache_dir, given.opencl_library};
  auto holder = std::make_unique<malisdk_model>();
  holder->model = std::make_shared<const malisdk::Model>(source, wanted);
  model = holder.release();
}

// Text that lives until the process ends, each distinct one once.
const char* keep(const std::string& text) {
  static std::mutex mutex;
  static auto& texts = *new std::set<std::string>();
  const std::lock_guard<std::mutex> lock(mutex);
  return texts.insert(text).first->c_str();
}

void get_spec(const std::vector<malisdk_tensor_spec>& specs, uint32_t index, malisdk_tensor_spec& spec,
              const char* kind) {
  if (index >= specs.size()) {
    fail(MALISDK_INVALID_ARGUMENT, "%s: no such index, got %u; expected less than %zu", kind, index, specs.size());
  }
  spec = specs[index];
}

malisdk_status map_tensor(malisdk_session* session, Session::Side side, uint32_t index, void** data) {
  return guard([&] {
    void*& result = prepare(data, "data");
    require(session, "session");
    result = session->session.map(side, index);
  });
}

malisdk_status unmap_tensor(malisdk_session* session, Session::Side side, uint32_t index) {
  return guard([&] {
    require(session, "session");
    session->session.unmap(side, index);
  });
}

}  // namespace

extern "C" {

uint32_t malisdk_version(void) { return MALISDK_VERSION; }

uint32_t malisdk_abi_version(void) { return MALISDK_ABI_VERSION; }

const char* malisdk_last_error(void) { return malisdk::last_error(); }

const char* malisdk_status_name(malisdk_status status) {
  static constexpr const char* kNames[] = {
      "MALISDK_OK",           "MALISDK_INVALID_ARGUMENT", "MALISDK_FILE_NOT_FOUND",
      "MALISDK_FOREIGN_FILE", "MALISDK_DAMAGED_FILE",     "MALISDK_VERSION_MISMATCH",
      "MALISDK_NO_OPENCL",    "MALISDK_NO_DEVICE",        "MALISDK_UNSUPPORTED",
      "MALISDK_BUILD_FAILED", "MALISDK_OUT_OF_RESOURCES", "MALISDK_OUT_OF_MEMORY",
      "MALISDK_DEVICE_ERROR", "MALISDK_WRONG_TENSOR",     "MALISDK_BUSY",
      "MALISDK_INTERNAL",
  };
  const auto index = static_cast<uint32_t>(status);
  return index < sizeof kNames / sizeof kNames[0] ? kNames[index] : "unknown status";
}

const char* malisdk_dtype_name(malisdk_dtype dtype) { return malisdk::dtype_name(dtype); }

uint64_t malisdk_dtype_bytes(malisdk_dtype dtype) { return malisdk::dtype_bytes(dtype); }

malisdk_status malisdk_device_count(const char* opencl_library, uint32_t* count) {
  return guard([&] {
    uint32_t& result = prepare(count, "count");
    result = static_cast<uint32_t>(malisdk::list_devices(malisdk::load_opencl(opencl_library)).size());
  });
}

malisdk_status malisdk_device_info_get(const char* opencl_library, uint32_t index, malisdk_device_info* info) {
  return guard([&] {
    malisdk_device_info& result = prepare(info, "info");
    const auto devices = malisdk::list_devices(malisdk::load_opencl(opencl_library));
    if (index >= devices.size()) {
      fail(MALISDK_INVALID_ARGUMENT, "device: no such index, got %u; expected less than %zu", index, devices.size());
    }
    const malisdk::Device& device = devices[index];
    result = {keep(device.platform_name), keep(device.name),          keep(device.version),
              keep(device.driver),        device.is_gpu ? 1u : 0u,    device.has_fp16 ? 1u : 0u,
              device.compute_units,       device.global_memory_bytes, device.max_work_group};
  });
}

malisdk_status malisdk_model_load(const char* path, const malisdk_model_options* options, malisdk_model** model) {
  return guard([&] {
    malisdk_model*& result = prepare(model, "model");
    require(path, "path");
    load(malisdk::FileSource(path), options, result);
  });
}

malisdk_status malisdk_model_load_memory(const void* data, uint64_t size_bytes, const malisdk_model_options* options,
                                         malisdk_model** model) {
  return guard([&] {
    malisdk_model*& result = prepare(model, "model");
    require(data, "data");
    load(malisdk::MemorySource(data, size_bytes), options, result);
  });
}

void malisdk_model_destroy(malisdk_model* model) {
  if (model == nullptr) return;
  // In a forked child the driver's objects are the parent's: releasing them here could hang.
  if (!model->model->is_of_this_process()) return;
  delete model;
}

malisdk_status malisdk_model_info_get(const malisdk_model* model, malisdk_model_info* info) {
  return guard([&] {
    require(model, "model");
    require(info, "info");
    check_struct_size(info->struct_size, sizeof *info, "malisdk_model_info");
    const malisdk::Model& source = *model->model;
    const malisdk::plan::Plan& plan = source.plan();
    info->name = plan.model_name()->c_str();
    info->target = plan.target()->c_str();
    info->device = source.device().name.c_str();
    info->platform = source.platform_text().c_str();
    info->dtype = static_cast<malisdk_dtype>(plan.dtype());
    info->input_count = static_cast<uint32_t>(source.inputs().size());
    info->output_count = static_cast<uint32_t>(source.outputs().size());
    info->kernel_count = plan.kernels()->size();
    info->launch_count = plan.launches()->size();
    info->weights_bytes = source.weights_bytes();
    info->arena_bytes = plan.arena_bytes();
    info->kernels_from_cache = source.kernels_from_cache();
  });
}

malisdk_status malisdk_model_input(const malisdk_model* model, uint32_t index, malisdk_tensor_spec* spec) {
  return guard([&] {
    malisdk_tensor_spec& result = prepare(spec, "spec");
    require(model, "model");
    get_spec(model->model->inputs(), index, result, "input");
  });
}

malisdk_status malisdk_model_output(const malisdk_model* model, uint32_t index, malisdk_tensor_spec* spec) {
  return guard([&] {
    malisdk_tensor_spec& result = prepare(spec, "spec");
    require(model, "model");
    get_spec(model->model->outputs(), index, result, "output");
  });
}

malisdk_status malisdk_session_create(const malisdk_model* model, const malisdk_session_options* options,
                                      malisdk_session** session) {
  return guard([&] {
    malisdk_session*& result = prepare(session, "session");
    require(model, "model");
    const auto given = read_options(options, "malisdk_session_options");
    if (given.profile > 1) {
      fail(MALISDK_INVALID_ARGUMENT, "malisdk_session_options.profile: got %u; expected 0 or 1", given.profile);
    }
    result = new malisdk_session(model->model, given.profile == 1);
  });
}

void malisdk_session_destroy(malisdk_session* session) {
  if (session == nullptr || !session->session.model().is_of_this_process()) return;
  delete session;
}

malisdk_status malisdk_session_run(malisdk_session* session, const malisdk_tensor* inputs, uint32_t input_count,
                                   malisdk_tensor* outputs, uint32_t output_count) {
  return guard([&] {
    require(session, "session");
    if (input_count > 0) require(inputs, "inputs");
    if (output_count > 0) require(outputs, "outputs");
    session->session.run(inputs, input_count, outputs, output_count);
  });
}

malisdk_status malisdk_session_map_input(malisdk_session* session, uint32_t index, void** data) {
  return map_tensor(session, Session::Side::input, index, data);
}

malisdk_status malisdk_session_unmap_input(malisdk_session* session, uint32_t index) {
  return unmap_tensor(session, Session::Side::input, index);
}

malisdk_status malisdk_session_map_output(malisdk_session* session, uint32_t index, void** data) {
  return map_tensor(session, Session::Side::output, index, data);
}

malisdk_status malisdk_session_unmap_output(malisdk_session* session, uint32_t index) {
  return unmap_tensor(session, Session::Side::output, index);
}

malisdk_status malisdk_session_profile(malisdk_session* session, const malisdk_launch_profile** launches,
                                       uint32_t* launch_count, uint64_t* total_ns) {
  return guard([&] {
    const malisdk_launch_profile*& result = prepare(launches, "launches");
    uint32_t& count = prepare(launch_count, "launch_count");
    uint64_t& total = prepare(total_ns, "total_ns");
    require(session, "session");
    uint64_t elapsed_ns = 0;
    const auto& profile = session->session.profile(elapsed_ns);
    result = profile.data();
    count = static_cast<uint32_t>(profile.size());
    total = elapsed_ns;
  });
}

}  // extern "C"
