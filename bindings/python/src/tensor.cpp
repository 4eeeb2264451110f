#include "tensor.h"

#include <algorithm>

#include "error.h"

namespace py = pybind11;

namespace malisdk_py {
namespace {

const char* side_name(Side side) { return side == Side::input ? "input" : "output"; }

std::string label(const Spec& spec) { return std::string(side_name(spec.side)) + " '" + spec.name + "'"; }

template <class Extents>
std::string shape_text(const Extents* extents, size_t rank) {
  std::string text = "(";
  for (size_t i = 0; i < rank; ++i) text += (i == 0 ? "" : ", ") + std::to_string(extents[i]);
  return text + (rank == 1 ? ",)" : ")");
}

std::string describe(const py::array& array) {
  return py::str(static_cast<const py::object&>(array.dtype())).cast<std::string>() + " " +
         shape_text(array.shape(), static_cast<size_t>(array.ndim()));
}

[[noreturn]] void refuse(const Spec& spec, const std::string& what, const std::string& got, const std::string& hint) {
  throw StatusError(MALISDK_WRONG_TENSOR,
                    label(spec) + ": " + what + ", got " + got + "; expected " + describe(spec) + "\nhint: " + hint);
}

}  // namespace

Spec spec_of(Side side, uint32_t index, const malisdk_tensor_spec& raw) {
  return {side, index, raw.name, raw.dtype, std::vector<int64_t>(raw.shape, raw.shape + raw.rank), raw.size_bytes};
}

py::dtype numpy_dtype(malisdk_dtype dtype) {
  const char* name = malisdk_dtype_name(dtype);
  if (name == nullptr) {
    throw StatusError(MALISDK_VERSION_MISMATCH, "tensor: unknown dtype, got " + std::to_string(dtype) +
                                                    "; expected one that this malisdk package knows\n"
                                                    "hint: install the wheel that came with the library");
  }
  return py::dtype(std::string(name));
}

std::string describe(const Spec& spec) {
  const char* name = malisdk_dtype_name(spec.dtype);
  return std::string(name == nullptr ? "unknown" : name) + " " + shape_text(spec.shape.data(), spec.shape.size());
}

malisdk_tensor tensor_of(const Spec& spec, py::handle value) {
  if (!py::isinstance<py::array>(value)) {
    const auto type = py::type::handle_of(value).attr("__name__").cast<std::string>();
    refuse(spec, "not an array", type, "pass a numpy.ndarray");
  }
  const auto array = py::reinterpret_borrow<py::array>(value);
  const py::dtype dtype = numpy_dtype(spec.dtype);
  const size_t rank = spec.shape.size();
  if (!array.dtype().equal(dtype)) {
    refuse(spec, "wrong dtype", describe(array),
           std::string("convert it, for example x.astype('") + malisdk_dtype_name(spec.dtype) + "')");
  }
  if (static_cast<size_t>(array.ndim()) != rank || !std::equal(spec.shape.begin(), spec.shape.end(), array.shape())) {
    refuse(spec, "wrong shape", describe(array), "the order of the axes counts, a batch axis of 1 too");
  }
  if ((array.flags() & py::array::c_style) == 0) {
    refuse(spec, "not C-contiguous", describe(array) + " with strides " + shape_text(array.strides(), rank),
           "numpy.ascontiguousarray(x)");
  }
  if (spec.side == Side::output && !array.writeable()) {
    refuse(spec, "read-only memory", describe(array), "give a writeable array, or none");
  }
  malisdk_tensor tensor{};
  tensor.name = spec.name.c_str();
  tensor.dtype = spec.dtype;
  tensor.rank = static_cast<uint32_t>(rank);
  std::copy(spec.shape.begin(), spec.shape.end(), tensor.shape);
  tensor.data = const_cast<void*>(array.data());
  tensor.size_bytes = static_cast<uint64_t>(array.nbytes());
  return tensor;
}

const Spec& find_spec(const std::vector<Spec>& specs, Side side, py::handle which) {
  const auto got = py::repr(which).cast<std::string>();
  if (py::isinstance<py::str>(which)) {
    for (const Spec& spec : specs) {
      if (text_of(spec.name).equal(which)) return spec;
    }
  } else if (PyIndex_Check(which.ptr()) != 0 && !py::isinstance<py::bool_>(which)) {
    const Py_ssize_t index = PyNumber_AsSsize_t(which.ptr(), nullptr);
    if (index == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
    if (index >= 0 && static_cast<size_t>(index) < specs.size()) return specs[static_cast<size_t>(index)];
  }
  std::string known;
  for (const Spec& spec : specs) known += (known.empty() ? "'" : ", '") + spec.name + "'";
  throw StatusError(MALISDK_INVALID_ARGUMENT, std::string("model: no such ") + side_name(side) + ", got " + got +
                                                  "; expected " + known + " or an index below " +
                                                  std::to_string(specs.size()));
}

py::array view_of(const Spec& spec, void* data, const py::capsule& owner) {
  py::array view(numpy_dtype(spec.dtype), std::vector<py::ssize_t>(spec.shape.begin(), spec.shape.end()), {}, data,
                 owner);
  if (spec.side == Side::output) {
    py::detail::array_proxy(view.ptr())->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  }
  return view;
}

void empty_view(const py::array& view) {
  alignas(64) static unsigned char nothing[64] = {};  // what a rank 0 view, which has no extent to make 0, reads
  auto* proxy = py::detail::array_proxy(view.ptr());
  proxy->flags &= ~py::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  std::fill_n(proxy->dimensions, proxy->nd, 0);
  proxy->data = reinterpret_cast<char*>(nothing);
}

}  // namespace malisdk_py
