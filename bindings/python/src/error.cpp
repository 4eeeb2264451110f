#include "error.h"

namespace py = pybind11;

namespace malisdk_py {

void register_errors() {
  py::register_local_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const StatusError& e) {
      const py::object error = py::module_::import("malisdk._errors").attr("from_status")(text_of(e.what()), e.status);
      PyErr_SetObject(py::type::handle_of(error).ptr(), error.ptr());
    }
  });
}

}  // namespace malisdk_py
