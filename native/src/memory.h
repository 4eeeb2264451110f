// Device memory: allocations that the host can reach without a copy, and slices of them.
#pragma once

#include <map>
#include <vector>

#include "bytes.h"
#include "cl_check.h"
#include "container.h"
#include "device.h"

namespace malisdk {

// One allocation, reachable by map and unmap. Throws UNSUPPORTED when it is more than the device ever gives.
Buffer allocate(const OpenCl& cl, cl_context context, const Device& device, uint64_t size_bytes, const char* what);

// Host access to a buffer for as long as the object lives. Waits for what the queue does before.
class Mapping {
 public:
  Mapping(const OpenCl& cl, cl_command_queue queue, cl_mem buffer, cl_map_flags flags, uint64_t size_bytes);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  uint8_t* data() const noexcept { return static_cast<uint8_t*>(data_); }
  // Ends the access and reports what the destructor would have to swallow.
  void unmap();

 private:
  const OpenCl& cl_;
  cl_command_queue queue_;
  cl_mem buffer_;
  void* data_;
};

// The weights of a model on its device: few allocations, one slice per weight at the device's own alignment.
class Weights {
 public:
  Weights() = default;
  // Copies from the file piece by piece while hashing. Throws DAMAGED_FILE when the hash is wrong.
  Weights(const OpenCl& cl, cl_context context, const Device& device, const Container& container,
          const ByteSource& source);
  // `index` is of the plan's buffers and must name a weight.
  cl_mem at(uint32_t index) const { return slices_.at(slice_of_.at(index)).get(); }

 private:
  std::vector<Buffer> slabs_;
  std::vector<Buffer> slices_;
  std::map<uint32_t, size_t> slice_of_;
};

// The activations of one session.
class Arena {
 public:
  Arena() = default;
  Arena(const OpenCl& cl, cl_context context, const Device& device, const plan::Plan& plan);
  cl_mem at(uint32_t index) const { return slices_.at(slice_of_.at(index)).get(); }

 private:
  Buffer slab_;
  std::vector<Buffer> slices_;
  std::map<uint32_t, size_t> slice_of_;
};

}  // namespace malisdk
