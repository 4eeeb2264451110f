// malisdk._core: the C ABI for the Python package. What users see is in malisdk/_model.py.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "error.h"
#include "malisdk/malisdk.h"
#include "model.h"

namespace py = pybind11;
using namespace malisdk_py;

namespace {

py::list devices(const std::optional<std::string>& opencl_library) {
  const char* library = opencl_library ? opencl_library->c_str() : nullptr;
  uint32_t count = 0;
  call_without_gil([&] { return malisdk_device_count(library, &count); });
  py::list all;
  for (uint32_t i = 0; i < count; ++i) {
    malisdk_device_info raw{};
    call_without_gil([&] { return malisdk_device_info_get(library, i, &raw); });
    using py::literals::operator""_a;
    all.append(py::dict("platform"_a = text_of(raw.platform), "name"_a = text_of(raw.name),
                        "version"_a = text_of(raw.version), "driver"_a = text_of(raw.driver),
                        "is_gpu"_a = raw.is_gpu != 0, "has_fp16"_a = raw.has_fp16 != 0,
                        "compute_units"_a = raw.compute_units, "global_memory_bytes"_a = raw.global_memory_bytes,
                        "max_work_group"_a = raw.max_work_group));
  }
  return all;
}

}  // namespace

PYBIND11_MODULE(_core, m) {
  m.doc() = "Binding of libmalisdk.so; use the malisdk package.";
  if (malisdk_abi_version() != MALISDK_ABI_VERSION) {
    throw py::import_error("libmalisdk.so: wrong ABI version, got " + std::to_string(malisdk_abi_version()) +
                           "; expected " + std::to_string(MALISDK_ABI_VERSION));
  }
  register_errors();

  m.def("version", &malisdk_version);
  m.def("status_name", [](malisdk_status status) { return text_of(malisdk_status_name(status)); }, py::arg("status"));
  m.def("devices", &devices, py::arg("opencl_library").none(true));

  py::class_<Mapping>(m, "Mapping")
      .def("__enter__", &Mapping::enter)
      .def("__exit__", [](Mapping& self, const py::args&) { self.exit(); });

  py::class_<Model>(m, "Model")
      .def(py::init<const std::string&, const std::string&, const std::optional<std::string>&,
                    const std::optional<std::string>&, bool>(),
           py::arg("path"), py::arg("device"), py::arg("cache_dir").none(true), py::arg("opencl_library").none(true),
           py::arg("profile"))
      .def("inputs", [](const Model& self) { return self.specs(Side::input); })
      .def("outputs", [](const Model& self) { return self.specs(Side::output); })
      .def("info", &Model::info)
      .def("run", &Model::run, py::arg("inputs"), py::arg("outputs"))
      .def("map_input", [](const Model& self, py::handle which) { return self.map(Side::input, which); },
           py::arg("which"))
      .def("map_output", [](const Model& self, py::handle which) { return self.map(Side::output, which); },
           py::arg("which"))
      .def("profile", &Model::profile, py::arg("inputs"))
      .def("close", &Model::close)
      .def_property_readonly("closed", &Model::closed);
}
