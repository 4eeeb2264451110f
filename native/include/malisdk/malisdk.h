/* malisdk: runs a compiled network (.mali file) on an OpenCL device such as the Mali-T860 of an RK3399.
 *
 * Conventions: every fallible call returns a malisdk_status; results come through the last out-parameters, which are
 * set to NULL or 0 on failure. Handles come in create/destroy pairs and destroy(NULL) does nothing. Strings and arrays
 * that a call hands out belong to the handle they were asked of and live as long as it does. Structs that begin with
 * struct_size must carry sizeof(that struct); fields left zero mean the default.
 *
 * Threads: a malisdk_model may be used from many threads at once. A malisdk_session is for one thread at a time; a
 * second thread that enters it gets MALISDK_BUSY.
 */
#ifndef MALISDK_MALISDK_H
#define MALISDK_MALISDK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(MALISDK_BUILD) && defined(__GNUC__)
#define MALISDK_API __attribute__((visibility("default")))
#else
#define MALISDK_API
#endif

#if defined(__GNUC__)
#define MALISDK_NODISCARD __attribute__((warn_unused_result))
#else
#define MALISDK_NODISCARD
#endif

/* Major * 10000 + minor * 100 + patch. */
#define MALISDK_VERSION 100
/* Bumped when a call or struct changes incompatibly. */
#define MALISDK_ABI_VERSION 1
#define MALISDK_MAX_RANK 8

/* Values are frozen; new ones are only added. */
typedef int32_t malisdk_status;
enum {
  MALISDK_OK = 0,
  MALISDK_INVALID_ARGUMENT = 1,  /* a NULL, an unknown name or option value, a bad index */
  MALISDK_FILE_NOT_FOUND = 2,    /* the file cannot be opened or read */
  MALISDK_FOREIGN_FILE = 3,      /* not a .mali file */
  MALISDK_DAMAGED_FILE = 4,      /* a .mali file whose contents fail a check */
  MALISDK_VERSION_MISMATCH = 5,  /* made for another version of the container or the plan schema */
  MALISDK_NO_OPENCL = 6,         /* no usable OpenCL library */
  MALISDK_NO_DEVICE = 7,         /* an OpenCL library, but no device that fits the request */
  MALISDK_UNSUPPORTED = 8,       /* the device lacks what the model needs (fp16, work-group size, memory) */
  MALISDK_BUILD_FAILED = 9,      /* a kernel does not compile; the text carries the build log */
  MALISDK_OUT_OF_RESOURCES = 10, /* the device refused a launch */
  MALISDK_OUT_OF_MEMORY = 11,    /* host or device memory */
  MALISDK_DEVICE_ERROR = 12,     /* any other OpenCL failure; the text names the call and its code */
  MALISDK_WRONG_TENSOR = 13,     /* an input or output with another dtype, rank, shape or size than the model's */
  MALISDK_BUSY = 14,             /* the session is in use by another thread, or a tensor is still mapped */
  MALISDK_INTERNAL = 15
};

typedef int32_t malisdk_dtype;
enum {
  MALISDK_FLOAT32 = 0,
  MALISDK_FLOAT16 = 1,
  MALISDK_FLOAT64 = 2,
  MALISDK_INT8 = 3,
  MALISDK_UINT8 = 4,
  MALISDK_INT16 = 5,
  MALISDK_UINT16 = 6,
  MALISDK_INT32 = 7,
  MALISDK_UINT32 = 8,
  MALISDK_INT64 = 9,
  MALISDK_UINT64 = 10,
  MALISDK_BOOL = 11 /* one byte, 0 or 1 */
};

typedef struct malisdk_model malisdk_model;     /* a verified file with its kernels built for one device */
typedef struct malisdk_session malisdk_session; /* the memory and the queue to run a model in */

/* What a model takes or gives. Row-major, no padding. */
typedef struct malisdk_tensor_spec {
  const char* name;
  malisdk_dtype dtype;
  uint32_t rank;
  int64_t shape[MALISDK_MAX_RANK];
  uint64_t size_bytes;
} malisdk_tensor_spec;

/* Memory of the caller. dtype, rank and shape must equal the model's spec. */
typedef struct malisdk_tensor {
  const char* name; /* of the input or output */
  malisdk_dtype dtype;
  uint32_t rank;
  int64_t shape[MALISDK_MAX_RANK];
  void* data;
  uint64_t size_bytes;
} malisdk_tensor;

typedef struct malisdk_model_options {
  uint32_t struct_size;
  /* NULL or "auto" or "gpu": the first GPU device, else (auto only) any OpenCL device. "cpu": an OpenCL CPU device.
   * Or a part of a device's or platform's name, as malisdk_device_info_get prints it. */
  const char* device;
  /* NULL: the folder named by MALISDK_CACHE_DIR, else $XDG_CACHE_HOME/malisdk, else $HOME/.cache/malisdk.
   * "": no kernel cache. A cache that cannot be used only costs time. */
  const char* cache_dir;
  /* Path of the OpenCL library. NULL: MALISDK_OPENCL_LIBRARY, else the usual names. */
  const char* opencl_library;
} malisdk_model_options;

typedef struct malisdk_session_options {
  uint32_t struct_size;
  uint32_t profile; /* 1: ask for a queue that times kernels */
} malisdk_session_options;

typedef struct malisdk_model_info {
  uint32_t struct_size;
  const char* name;
  const char* target;   /* what the file was compiled for */
  const char* device;   /* what it runs on, as the driver names it */
  const char* platform; /* OpenCL platform name and version */
  malisdk_dtype dtype;
  uint32_t input_count;
  uint32_t output_count;
  uint32_t kernel_count;
  uint32_t launch_count;
  uint64_t weights_bytes;
  uint64_t arena_bytes;
  uint32_t kernels_from_cache; /* kernels taken from the program-binary cache */
} malisdk_model_info;

typedef struct malisdk_launch_profile {
  const char* kernel;
  const char* layer;
  const char* rule;
  uint64_t device_ns; /* time on the device; 0 when the driver has no profiling queue */
  uint64_t flops;
  uint64_t bytes;
} malisdk_launch_profile;

typedef struct malisdk_device_info {
  const char* platform;
  const char* name;
  const char* version; /* OpenCL device version */
  const char* driver;
  uint32_t is_gpu;
  uint32_t has_fp16;
  uint32_t compute_units;
  uint64_t global_memory_bytes;
  uint64_t max_work_group;
} malisdk_device_info;

/* The library's MALISDK_VERSION and MALISDK_ABI_VERSION. */
MALISDK_API uint32_t malisdk_version(void);
MALISDK_API uint32_t malisdk_abi_version(void);

/* Why the last call on this thread failed: one clear text, valid until the next call on this thread. Never NULL. */
MALISDK_API const char* malisdk_last_error(void);
/* "MALISDK_NO_DEVICE" for 7; "unknown status" for a foreign value. */
MALISDK_API const char* malisdk_status_name(malisdk_status status);
/* "float32" for 0; NULL for a foreign value. */
MALISDK_API const char* malisdk_dtype_name(malisdk_dtype dtype);
/* Bytes of one element; 0 for a foreign value. */
MALISDK_API uint64_t malisdk_dtype_bytes(malisdk_dtype dtype);

/* How many OpenCL devices there are. opencl_library as in malisdk_model_options. */
MALISDK_API MALISDK_NODISCARD malisdk_status malisdk_device_count(const char* opencl_library, uint32_t* count);
/* Strings live until the process ends. */
MALISDK_API MALISDK_NODISCARD malisdk_status malisdk_device_info_get(const char* opencl_library, uint32_t index,
                                                                     malisdk_device_info* info);

/* Verifies the file, opens the device, uploads the weights and builds the kernels. options may be NULL. */
MALISDK_API MALISDK_NODISCARD malisdk_status malisdk_model_load(const char* path, const malisdk_model_options* options,
                                                                malisdk_model** model);
/* The same from memory; `data` may be freed after the call. */
MALISDK_API MALISDK_NODISCARD malisdk_status malisdk_model_load_memory(const void* data, uint64_t size_bytes,
                                                                       const malisdk_model_options* options,
                                                                       malisdk_model** model);
/* Sessions keep what they need of a model; it may be destroyed before them. */
MALISDK_API void malisdk_model_destroy(malisdk_model* model);
MALISDK_API MALISDK_NODISCARD malisdk_status malisdk_model_info_get(const malisdk_model* model,
                                                                    malisdk_model_info* info);
MALISDK_API MALISDK_NODISCARD malisdk_status malisdk_model_input(const malisdk_model* model, uint32_t index,
                                                                 malisdk_tensor_spec* spec);
MALISDK_API MALISDK_NODISCARD malisdk_status malisdk_model_output(const malisdk_model* model, uint32_t index,
                                                                  malisdk_tensor_spec* spec);

/* Allocates arena, inputs and outputs. options may be NULL. */
MALISDK_API MALISDK_NODISCARD malisdk_status malisdk_session_create(const malisdk_model* model,
                                                                    const malisdk_session_options* options,
                                                                    malisdk_session** session);
MALISDK_API void malisdk_session_destroy(malisdk_session* session);

/* Copies the inputs in, runs all launches, waits once, copies the outputs out. Inputs may be given in any order; those
 * left out keep what was last put into them by map_input (or by an earlier run); an input that never got anything is an
 * error. Outputs may be a subset. */
MALISDK_API MALISDK_NODISCARD malisdk_status malisdk_session_run(malisdk_session* session, const malisdk_tensor* inputs,
                                                                 uint32_t input_count, malisdk_tensor* outputs,
                                                                 uint32_t output_count);
/* Zero copy: the tensor's own memory, for writing (input) or reading (output) until it is unmapped. */
MALISDK_API MALISDK_NODISCARD malisdk_status malisdk_session_map_input(malisdk_session* session, uint32_t index,
                                                                       void** data);
MALISDK_API MALISDK_NODISCARD malisdk_status malisdk_session_unmap_input(malisdk_session* session, uint32_t index);
MALISDK_API MALISDK_NODISCARD malisdk_status malisdk_session_map_output(malisdk_session* session, uint32_t index,
                                                                        void** data);
MALISDK_API MALISDK_NODISCARD malisdk_status malisdk_session_unmap_output(malisdk_session* session, uint32_t index);

/* One more run on the inputs already there, timed launch by launch. `launches` belongs to the session until the next
 * profile. total_ns is the host's time for the whole run. Drivers without a profiling queue give device_ns 0. */
MALISDK_API MALISDK_NODISCARD malisdk_status malisdk_session_profile(malisdk_session* session,
                                                                     const malisdk_launch_profile** launches,
                                                                     uint32_t* launch_count, uint64_t* total_ns);

#ifdef __cplusplus
}
#endif
#endif /* MALISDK_MALISDK_H */
