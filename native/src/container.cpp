#include "container.h"

#include <cinttypes>
#include <cstring>

#include "error.h"
#include "hash.h"
#include "plan_check.h"

namespace malisdk {
namespace {

static_assert(FLATBUFFERS_LITTLEENDIAN, "the container is read as it lies in memory");

constexpr uint8_t kMagic[8] = {0x89, 'M', 'A', 'L', 'I', 0x0D, 0x0A, 0x1A};
constexpr uint32_t kContainerVersion = 1;
constexpr uint32_t kSchemaVersion = 1;
constexpr uint64_t kAlignment = 64;
// Far above any real plan (100 launches take 30 KB); bounds what a lying header can make us allocate.
constexpr uint64_t kMaxPlanBytes = 64u << 20;
constexpr uint64_t kMaxSourcesBytes = 256u << 20;

struct Header {
  uint8_t magic[8];
  uint32_t container_version;
  uint32_t header_bytes;
  uint64_t file_bytes;
  uint64_t plan_offset;
  uint64_t plan_bytes;
  uint64_t plan_hash;
  uint64_t header_hash;
  uint64_t reserved;
};
static_assert(sizeof(Header) == 64, "the header's layout is part of the format");

[[noreturn]] void fail_version(const ByteSource& source, const char* what, uint32_t got, uint32_t expected) {
  fail(MALISDK_VERSION_MISMATCH,
       "%s: made for another version, got %s %u; expected %u\nhint: compile the model again, or install the runtime "
       "that "
       "belongs to the compiler",
       source.name().c_str(), what, got, expected);
}

Header read_header(const ByteSource& source) {
  const char* name = source.name().c_str();
  Header header = {};
  std::vector<uint8_t> scratch;
  const uint64_t have = source.size_bytes() < sizeof header ? source.size_bytes() : sizeof header;
  if (have > 0) std::memcpy(&header, source.view(0, static_cast<size_t>(have), scratch), static_cast<size_t>(have));
  if (have < sizeof kMagic || std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) {
    fail(MALISDK_FOREIGN_FILE,
         "%s: not a .mali file, got %" PRIu64 " bytes of something else; expected a compiled model", name,
         source.size_bytes());
  }
  if (have < sizeof header) {
    fail(MALISDK_DAMAGED_FILE, "%s: damaged, got %" PRIu64 " bytes; expected at least 64", name, source.size_bytes());
  }
  if (header.container_version != kContainerVersion) {
    fail_version(source, "container version", header.container_version, kContainerVersion);
  }
  if (hash64(&header, offsetof(Header, header_hash)) != header.header_hash || header.reserved != 0 ||
      header.header_bytes != sizeof header) {
    fail(MALISDK_DAMAGED_FILE, "%s: damaged, the header does not match its hash", name);
  }
  if (header.file_bytes != source.size_bytes()) {
    fail(MALISDK_DAMAGED_FILE, "%s: damaged, got %" PRIu64 " bytes; expected %" PRIu64, name, source.size_bytes(),
         header.file_bytes);
  }
  const bool plan_fits = header.plan_offset == sizeof header && header.plan_bytes >= 8 &&
                         header.plan_bytes <= kMaxPlanBytes && header.plan_bytes <= header.file_bytes - sizeof header;
  if (!plan_fits) {
    fail(MALISDK_DAMAGED_FILE,
         "%s: damaged, got a plan of %" PRIu64 " bytes at %" PRIu64 "; expected it at 64, inside the file", name,
         header.plan_bytes, header.plan_offset);
  }
  return header;
}

}  // namespace

Container::Container(const ByteSource& source) {
  const char* name = source.name().c_str();
  const Header header = read_header(source);
  const auto plan_bytes = static_cast<size_t>(header.plan_bytes);
  bytes_.reset(new uint64_t[plan_bytes / sizeof(uint64_t) + 1]);
  std::vector<uint8_t> scratch;
  std::memcpy(bytes_.get(), source.view(header.plan_offset, plan_bytes, scratch), plan_bytes);
  const auto* bytes = reinterpret_cast<const uint8_t*>(bytes_.get());
  if (hash64(bytes, plan_bytes) != header.plan_hash) {
    fail(MALISDK_DAMAGED_FILE, "%s: damaged, the plan does not match its hash", name);
  }
  flatbuffers::Verifier verifier(bytes, plan_bytes);
  if (!plan::VerifyPlanBuffer(verifier)) {
    fail(MALISDK_DAMAGED_FILE, "%s: damaged, the plan is no sound FlatBuffer", name);
  }
  plan_ = plan::GetPlan(bytes);
  if (plan_->schema_version() != kSchemaVersion) {
    fail_version(source, "plan schema", plan_->schema_version(), kSchemaVersion);
  }
  data_offset_ = (header.plan_offset + header.plan_bytes + kAlignment - 1) / kAlignment * kAlignment;
  weights_ = locate(source, plan_->weights(), "weights");
  sources_ = locate(source, plan_->sources(), "sources");
  const bool apart = weights_.size_bytes == 0 || sources_.size_bytes == 0 ||
                     weights_.offset + weights_.size_bytes <= sources_.offset ||
                     sources_.offset + sources_.size_bytes <= weights_.offset;
  if (!apart) fail(MALISDK_DAMAGED_FILE, "%s: damaged, weights and sources overlap", name);
  check_plan(*plan_, name);
}

FileRange Container::locate(const ByteSource& source, const plan::Segment* segment, const char* name) const {
  if (segment == nullptr) return {};
  const uint64_t file_bytes = source.size_bytes();
  const uint64_t room = data_offset_ < file_bytes ? file_bytes - data_offset_ : 0;
  const uint64_t offset = segment->offset();
  const uint64_t size_bytes = segment->size_bytes();
  if (offset % kAlignment != 0 || offset > room || size_bytes > room - offset) {
    fail(MALISDK_DAMAGED_FILE,
         "%s: damaged, got %s of %" PRIu64 " bytes at %" PRIu64 "; expected a multiple of 64 inside the %" PRIu64
         " bytes of data",
         source.name().c_str(), name, size_bytes, offset, room);
  }
  return {data_offset_ + offset, size_bytes, segment->hash()};
}

std::string Container::read_sources(const ByteSource& source) const {
  if (sources_.size_bytes > kMaxSourcesBytes) {
    fail(MALISDK_DAMAGED_FILE, "%s: damaged, got %" PRIu64 " bytes of kernel sources; expected at most %" PRIu64,
         source.name().c_str(), sources_.size_bytes, kMaxSourcesBytes);
  }
  std::vector<uint8_t> scratch;
  const auto size_bytes = static_cast<size_t>(sources_.size_bytes);
  const auto* bytes = reinterpret_cast<const char*>(source.view(sources_.offset, size_bytes, scratch));
  if (size_bytes == 0) bytes = "";
  if (hash64(bytes, size_bytes) != sources_.hash) {
    fail(MALISDK_DAMAGED_FILE, "%s: damaged, the kernel sources do not match their hash", source.name().c_str());
  }
  return std::string(bytes, size_bytes);
}

}  // namespace malisdk
