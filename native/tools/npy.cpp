#include "npy.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <memory>

#include "arguments.h"

namespace tool {
namespace {

constexpr char kMagic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};
// In the order of malisdk_dtype.
constexpr const char* kDescriptors[] = {"<f4", "<f2", "<f8", "|i1", "|u1", "<i2",
                                        "<u2", "<i4", "<u4", "<i8", "<u8", "|b1"};
constexpr int kDtypeCount = sizeof kDescriptors / sizeof kDescriptors[0];

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

// The header: a Python dict literal with exactly the keys descr, fortran_order and shape.
class HeaderParser {
 public:
  HeaderParser(const std::string& path, const std::string& text) : path_(path), text_(text) {}

  Array parse() {
    Array array;
    bool seen[3] = {false, false, false};
    expect('{');
    while (!accept('}')) {
      const std::string key = quoted();
      expect(':');
      if (key == "descr") {
        array.dtype = descriptor(quoted());
        seen[0] = true;
      } else if (key == "fortran_order") {
        const std::string value = word();
        if (value == "True") fail("is in Fortran order; expected C order (numpy.ascontiguousarray)");
        if (value != "False") fail("fortran_order is '" + value + "'; expected True or False");
        seen[1] = true;
      } else if (key == "shape") {
        array.shape = shape();
        seen[2] = true;
      } else {
        fail("unknown header key '" + key + "'");
      }
      if (!accept(',') && peek() != '}') fail("damaged header");
    }
    if (!seen[0] || !seen[1] || !seen[2]) fail("incomplete header");
    return array;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw FileError(path_ + ": " + what); }

  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("damaged header; expected '") + c + "'");
  }
  std::string quoted() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') fail("damaged header; expected a string");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string::npos) fail("damaged header; expected the end of a string");
    std::string value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return value;
  }
  std::string word() {
    peek();
    const size_t begin = at_;
    while (at_ < text_.size() && std::isalnum(static_cast<unsigned char>(text_[at_]))) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  std::vector<int64_t> shape() {
    std::vector<int64_t> extents;
    expect('(');
    while (!accept(')')) {
      const std::string digits = word();
      if (digits.empty() || digits.size() > 15 || digits.find_first_not_of("0123456789") != std::string::npos) {
        fail("damaged shape");
      }
      extents.push_back(std::stoll(digits));
      if (!accept(',') && peek() != ')') fail("damaged shape");
    }
    return extents;
  }
  malisdk_dtype descriptor(const std::string& text) {
    for (int i = 0; i < kDtypeCount; ++i) {
      if (text == kDescriptors[i]) return i;
    }
    fail("dtype '" + text + "' is not supported; expected little-endian float, int, uint or bool");
  }

  const std::string& path_;
  const std::string& text_;
  size_t at_ = 0;
};

template <class Value>
double read_as(const uint8_t* bytes) {
  Value value;
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<double>(value);
}

}  // namespace

float half_to_float(uint16_t bits) {
  const int exponent = (bits >> 10) & 0x1F;
  const int mantissa = bits & 0x3FF;
  float value;
  if (exponent == 31) {
    value = mantissa == 0 ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(mantissa), -24);
  } else {
    value = std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

uint16_t float_to_half(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7E00;
  if (magnitude >= 65520.0f) return sign | 0x7C00;
  int exponent = 0;
  std::frexp(magnitude, &exponent);  // magnitude = m * 2^exponent, 0.5 <= m < 1
  const int scale = std::max(exponent - 11, -24);
  const float steps = std::nearbyint(std::ldexp(magnitude, -scale));  // ties to even, as IEEE 754 wants
  if (scale == -24) return static_cast<uint16_t>(sign | static_cast<uint16_t>(steps));
  return static_cast<uint16_t>(sign | (((scale + 24) << 10) + static_cast<uint16_t>(steps)));
}

double Array::at(uint64_t index) const {
  const uint8_t* element = bytes.data() + index * malisdk_dtype_bytes(dtype);
  switch (dtype) {
    case MALISDK_FLOAT32:
      return read_as<float>(element);
    case MALISDK_FLOAT16: {
      uint16_t bits;
      std::memcpy(&bits, element, sizeof bits);
      return half_to_float(bits);
    }
    case MALISDK_FLOAT64:
      return read_as<double>(element);
    case MALISDK_INT8:
      return read_as<int8_t>(element);
    case MALISDK_INT16:
      return read_as<int16_t>(element);
    case MALISDK_UINT16:
      return read_as<uint16_t>(element);
    case MALISDK_INT32:
      return read_as<int32_t>(element);
    case MALISDK_UINT32:
      return read_as<uint32_t>(element);
    case MALISDK_INT64:
      return read_as<int64_t>(element);
    case MALISDK_UINT64:
      return read_as<uint64_t>(element);
    default:
      return read_as<uint8_t>(element);
  }
}

std::string Array::describe() const {
  std::string text = std::string(malisdk_dtype_name(dtype)) + "[";
  for (size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(shape[i]);
  return text + "]";
}

std::vector<uint8_t> read_file(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (!file) throw FileError(path + ": cannot be opened: " + std::strerror(errno));
  std::vector<uint8_t> bytes;
  uint8_t chunk[1 << 16];
  for (size_t got = sizeof chunk; got == sizeof chunk;) {
    got = std::fread(chunk, 1, sizeof chunk, file.get());
    bytes.insert(bytes.end(), chunk, chunk + got);
  }
  if (std::ferror(file.get()) != 0) throw FileError(path + ": cannot be read: " + std::strerror(errno));
  return bytes;
}

Array read_npy(const std::string& path) {
  const std::vector<uint8_t> file = read_file(path);
  if (file.size() < 12 || std::memcmp(file.data(), kMagic, sizeof kMagic) != 0) {
    throw FileError(path + ": is no .npy file; expected one written by numpy.save");
  }
  const int major = file[6];
  if (major < 1 || major > 3) throw FileError(path + ": .npy version " + std::to_string(major) + "; expected 1 to 3");
  const size_t header_at = major == 1 ? 10 : 12;
  size_t header_bytes = file[8] | (file[9] << 8);
  if (major > 1) header_bytes |= (static_cast<size_t>(file[10]) << 16) | (static_cast<size_t>(file[11]) << 24);
  if (header_bytes > file.size() - header_at) throw FileError(path + ": truncated header");
  const std::string header(reinterpret_cast<const char*>(file.data()) + header_at, header_bytes);
  Array array = HeaderParser(path, header).parse();

  const uint64_t have = file.size() - header_at - header_bytes;
  uint64_t expected = malisdk_dtype_bytes(array.dtype);
  if (std::count(array.shape.begin(), array.shape.end(), 0) > 0) expected = 0;
  for (const int64_t extent : array.shape) {
    if (expected != 0 && expected > have / static_cast<uint64_t>(extent)) {
      throw FileError(path + ": truncated, got " + std::to_string(have) + " bytes for " + array.describe());
    }
    expected *= static_cast<uint64_t>(extent);
  }
  if (expected != have) {
    throw FileError(path + ": got " + std::to_string(have) + " bytes of data; expected " + std::to_string(expected) +
                    " for " + array.describe());
  }
  array.bytes.assign(file.begin() + static_cast<std::ptrdiff_t>(header_at + header_bytes), file.end());
  return array;
}

void write_npy(const std::string& path, const Array& array) {
  std::string shape;
  for (const int64_t extent : array.shape) shape += std::to_string(extent) + ", ";
  if (array.shape.size() > 1) shape.resize(shape.size() - 2);
  if (array.shape.size() == 1) shape.pop_back();
  std::string header =
      std::string("{'descr': '") + kDescriptors[array.dtype] + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  header.append(63 - (10 + header.size()) % 64, ' ').push_back('\n');

  const std::string temporary = path + "." + std::to_string(getpid()) + ".tmp";
  File file(std::fopen(temporary.c_str(), "wb"), std::fclose);
  if (!file) throw FileError(path + ": cannot be written: " + std::strerror(errno));
  const uint8_t prefix[4] = {1, 0, static_cast<uint8_t>(header.size() & 0xFF),
                             static_cast<uint8_t>(header.size() >> 8)};
  bool written = std::fwrite(kMagic, sizeof kMagic, 1, file.get()) == 1 &&
                 std::fwrite(prefix, sizeof prefix, 1, file.get()) == 1 &&
                 std::fwrite(header.data(), header.size(), 1, file.get()) == 1 &&
                 (array.bytes.empty() || std::fwrite(array.bytes.data(), array.bytes.size(), 1, file.get()) == 1);
  written = std::fclose(file.release()) == 0 && written;
  if (!written || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string reason = std::strerror(errno);
    std::remove(temporary.c_str());
    throw FileError(path + ": cannot be written: " + reason);
  }
}

}  // namespace tool
