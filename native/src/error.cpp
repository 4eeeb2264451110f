#include "error.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace malisdk {
namespace {

// Long enough for the first errors of a build log.
constexpr size_t kMaxText = 8192;
thread_local char thread_text[kMaxText];

std::string vformat(const char* text, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = std::vsnprintf(nullptr, 0, text, again);
  va_end(again);
  if (length < 0) return text;
  std::string result(static_cast<size_t>(length) + 1, '\0');
  std::vsnprintf(result.data(), result.size(), text, arguments);
  result.pop_back();
  return result;
}

}  // namespace

std::string format(const char* text, ...) {
  va_list arguments;
  va_start(arguments, text);
  std::string result = vformat(text, arguments);
  va_end(arguments);
  return result;
}

void fail(malisdk_status status, const char* text, ...) {
  va_list arguments;
  va_start(arguments, text);
  std::string result = vformat(text, arguments);
  va_end(arguments);
  throw Error(status, std::move(result));
}

const char* last_error() noexcept { return thread_text; }

void set_last_error(const char* text) noexcept {
  const size_t length = strnlen(text, kMaxText - 1);
  std::memmove(thread_text, text, length);
  thread_text[length] = '\0';
}

}  // namespace malisdk
