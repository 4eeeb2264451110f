// The outer shell of a .mali file (layout: schema/plan.fbs): header, plan, data area.
#pragma once

#include <memory>
#include <string>

#include "bytes.h"
#include "schema/plan_generated.h"

namespace malisdk {

// A part of the data area; `offset` counts from the start of the file.
struct FileRange {
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  uint64_t hash = 0;
};

// The verified plan of one file. Holds the plan's bytes and nothing else of the file.
class Container {
 public:
  // Checks the header, the plan's hash and structure, and every number in it (check_plan).
  // Throws FOREIGN_FILE, DAMAGED_FILE, VERSION_MISMATCH or FILE_NOT_FOUND.
  explicit Container(const ByteSource& source);

  const plan::Plan& plan() const noexcept { return *plan_; }
  const FileRange& weights() const noexcept { return weights_; }
  // All kernel sources, hash checked. Throws DAMAGED_FILE.
  std::string read_sources(const ByteSource& source) const;

 private:
  FileRange locate(const ByteSource& source, const plan::Segment* segment, const char* name) const;

  std::unique_ptr<uint64_t[]> bytes_;  // FlatBuffers wants its 8-byte fields aligned
  uint64_t data_offset_ = 0;
  const plan::Plan* plan_ = nullptr;
  FileRange weights_;
  FileRange sources_;
};

}  // namespace malisdk
