// How a failure travels: thrown as Error inside the library, turned into a status and a text at the C boundary.
#pragma once

#include <cstdint>
#include <exception>
#include <new>
#include <string>

#include "malisdk/malisdk.h"

#define MALISDK_PRINTF(format_index, first_index) __attribute__((format(printf, format_index, first_index)))

namespace malisdk {

class Error : public std::exception {
 public:
  Error(malisdk_status status, std::string text) : status_(status), text_(std::move(text)) {}
  malisdk_status status() const noexcept { return status_; }
  const std::string& text() const noexcept { return text_; }
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  malisdk_status status_;
  std::string text_;
};

std::string format(const char* text, ...) MALISDK_PRINTF(1, 2);
[[noreturn]] void fail(malisdk_status status, const char* text, ...) MALISDK_PRINTF(2, 3);

// The text behind malisdk_last_error: one fixed buffer a thread, so that reporting can neither allocate nor fail.
const char* last_error() noexcept;
void set_last_error(const char* text) noexcept;

// Runs `body` and turns whatever it throws into a status; the only way from C into the library.
template <class Body>
malisdk_status guard(Body&& body) noexcept {
  set_last_error("");
  try {
    body();
    return MALISDK_OK;
  } catch (const Error& error) {
    set_last_error(error.what());
    return error.status();
  } catch (const std::bad_alloc&) {
    set_last_error("malisdk: out of host memory");
    return MALISDK_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    set_last_error(error.what());
    return MALISDK_INTERNAL;
  } catch (...) {
    set_last_error("malisdk: unknown failure");
    return MALISDK_INTERNAL;
  }
}

}  // namespace malisdk
