// Failures of the C ABI as C++ exceptions, and those as malisdk.Error.
#pragma once

#include <pybind11/pybind11.h>

#include <stdexcept>
#include <string>
#include <utility>

#include "malisdk/malisdk.h"

namespace malisdk_py {

class StatusError : public std::runtime_error {
 public:
  StatusError(malisdk_status status, const std::string& text) : std::runtime_error(text), status(status) {}
  malisdk_status status;
};

// Calls into the C ABI without the GIL. No Python object may be touched or die inside `call`. The text of a failure is
// taken before the GIL comes back, since other calls on this thread may follow then.
template <class Call>
void call_without_gil(Call&& call) {
  malisdk_status status = MALISDK_OK;
  std::string text;
  {
    pybind11::gil_scoped_release release;
    status = std::forward<Call>(call)();
    if (status != MALISDK_OK) text = malisdk_last_error();
  }
  if (status != MALISDK_OK) throw StatusError(status, text);
}

// A failed status of a short call as an exception.
inline void check(malisdk_status status) {
  if (status != MALISDK_OK) throw StatusError(status, malisdk_last_error());
}

// Text of drivers and file systems may be anything; what is not UTF-8 becomes escapes that can be printed.
inline pybind11::str text_of(const std::string& bytes) {
  PyObject* text = PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "backslashreplace");
  if (text == nullptr) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::str>(text);
}
inline pybind11::str text_of(const char* bytes) { return text_of(std::string(bytes == nullptr ? "" : bytes)); }

// From here on StatusError leaves this module as the exception that malisdk._errors makes of it.
void register_errors();

}  // namespace malisdk_py
