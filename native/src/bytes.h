// Where the bytes of a .mali file come from: a file on disk or the caller's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace malisdk {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  const std::string& name() const noexcept { return name_; }
  uint64_t size_bytes() const noexcept { return size_bytes_; }

  // `size_bytes` bytes at `offset`, valid until the next call; `scratch` is filled where they are not in memory yet.
  // The range must lie inside the source. Throws FILE_NOT_FOUND when the file cannot be read any more.
  virtual const uint8_t* view(uint64_t offset, size_t size_bytes, std::vector<uint8_t>& scratch) const = 0;

 protected:
  ByteSource(std::string name, uint64_t size_bytes) : name_(std::move(name)), size_bytes_(size_bytes) {}

 private:
  std::string name_;
  uint64_t size_bytes_;
};

// Reads with pread instead of mapping: a file that shrinks while it is read is an error then, not a SIGBUS.
class FileSource final : public ByteSource {
 public:
  explicit FileSource(const char* path);
  ~FileSource() override;
  FileSource(const FileSource&) = delete;
  FileSource& operator=(const FileSource&) = delete;
  const uint8_t* view(uint64_t offset, size_t size_bytes, std::vector<uint8_t>& scratch) const override;

 private:
  struct Opened {
    int descriptor;
    uint64_t size_bytes;
  };
  FileSource(const char* path, Opened opened);
  static Opened open_file(const char* path);

  int descriptor_;
};

class MemorySource final : public ByteSource {
 public:
  MemorySource(const void* data, uint64_t size_bytes)
      : ByteSource("<memory>", size_bytes), data_(static_cast<const uint8_t*>(data)) {}
  const uint8_t* view(uint64_t offset, size_t, std::vector<uint8_t>&) const override { return data_ + offset; }

 private:
  const uint8_t* data_;
};

}  // namespace malisdk
