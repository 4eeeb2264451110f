#include "cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "error.h"
#include "hash.h"

namespace malisdk {
namespace {

constexpr uint64_t kMagic = 0x31454843414D4C4Bull;
constexpr uint64_t kMaxEntryBytes = 256u << 20;

// In front of every entry; then the key and the binary. The key stands in full, so equal hashes cannot mix two
// programs.
struct EntryHeader {
  uint64_t magic;
  uint64_t key_bytes;
  uint64_t binary_bytes;
  uint64_t hash;  // of key and binary
};

std::string default_folder() {
  if (const char* folder = std::getenv("MALISDK_CACHE_DIR")) return folder;
  const char* base = std::getenv("XDG_CACHE_HOME");
  if (base != nullptr && *base == '/') return std::string(base) + "/malisdk";
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return std::string(home) + "/.cache/malisdk";
  return {};
}

bool make_folders(const std::string& path) {
  for (size_t end = path.find('/', 1); end != std::string::npos; end = path.find('/', end + 1)) {
    mkdir(path.substr(0, end).c_str(), 0700);
  }
  return mkdir(path.c_str(), 0700) == 0 || errno == EEXIST;
}

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return value_; }

 private:
  int value_;
};

bool write_all(int descriptor, const void* data, size_t size_bytes) {
  const char* bytes = static_cast<const char*>(data);
  while (size_bytes > 0) {
    const ssize_t done = write(descriptor, bytes, size_bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    bytes += done;
    size_bytes -= static_cast<size_t>(done);
  }
  return true;
}

bool read_all(int descriptor, void* data, size_t size_bytes) {
  char* bytes = static_cast<char*>(data);
  while (size_bytes > 0) {
    const ssize_t done = read(descriptor, bytes, size_bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    bytes += done;
    size_bytes -= static_cast<size_t>(done);
  }
  return true;
}

uint64_t entry_hash(const std::string& key, const std::vector<uint8_t>& binary) {
  return hash64(binary.data(), binary.size(), hash64(key.data(), key.size()));
}

}  // namespace

BinaryCache::BinaryCache(const char* folder) : folder_(folder != nullptr ? folder : default_folder()) {}

std::string BinaryCache::path_of(const std::string& key) const {
  return format("%s/%016llx.clbin", folder_.c_str(), static_cast<unsigned long long>(hash64(key.data(), key.size())));
}

std::vector<uint8_t> BinaryCache::load(const std::string& key) const {
  if (folder_.empty()) return {};
  const Descriptor file(open(path_of(key).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info = {};
  EntryHeader header = {};
  if (file.get() < 0 || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  if (!read_all(file.get(), &header, sizeof header)) return {};
  if (header.magic != kMagic || header.key_bytes != key.size() || header.binary_bytes == 0 ||
      header.binary_bytes > kMaxEntryBytes ||
      sizeof header + header.key_bytes + header.binary_bytes != static_cast<uint64_t>(info.st_size)) {
    return {};
  }
  std::string stored_key(key.size(), '\0');
  std::vector<uint8_t> binary(static_cast<size_t>(header.binary_bytes));
  if (!read_all(file.get(), stored_key.data(), stored_key.size()) || stored_key != key) return {};
  if (!read_all(file.get(), binary.data(), binary.size()) || entry_hash(key, binary) != header.hash) return {};
  return binary;
}

void BinaryCache::store(const std::string& key, const std::vector<uint8_t>& binary) const {
  if (folder_.empty() || binary.empty() || binary.size() > kMaxEntryBytes || !make_folders(folder_)) return;
  static std::atomic<unsigned> counter{0};
  const std::string path = path_of(key);
  const std::string temporary = format("%s.%d.%u.tmp", path.c_str(), static_cast<int>(getpid()), counter++);
  const EntryHeader header = {kMagic, key.size(), binary.size(), entry_hash(key, binary)};
  bool written = false;
  {
    const Descriptor file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (file.get() < 0) return;
    written = write_all(file.get(), &header, sizeof header) && write_all(file.get(), key.data(), key.size()) &&
              write_all(file.get(), binary.data(), binary.size());
  }
  if (!written || std::rename(temporary.c_str(), path.c_str()) != 0) unlink(temporary.c_str());
}

void BinaryCache::remove(const std::string& key) const {
  if (!folder_.empty()) unlink(path_of(key).c_str());
}

}  // namespace malisdk
