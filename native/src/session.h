// The memory and the queue to run a model in.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "model.h"

namespace malisdk {

class Session {
 public:
  enum class Side { input, output };

  Session(std::shared_ptr<const Model> model, bool profile);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Each of these throws BUSY when another thread is inside the session.
  void run(const malisdk_tensor* inputs, uint32_t input_count, malisdk_tensor* outputs, uint32_t output_count);
  void* map(Side side, uint32_t index);
  void unmap(Side side, uint32_t index);
  const std::vector<malisdk_launch_profile>& profile(uint64_t& total_ns);

  const Model& model() const noexcept { return *model_; }

 private:
  // An input or output with the memory behind it.
  struct Endpoint {
    const malisdk_tensor_spec* spec = nullptr;
    Buffer buffer;
    void* mapped = nullptr;
    bool has_data = false;
  };
  // A launch with everything set: enqueueing it needs no look into the plan.
  struct Step {
    Kernel kernel;
    size_t global_size[3];
    size_t local_size[3];
  };
  class Entry;

  cl_mem memory_of(uint32_t buffer_index) const;
  void make_queue(bool profile);
  void make_steps();
  Endpoint& endpoint(Side side, uint32_t index);
  void require_ready() const;
  // Enqueues all launches and waits once; one more try after a transient failure. `events` may be null.
  void execute(std::vector<Event>* events);
  void enqueue_and_wait(std::vector<Event>* events);
  uint64_t device_ns(const Event& event) const;

  std::shared_ptr<const Model> model_;
  const OpenCl& cl_;
  Queue queue_;
  bool wants_profile_ = false;
  bool queue_profiles_ = false;
  Arena arena_;
  std::vector<Endpoint> inputs_;
  std::vector<Endpoint> outputs_;
  std::vector<Step> steps_;
  std::vector<malisdk_launch_profile> profile_;
  std::atomic<bool> busy_{false};
};

}  // namespace malisdk
