// mneme plugins wrap: the plugin file of a memory in Python.
#include "host/plugin/python/wrap.hpp"

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/plugins/plugins.hpp"
#include "host/cli/streams.hpp"
#include "host/config/memory_file.hpp"

namespace mneme::cli {
namespace {

namespace fs = std::filesystem;

struct WrapArguments {
  fs::path memory;
  fs::path out;
};

int wrap_memory(const WrapArguments& arguments, const Streams& streams) {
  const fs::path memory = python_memory(arguments.memory);
  fs::path out = arguments.out;
  if (out.empty()) out = fs::path(arguments.memory).replace_extension(".so");
  const std::vector<std::byte> bytes = plugin::wrap_python(memory, arguments.memory.string()).bytes;
  write_file_atomic(out, {std::span(bytes)});
  streams.out << out.string() << "\n    sha256 " << sha256_hex(std::span(bytes)) << '\n';
  return 0;
}

}  // namespace

fs::path python_memory(const fs::path& file) {
  const fs::path memory = fs::absolute(file).lexically_normal();
  std::error_code ignored;
  if (!config::is_python_memory(memory) || !fs::is_regular_file(memory, ignored)) {
    throw_usage({.where = file.string(),
                 .failed = "is no memory in Python",
                 .expected = "a file NAME.py",
                 .hint = "mneme plugins new NAME --lang python writes one to begin with"});
  }
  return memory;
}

void add_plugins_wrap(const Command& plugins) {
  const Command command = plugins.subcommand(
      "wrap",
      "Write the plugin file of a memory in Python, with its source inside: for a folder of "
      "plugins, or another machine. Commands that are given the .py file need none");
  const auto arguments = std::make_shared<WrapArguments>();
  command.option("FILE", arguments->memory, "", "The memory's file, NAME.py", {required});
  command.option("--out", arguments->out, "FILE", "The file to write; default NAME.so beside it");
  command.examples({"mneme plugins wrap my_memory.py",
                    "mneme plugins wrap my_memory.py --out plugins/my_memory.so"});
  command.runs(arguments, &wrap_memory);
}

}  // namespace mneme::cli
