// The subcommands of `malisdk`. Each has a syntax and a body that returns the exit code.
#pragma once

#include <string>
#include <vector>

#include "arguments.h"
#include "npy.h"

namespace tool {

enum ExitCode { kSuccess = 0, kMismatch = 1, kUsage = 2, kFailure = 3 };

struct Command {
  Syntax syntax;
  int (*run)(const Arguments& arguments);
};

Command run_command();
Command bench_command();
Command info_command();
Command smoke_command();
Command warmup_command();
Command devices_command();

// Shared by the commands.
std::string describe(const malisdk_tensor_spec& spec);
std::string megabytes(uint64_t bytes);  // "12.3 MB"
malisdk_tensor tensor_of(const std::string& name, Array& array);
Array empty_array(const malisdk_tensor_spec& spec);

}  // namespace tool
