// malisdk: the runtime as a command. Exit codes: 0 fine, 1 a smoke case is wrong, 2 misuse, 3 anything that failed.
#include <algorithm>
#include <cstdio>

#include "commands.h"

namespace {

std::string overview(const std::vector<tool::Command>& commands) {
  std::string text =
      "usage: malisdk COMMAND ...\n\nRuns compiled networks (.mali files) on an OpenCL device.\n\ncommands:\n";
  for (const tool::Command& command : commands) {
    const std::string& summary = command.syntax.summary;
    text += "  " + command.syntax.command + std::string(10 - command.syntax.command.size(), ' ') +
            summary.substr(0, summary.find('\n')) + "\n";
  }
  return text + "\nmalisdk COMMAND --help says more; malisdk --version prints the version.\n";
}

int dispatch(const std::vector<tool::Command>& commands, const std::vector<std::string>& words) {
  if (words.empty()) throw tool::UsageError("malisdk: no command given\nhint: malisdk --help");
  const std::string& name = words[0];
  if (name == "--help" || name == "-h" || name == "help") {
    std::fputs(overview(commands).c_str(), stdout);
    return tool::kSuccess;
  }
  if (name == "--version") {
    const uint32_t version = malisdk_version();
    std::printf("malisdk %u.%u.%u (ABI %u)\n", version / 10000, version / 100 % 100, version % 100,
                malisdk_abi_version());
    return tool::kSuccess;
  }
  std::vector<std::string> names;
  for (const tool::Command& command : commands) {
    names.push_back(command.syntax.command);
    if (command.syntax.command != name) continue;
    const std::vector<std::string> rest(words.begin() + 1, words.end());
    if (std::count(rest.begin(), rest.end(), "--help") + std::count(rest.begin(), rest.end(), "-h") > 0) {
      std::fputs(tool::help_text(command.syntax).c_str(), stdout);
      return tool::kSuccess;
    }
    return command.run(tool::Arguments(command.syntax, rest));
  }
  throw tool::UsageError("malisdk: unknown command, got '" + name + "'" + tool::suggestion(name, names) +
                         "\nhint: malisdk --help");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<tool::Command> commands = {tool::run_command(),    tool::bench_command(),
                                                 tool::info_command(),   tool::smoke_command(),
                                                 tool::warmup_command(), tool::devices_command()};
    const int code = dispatch(commands, std::vector<std::string>(argv + 1, argv + argc));
    if (std::fflush(stdout) != 0) throw tool::FileError("standard output: cannot be written");
    return code;
  } catch (const tool::UsageError& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return tool::kUsage;
  } catch (const malisdk::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return tool::kFailure;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "malisdk: %s\n", error.what());
    return tool::kFailure;
  }
}
