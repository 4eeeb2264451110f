#include "memory.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <memory>

#include "hash.h"

namespace malisdk {
namespace {

constexpr size_t kChunkBytes = 256u << 10;  // stays in the L2 cache between hashing and copying
constexpr uint64_t kWeightAlignment = 128;  // Mali's and pocl's; at least this, whatever the device says

uint64_t align_up(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

Buffer slice_of_slab(const OpenCl& cl, cl_mem slab, uint64_t offset, uint64_t size_bytes) {
  const cl_buffer_region region = {static_cast<size_t>(offset), static_cast<size_t>(size_bytes)};
  cl_int code = CL_SUCCESS;
  Buffer slice(cl, cl.clCreateSubBuffer(slab, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &code));
  check_cl(code, "clCreateSubBuffer");
  return slice;
}

// A distinct range of the weights segment and where it goes.
struct Slice {
  uint64_t file_offset;  // within the segment
  uint64_t size_bytes;
  size_t slab;
  uint64_t slab_offset;
};

}  // namespace

Buffer allocate(const OpenCl& cl, cl_context context, const Device& device, uint64_t size_bytes, const char* what) {
  if (size_bytes > device.max_allocation_bytes || size_bytes > SIZE_MAX) {
    fail(MALISDK_UNSUPPORTED, "%s: too large for %s, got %" PRIu64 " bytes; expected at most %" PRIu64 " in one piece",
         what, device.name.c_str(), size_bytes, device.max_allocation_bytes);
  }
  cl_int code = CL_SUCCESS;
  // ALLOC_HOST_PTR is the one kind that Mali maps without copying.
  const cl_mem_flags flags = CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR;
  Buffer buffer(cl, cl.clCreateBuffer(context, flags, static_cast<size_t>(size_bytes), nullptr, &code));
  if (code != CL_SUCCESS) fail_cl(code, "clCreateBuffer", format("%s of %" PRIu64 " bytes", what, size_bytes));
  return buffer;
}

Mapping::Mapping(const OpenCl& cl, cl_command_queue queue, cl_mem buffer, cl_map_flags flags, uint64_t size_bytes)
    : cl_(cl), queue_(queue), buffer_(buffer) {
  cl_int code = CL_SUCCESS;
  data_ = cl.clEnqueueMapBuffer(queue, buffer, CL_TRUE, flags, 0, static_cast<size_t>(size_bytes), 0, nullptr, nullptr,
                                &code);
  check_cl(code, "clEnqueueMapBuffer");
  if (data_ == nullptr) fail_cl(CL_MAP_FAILURE, "clEnqueueMapBuffer");
}

Mapping::~Mapping() {
  if (data_ != nullptr) cl_.clEnqueueUnmapMemObject(queue_, buffer_, data_, 0, nullptr, nullptr);
}

void Mapping::unmap() {
  void* data = std::exchange(data_, nullptr);
  if (data != nullptr) {
    check_cl(cl_.clEnqueueUnmapMemObject(queue_, buffer_, data, 0, nullptr, nullptr), "clEnqueueUnmapMemObject");
  }
}

Weights::Weights(const OpenCl& cl, cl_context context, const Device& device, const Container& container,
                 const ByteSource& source) {
  const plan::Plan& plan = container.plan();
  const FileRange& segment = container.weights();

  std::map<std::pair<uint64_t, uint64_t>, std::vector<uint32_t>> users;  // in file order; check_plan saw them disjoint
  for (uint32_t i = 0; i < plan.buffers()->size(); ++i) {
    const plan::Buffer& buffer = *plan.buffers()->Get(i);
    if (buffer.place() == plan::Place_weight) users[{buffer.offset(), buffer.size_bytes()}].push_back(i);
  }
  const uint64_t alignment = std::max(device.base_alignment_bytes, kWeightAlignment);
  std::vector<Slice> slices;
  std::vector<uint64_t> slab_bytes;
  for (const auto& [range, indices] : users) {
    const auto& [file_offset, size_bytes] = range;
    uint64_t offset = slab_bytes.empty() ? 0 : align_up(slab_bytes.back(), alignment);
    if (slab_bytes.empty() || offset + size_bytes > device.max_allocation_bytes) {
      slab_bytes.push_back(0);
      offset = 0;
    }
    slab_bytes.back() = offset + size_bytes;
    for (const uint32_t index : indices) slice_of_[index] = slices.size();
    slices.push_back({file_offset, size_bytes, slab_bytes.size() - 1, offset});
  }

  cl_int code = CL_SUCCESS;
  const Queue queue(cl, cl.clCreateCommandQueue(context, device.id, 0, &code));
  check_cl(code, "clCreateCommandQueue");
  std::vector<std::unique_ptr<Mapping>> mappings;
  for (const uint64_t size_bytes : slab_bytes) {
    slabs_.push_back(allocate(cl, context, device, size_bytes, "weights"));
    mappings.push_back(
        std::make_unique<Mapping>(cl, queue.get(), slabs_.back().get(), CL_MAP_WRITE_INVALIDATE_REGION, size_bytes));
  }

  StreamHash hash;
  std::vector<uint8_t> scratch;
  size_t next = 0;  // the first slice that is not complete
  for (uint64_t done = 0; done < segment.size_bytes;) {
    const auto chunk_bytes = static_cast<size_t>(std::min<uint64_t>(kChunkBytes, segment.size_bytes - done));
    const uint8_t* chunk = source.view(segment.offset + done, chunk_bytes, scratch);
    hash.update(chunk, chunk_bytes);
    const uint64_t chunk_end = done + chunk_bytes;
    while (next < slices.size() && slices[next].file_offset < chunk_end) {
      const Slice& slice = slices[next];
      const uint64_t begin = std::max(done, slice.file_offset);
      const uint64_t end = std::min(chunk_end, slice.file_offset + slice.size_bytes);
      std::memcpy(mappings[slice.slab]->data() + slice.slab_offset + (begin - slice.file_offset),
                  chunk + (begin - done), static_cast<size_t>(end - begin));
      if (end < slice.file_offset + slice.size_bytes) break;
      ++next;
    }
    done = chunk_end;
  }
  if (segment.size_bytes > 0 && hash.digest() != segment.hash) {
    fail(MALISDK_DAMAGED_FILE, "%s: damaged, the weights do not match their hash", source.name().c_str());
  }
  for (const auto& mapping : mappings) mapping->unmap();
  check_cl(cl.clFinish(queue.get()), "clFinish");
  slices_.reserve(slices.size());
  for (const Slice& slice : slices) {
    slices_.push_back(slice_of_slab(cl, slabs_[slice.slab].get(), slice.slab_offset, slice.size_bytes));
  }
}

Arena::Arena(const OpenCl& cl, cl_context context, const Device& device, const plan::Plan& plan) {
  bool one_piece = plan.arena_bytes() <= device.max_allocation_bytes;
  std::map<uint64_t, std::pair<uint64_t, std::vector<uint32_t>>> places;  // by offset: longest user, all users
  for (uint32_t i = 0; i < plan.buffers()->size(); ++i) {
    const plan::Buffer& buffer = *plan.buffers()->Get(i);
    if (buffer.place() != plan::Place_arena) continue;
    one_piece = one_piece && buffer.offset() % device.base_alignment_bytes == 0;
    auto& [size_bytes, indices] = places[buffer.offset()];
    size_bytes = std::max(size_bytes, buffer.size_bytes());
    indices.push_back(i);
  }
  if (places.empty()) return;
  if (one_piece) slab_ = allocate(cl, context, device, plan.arena_bytes(), "arena");
  for (const auto& [offset, place] : places) {
    const auto& [size_bytes, indices] = place;
    for (const uint32_t index : indices) slice_of_[index] = slices_.size();
    // Without the one arena, buffers at the same offset still share memory: the plan says they may.
    slices_.push_back(one_piece ? slice_of_slab(cl, slab_.get(), offset, size_bytes)
                                : allocate(cl, context, device, size_bytes, "activation"));
  }
}

}  // namespace malisdk
