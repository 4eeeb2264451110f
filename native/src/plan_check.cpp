#include "plan_check.h"

#include <algorithm>
#include <cinttypes>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "error.h"
#include "tensor.h"

namespace malisdk {
namespace {

using flatbuffers::Offset;
using flatbuffers::String;
using flatbuffers::Vector;

constexpr uint32_t kMaxEntries = 1u << 20;  // of any list
constexpr uint32_t kMaxArguments = 128;     // of a kernel; OpenCL's own least limit is 1024 bytes of them
constexpr uint32_t kMaxNameBytes = 1024;
constexpr uint32_t kMaxLabelBytes = 1u << 16;  // layer and rule may list many fused operators
constexpr uint32_t kMaxWorkGroup = 1u << 16;
constexpr uint64_t kMaxWorkItems = 1ull << 40;
constexpr uint64_t kMaxBytes = 1ull << 48;  // of anything; keeps sums far from overflow

// One check of one entry: says which file, which list and which position when it fails.
class Checker {
 public:
  Checker(const plan::Plan& plan, const char* file) : plan_(plan), file_(file) {}

  void run() {
    begin("plan", 0);
    text(plan_.model_name(), kMaxNameBytes, "model name");
    text(plan_.target(), kMaxNameBytes, "target");
    require(plan_.dtype() <= plan::DType_MAX, "dtype", plan_.dtype());
    count(plan_.inputs()->size(), 0, "inputs");
    count(plan_.outputs()->size(), 1, "outputs");
    count(plan_.buffers()->size(), 1, "buffers");
    count(plan_.kernels()->size(), 0, "kernels");
    count(plan_.launches()->size(), 0, "launches");
    const uint64_t alignment = plan_.arena_alignment();
    require(alignment != 0 && (alignment & (alignment - 1)) == 0, "arena alignment", alignment);
    require(plan_.arena_bytes() <= kMaxBytes, "arena bytes", plan_.arena_bytes());
    require(plan_.sources() != nullptr, "sources segment", 0);
    buffers();
    tensors(*plan_.inputs(), plan::Place_input, "input");
    tensors(*plan_.outputs(), plan::Place_output, "output");
    kernels();
    launches();
  }

 private:
  void begin(const char* list, uint32_t index) {
    list_ = list;
    index_ = index;
  }

  void require(bool holds, const char* what, uint64_t got) const {
    if (!holds) {
      fail(MALISDK_DAMAGED_FILE, "%s: damaged, %s %u has an impossible %s, got %" PRIu64, file_, list_, index_, what,
           got);
    }
  }

  void count(uint32_t got, uint32_t least, const char* what) const {
    require(got >= least && got <= kMaxEntries, what, got);
  }

  void text(const String* value, uint32_t longest, const char* what) const {
    if (value == nullptr) return;
    require(value->size() <= longest, what, value->size());
    for (const char c : *value) require(static_cast<unsigned char>(c) >= 0x20, what, static_cast<unsigned char>(c));
  }

  void buffers() {
    const uint64_t weights_bytes = plan_.weights() != nullptr ? plan_.weights()->size_bytes() : 0;
    std::vector<std::tuple<uint64_t, uint64_t, uint32_t>> slices;
    std::map<uint64_t, std::pair<uint64_t, uint32_t>> slots;  // of the arena, by offset: largest user and its index
    for (uint32_t i = 0; i < plan_.buffers()->size(); ++i) {
      const plan::Buffer& buffer = *plan_.buffers()->Get(i);
      begin("buffer", i);
      require(buffer.size_bytes() > 0 && buffer.size_bytes() <= kMaxBytes, "size", buffer.size_bytes());
      switch (buffer.place()) {
        case plan::Place_arena:
          require(buffer.offset() % plan_.arena_alignment() == 0, "offset", buffer.offset());
          inside(buffer, plan_.arena_bytes());
          slots[buffer.offset()] = std::max(slots[buffer.offset()], {buffer.size_bytes(), i});
          break;
        case plan::Place_weight:
          inside(buffer, weights_bytes);
          slices.emplace_back(buffer.offset(), buffer.size_bytes(), i);
          break;
        case plan::Place_input:
          owner(buffer, *plan_.inputs(), i);
          break;
        case plan::Place_output:
          owner(buffer, *plan_.outputs(), i);
          break;
        default:
          require(false, "place", buffer.place());
      }
    }
    // Not every driver keeps overlapping sub-buffers consistent, so tensors share a whole slot or nothing.
    uint64_t last_end = 0;
    for (const auto& [offset, user] : slots) {
      begin("buffer", user.second);
      require(offset >= last_end, "arena slot (it overlaps another)", offset);
      last_end = offset + user.first;
    }
    // Slices are copied one by one, so overlapping ones could multiply a small file into a huge allocation.
    std::sort(slices.begin(), slices.end());
    for (size_t i = 1; i < slices.size(); ++i) {
      const auto& [last_offset, last_bytes, last_index] = slices[i - 1];
      const auto& [offset, size_bytes, index] = slices[i];
      begin("buffer", index);
      require((offset == last_offset && size_bytes == last_bytes) || offset >= last_offset + last_bytes,
              "weights slice (it overlaps another)", offset);
    }
  }

  void inside(const plan::Buffer& buffer, uint64_t limit) const {
    require(buffer.size_bytes() <= limit && buffer.offset() <= limit - buffer.size_bytes(), "end",
            buffer.offset() + buffer.size_bytes());
  }

  void owner(const plan::Buffer& buffer, const Vector<Offset<plan::TensorSpec>>& tensors, uint32_t index) const {
    require(buffer.offset() == 0, "offset", buffer.offset());
    require(buffer.index() < tensors.size() && tensors.Get(buffer.index())->buffer() == index, "tensor",
            buffer.index());
  }

  void tensors(const Vector<Offset<plan::TensorSpec>>& list, plan::Place place, const char* kind) {
    std::set<std::string> names;
    for (uint32_t i = 0; i < list.size(); ++i) {
      const plan::TensorSpec& tensor = *list.Get(i);
      begin(kind, i);
      require(tensor.name()->size() > 0, "name length", 0);
      text(tensor.name(), kMaxNameBytes, "name");
      require(names.insert(tensor.name()->str()).second, "name (it occurs twice)", i);
      require(tensor.dtype() <= plan::DType_MAX, "dtype", tensor.dtype());
      require(tensor.shape()->size() <= MALISDK_MAX_RANK, "rank", tensor.shape()->size());
      uint64_t size_bytes = dtype_bytes(static_cast<malisdk_dtype>(tensor.dtype()));
      for (const int64_t extent : *tensor.shape()) {
        require(extent >= 0 && static_cast<uint64_t>(extent) <= kMaxBytes / std::max<uint64_t>(size_bytes, 1), "extent",
                static_cast<uint64_t>(extent));
        size_bytes *= static_cast<uint64_t>(extent);
      }
      require(tensor.buffer() < plan_.buffers()->size(), "buffer", tensor.buffer());
      const plan::Buffer& buffer = *plan_.buffers()->Get(tensor.buffer());
      require(buffer.place() == place && buffer.index() == i, "buffer", tensor.buffer());
      require(buffer.size_bytes() >= size_bytes, "buffer size", buffer.size_bytes());
    }
  }

  void kernels() {
    const uint64_t sources_bytes = plan_.sources()->size_bytes();
    std::set<std::string> names;
    for (uint32_t i = 0; i < plan_.kernels()->size(); ++i) {
      const plan::Kernel& kernel = *plan_.kernels()->Get(i);
      begin("kernel", i);
      const String& name = *kernel.name();
      require(name.size() > 0 && name.size() <= kMaxNameBytes, "name length", name.size());
      for (const char c : name) {
        const bool is_word = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        require(is_word, "name", static_cast<unsigned char>(c));
      }
      require(names.insert(name.str()).second, "name (it occurs twice)", i);
      require(kernel.source_bytes() > 0 && kernel.source_bytes() <= sources_bytes &&
                  kernel.source_offset() <= sources_bytes - kernel.source_bytes(),
              "source", kernel.source_offset());
      require(kernel.local_size()->size() == 3, "local size rank", kernel.local_size()->size());
      uint64_t group = 1;
      for (const uint32_t extent : *kernel.local_size()) {
        require(extent >= 1 && extent <= kMaxWorkGroup, "local size", extent);
        group *= extent;
      }
      require(group <= kMaxWorkGroup, "work-group", group);
    }
  }

  // Networks of nothing but empty tensors have no launches; an output with elements needs one that can write it.
  void launches() {
    std::vector<bool> is_used(plan_.buffers()->size(), false);
    for (uint32_t i = 0; i < plan_.launches()->size(); ++i) {
      const plan::Launch& launch = *plan_.launches()->Get(i);
      begin("launch", i);
      require(launch.kernel() < plan_.kernels()->size(), "kernel", launch.kernel());
      const auto& local_size = *plan_.kernels()->Get(launch.kernel())->local_size();
      require(launch.global_size()->size() == 3, "global size rank", launch.global_size()->size());
      uint64_t items = 1;
      for (uint32_t axis = 0; axis < 3; ++axis) {
        const uint32_t extent = launch.global_size()->Get(axis);
        require(extent >= 1 && extent % local_size.Get(axis) == 0, "global size", extent);
        require(extent <= kMaxWorkItems / items, "number of work-items", extent);
        items *= extent;
      }
      require(launch.buffers()->size() >= 1 && launch.buffers()->size() <= kMaxArguments, "number of arguments",
              launch.buffers()->size());
      for (const uint32_t buffer : *launch.buffers()) {
        require(buffer < plan_.buffers()->size(), "argument", buffer);
        is_used[buffer] = true;
      }
      text(launch.layer(), kMaxLabelBytes, "layer");
      text(launch.rule(), kMaxLabelBytes, "rule");
    }
    for (uint32_t i = 0; i < plan_.outputs()->size(); ++i) {
      begin("output", i);
      const plan::TensorSpec& tensor = *plan_.outputs()->Get(i);
      require(is_used[tensor.buffer()] || make_spec(tensor).size_bytes == 0, "buffer (no launch writes it)",
              tensor.buffer());
    }
  }

  const plan::Plan& plan_;
  const char* file_;
  const char* list_ = "plan";
  uint32_t index_ = 0;
};

}  // namespace

void check_plan(const plan::Plan& plan, const char* file) { Checker(plan, file).run(); }

}  // namespace malisdk
