#include "bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "error.h"

namespace malisdk {

FileSource::Opened FileSource::open_file(const char* path) {
  const int descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(MALISDK_FILE_NOT_FOUND, "%s: cannot be opened: %s", path, std::strerror(errno));
  struct stat info = {};
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(descriptor);
    fail(MALISDK_FILE_NOT_FOUND, "%s: is no regular file; expected a .mali file", path);
  }
  return {descriptor, static_cast<uint64_t>(info.st_size)};
}

FileSource::FileSource(const char* path) : FileSource(path, open_file(path)) {}

FileSource::FileSource(const char* path, Opened opened)
    : ByteSource(path, opened.size_bytes), descriptor_(opened.descriptor) {}

FileSource::~FileSource() { close(descriptor_); }

const uint8_t* FileSource::view(uint64_t offset, size_t size_bytes, std::vector<uint8_t>& scratch) const {
  scratch.resize(size_bytes);
  size_t done = 0;
  while (done < size_bytes) {
    const ssize_t got = pread(descriptor_, scratch.data() + done, size_bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(MALISDK_FILE_NOT_FOUND, "%s: cannot be read: %s", name().c_str(), std::strerror(errno));
    if (got == 0) fail(MALISDK_DAMAGED_FILE, "%s: became shorter while it was read", name().c_str());
    done += static_cast<size_t>(got);
  }
  return scratch.data();
}

}  // namespace malisdk
