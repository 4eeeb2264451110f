#include "session.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "tensor.h"

namespace malisdk {
namespace {

const char* name_of(Session::Side side) { return side == Session::Side::input ? "input" : "output"; }

const char* text_or_empty(const flatbuffers::String* text) { return text != nullptr ? text->c_str() : ""; }

}  // namespace

// Marks the session as in use for as long as it lives.
class Session::Entry {
 public:
  explicit Entry(Session& session) : session_(session) {
    session.model_->require_this_process();
    if (session.busy_.exchange(true, std::memory_order_acquire)) {
      fail(MALISDK_BUSY,
           "session of '%s': in use by another thread; expected one thread at a time\nhint: give every thread a "
           "session of its own",
           session.model_->plan().model_name()->c_str());
    }
  }
  ~Entry() { session_.busy_.store(false, std::memory_order_release); }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;

 private:
  Session& session_;
};

Session::Session(std::shared_ptr<const Model> model, bool profile) : model_(std::move(model)), cl_(model_->cl()) {
  model_->require_this_process();
  make_queue(profile);
  arena_ = Arena(cl_, model_->context(), model_->device(), model_->plan());
  const auto make_endpoints = [&](const auto& tensors, const std::vector<malisdk_tensor_spec>& specs,
                                  const char* kind) {
    std::vector<Endpoint> endpoints(specs.size());
    for (uint32_t i = 0; i < specs.size(); ++i) {
      const uint64_t size_bytes = model_->plan().buffers()->Get(tensors.Get(i)->buffer())->size_bytes();
      endpoints[i].spec = &specs[i];
      endpoints[i].buffer = allocate(cl_, model_->context(), model_->device(), size_bytes, kind);
    }
    return endpoints;
  };
  inputs_ = make_endpoints(*model_->plan().inputs(), model_->inputs(), "input");
  outputs_ = make_endpoints(*model_->plan().outputs(), model_->outputs(), "output");
  make_steps();
}

Session::~Session() {
  for (auto* endpoints : {&inputs_, &outputs_}) {
    for (Endpoint& endpoint : *endpoints) {
      if (endpoint.mapped != nullptr) {
        cl_.clEnqueueUnmapMemObject(queue_.get(), endpoint.buffer.get(), endpoint.mapped, 0, nullptr, nullptr);
      }
    }
  }
  if (queue_) cl_.clFinish(queue_.get());
}

void Session::make_queue(bool profile) {
  const cl_device_id device = model_->device().id;
  cl_int code = CL_SUCCESS;
  wants_profile_ = profile;
  if (profile) {
    queue_ = Queue(cl_, cl_.clCreateCommandQueue(model_->context(), device, CL_QUEUE_PROFILING_ENABLE, &code));
    queue_profiles_ = code == CL_SUCCESS && queue_;
    if (queue_profiles_) return;
    // Mesa's Panfrost driver has no profiling queue; that costs the figures, not the run.
    if (code != CL_INVALID_QUEUE_PROPERTIES && code != CL_INVALID_VALUE) fail_cl(code, "clCreateCommandQueue");
  }
  queue_ = Queue(cl_, cl_.clCreateCommandQueue(model_->context(), device, 0, &code));
  check_cl(code, "clCreateCommandQueue");
}

cl_mem Session::memory_of(uint32_t buffer_index) const {
  const plan::Buffer& buffer = *model_->plan().buffers()->Get(buffer_index);
  switch (buffer.place()) {
    case plan::Place_weight:
      return model_->weights().at(buffer_index);
    case plan::Place_input:
      return inputs_[buffer.index()].buffer.get();
    case plan::Place_output:
      return outputs_[buffer.index()].buffer.get();
    default:
      return arena_.at(buffer_index);
  }
}

void Session::make_steps() {
  const plan::Plan& plan = model_->plan();
  steps_.reserve(plan.launches()->size());
  for (const plan::Launch* launch : *plan.launches()) {
    const plan::Kernel& kernel = *plan.kernels()->Get(launch->kernel());
    const char* name = kernel.name()->c_str();
    cl_int code = CL_SUCCESS;
    Step step = {};
    // A kernel object of its own, so that its arguments are set once and for all.
    step.kernel = Kernel(cl_, cl_.clCreateKernel(model_->program_of(launch->kernel()), name, &code));
    if (code != CL_SUCCESS) fail_cl(code, "clCreateKernel", format("kernel '%s'", name));
    for (uint32_t i = 0; i < launch->buffers()->size(); ++i) {
      const cl_mem memory = memory_of(launch->buffers()->Get(i));
      code = cl_.clSetKernelArg(step.kernel.get(), i, sizeof memory, &memory);
      if (code != CL_SUCCESS) fail_cl(code, "clSetKernelArg", format("kernel '%s', argument %u", name, i));
    }
    for (uint32_t axis = 0; axis < 3; ++axis) {
      step.global_size[axis] = launch->global_size()->Get(axis);
      step.local_size[axis] = kernel.local_size()->Get(axis);
    }
    steps_.push_back(std::move(step));
  }
}

void Session::run(const malisdk_tensor* inputs, uint32_t input_count, malisdk_tensor* outputs, uint32_t output_count) {
  const Entry entry(*this);
  // Everything is checked before anything is changed.
  const auto match_all = [](const auto& specs, const malisdk_tensor* tensors, uint32_t count, const char* kind) {
    std::vector<const malisdk_tensor*> given(specs.size(), nullptr);
    for (uint32_t i = 0; i < count; ++i) {
      const malisdk_tensor*& place = given[match_tensor(specs, tensors[i], kind)];
      if (place != nullptr)
        fail(MALISDK_INVALID_ARGUMENT, "%s '%s': given twice; expected once", kind, tensors[i].name);
      place = &tensors[i];
    }
    return given;
  };
  const auto given_inputs = match_all(model_->inputs(), inputs, input_count, "input");
  const auto given_outputs = match_all(model_->outputs(), outputs, output_count, "output");
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (given_inputs[i] == nullptr && !inputs_[i].has_data) {
      fail(MALISDK_INVALID_ARGUMENT, "input '%s': missing, got %u inputs; expected %s", inputs_[i].spec->name,
           input_count, describe(inputs_[i].spec->dtype, inputs_[i].spec->rank, inputs_[i].spec->shape).c_str());
    }
  }
  require_ready();

  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (given_inputs[i] == nullptr) continue;
    inputs_[i].has_data = true;
    const uint64_t size_bytes = inputs_[i].spec->size_bytes;
    if (size_bytes == 0) continue;
    Mapping mapping(cl_, queue_.get(), inputs_[i].buffer.get(), CL_MAP_WRITE_INVALIDATE_REGION, size_bytes);
    std::memcpy(mapping.data(), given_inputs[i]->data, static_cast<size_t>(size_bytes));
    mapping.unmap();
  }
  execute(nullptr);
  for (size_t i = 0; i < outputs_.size(); ++i) {
    const uint64_t size_bytes = outputs_[i].spec->size_bytes;
    if (given_outputs[i] == nullptr || size_bytes == 0) continue;
    Mapping mapping(cl_, queue_.get(), outputs_[i].buffer.get(), CL_MAP_READ, size_bytes);
    std::memcpy(given_outputs[i]->data, mapping.data(), static_cast<size_t>(size_bytes));
    mapping.unmap();
  }
}

void Session::require_ready() const {
  for (const auto* endpoints : {&inputs_, &outputs_}) {
    for (const Endpoint& endpoint : *endpoints) {
      if (endpoint.mapped != nullptr) {
        fail(MALISDK_BUSY, "%s '%s': still mapped; expected every tensor unmapped before a run",
             endpoints == &inputs_ ? "input" : "output", endpoint.spec->name);
      }
    }
  }
}

void Session::execute(std::vector<Event>* events) {
  for (Endpoint& output : outputs_) output.has_data = false;
  try {
    enqueue_and_wait(events);
  } catch (const ClError& error) {
    cl_.clFinish(queue_.get());
    if (!error.is_transient()) throw;
    // All launches only depend on the inputs, so the whole run may simply be done again.
    enqueue_and_wait(events);
  }
  for (Endpoint& output : outputs_) output.has_data = true;
}

void Session::enqueue_and_wait(std::vector<Event>* events) {
  if (events != nullptr) events->clear();
  Event last;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    const bool wants_event = events != nullptr || i + 1 == steps_.size();
    cl_event event = nullptr;
    const cl_int code = cl_.clEnqueueNDRangeKernel(queue_.get(), step.kernel.get(), 3, nullptr, step.global_size,
                                                   step.local_size, 0, nullptr, wants_event ? &event : nullptr);
    if (code != CL_SUCCESS) {
      const plan::Launch& launch = *model_->plan().launches()->Get(static_cast<uint32_t>(i));
      fail_cl(code, "clEnqueueNDRangeKernel",
              format("launch %zu, kernel '%s'", i, model_->plan().kernels()->Get(launch.kernel())->name()->c_str()));
    }
    if (events != nullptr && i + 1 < steps_.size()) {
      events->emplace_back(cl_, event);
    } else if (wants_event) {
      last = Event(cl_, event);
    }
  }
  check_cl(cl_.clFinish(queue_.get()), "clFinish");
  if (steps_.empty()) return;
  // clFinish may succeed although a command failed on the device; in an in-order queue the last one knows.
  cl_int status = CL_COMPLETE;
  check_cl(cl_.clGetEventInfo(last.get(), CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr),
           "clGetEventInfo");
  if (status < 0) fail_cl(status, "execution", "the launches");
  if (events != nullptr) events->push_back(std::move(last));
}

Session::Endpoint& Session::endpoint(Side side, uint32_t index) {
  std::vector<Endpoint>& endpoints = side == Side::input ? inputs_ : outputs_;
  if (index >= endpoints.size()) {
    fail(MALISDK_INVALID_ARGUMENT, "%s: no such index, got %u; expected less than %zu", name_of(side), index,
         endpoints.size());
  }
  return endpoints[index];
}

void* Session::map(Side side, uint32_t index) {
  const Entry entry(*this);
  Endpoint& tensor = endpoint(side, index);
  if (tensor.mapped != nullptr) {
    fail(MALISDK_BUSY, "%s '%s': already mapped; expected it unmapped", name_of(side), tensor.spec->name);
  }
  if (side == Side::output && !tensor.has_data) {
    fail(MALISDK_INVALID_ARGUMENT, "output '%s': holds nothing yet; expected a successful run before",
         tensor.spec->name);
  }
  const cl_map_flags flags = side == Side::input ? CL_MAP_READ | CL_MAP_WRITE : CL_MAP_READ;
  cl_int code = CL_SUCCESS;
  void* data = cl_.clEnqueueMapBuffer(queue_.get(), tensor.buffer.get(), CL_TRUE, flags, 0,
                                      static_cast<size_t>(std::max<uint64_t>(tensor.spec->size_bytes, 1)), 0, nullptr,
                                      nullptr, &code);
  check_cl(code, "clEnqueueMapBuffer");
  if (data == nullptr) fail_cl(CL_MAP_FAILURE, "clEnqueueMapBuffer");
  if (side == Side::input && !tensor.has_data) std::memset(data, 0, static_cast<size_t>(tensor.spec->size_bytes));
  tensor.mapped = data;
  return data;
}

void Session::unmap(Side side, uint32_t index) {
  const Entry entry(*this);
  Endpoint& tensor = endpoint(side, index);
  if (tensor.mapped == nullptr) {
    fail(MALISDK_INVALID_ARGUMENT, "%s '%s': not mapped; expected it mapped before", name_of(side), tensor.spec->name);
  }
  void* data = std::exchange(tensor.mapped, nullptr);
  check_cl(cl_.clEnqueueUnmapMemObject(queue_.get(), tensor.buffer.get(), data, 0, nullptr, nullptr),
           "clEnqueueUnmapMemObject");
  if (side == Side::input) tensor.has_data = true;
}

uint64_t Session::device_ns(const Event& event) const {
  cl_ulong begin = 0;
  cl_ulong end = 0;
  const auto read = [&](cl_profiling_info what, cl_ulong& value) {
    return cl_.clGetEventProfilingInfo(event.get(), what, sizeof value, &value, nullptr) == CL_SUCCESS;
  };
  const bool known = read(CL_PROFILING_COMMAND_START, begin) && read(CL_PROFILING_COMMAND_END, end);
  return known && end > begin ? end - begin : 0;
}

const std::vector<malisdk_launch_profile>& Session::profile(uint64_t& total_ns) {
  const Entry entry(*this);
  if (!wants_profile_) {
    fail(MALISDK_INVALID_ARGUMENT,
         "session of '%s': cannot be profiled; expected malisdk_session_options.profile = 1 when it "
         "was created",
         model_->plan().model_name()->c_str());
  }
  for (const Endpoint& input : inputs_) {
    if (!input.has_data) fail(MALISDK_INVALID_ARGUMENT, "input '%s': missing; expected a run before", input.spec->name);
  }
  require_ready();
  std::vector<Event> events;
  events.reserve(steps_.size());
  const auto begin = std::chrono::steady_clock::now();
  execute(&events);
  const auto end = std::chrono::steady_clock::now();
  profile_.clear();
  for (uint32_t i = 0; i < steps_.size(); ++i) {
    const plan::Launch& launch = *model_->plan().launches()->Get(i);
    profile_.push_back({model_->plan().kernels()->Get(launch.kernel())->name()->c_str(), text_or_empty(launch.layer()),
                        text_or_empty(launch.rule()), queue_profiles_ ? device_ns(events[i]) : 0, launch.flops(),
                        launch.bytes()});
  }
  total_ns = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(end - begin).count());
  return profile_;
}

}  // namespace malisdk
