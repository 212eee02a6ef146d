#include "host/cli/machine_arguments.hpp"

#include <system_error>

#include "host/base/error.hpp"
#include "host/plugin/plugin_search.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/device_memory.hpp"

namespace mneme::cli {

namespace fs = std::filesystem;

void MachineArguments::add_place(const Command& command) {
  command.option("--device", device, "DEVICE", "Where to compute: cpu, cuda or cuda:N",
                 {one_of({"cpu", "cuda"}, "cuda:N", &tensor::is_cuda_name), shown});
  command.option("--threads", threads, "N",
                 "Threads to compute with; 0 = OMP_NUM_THREADS, or as many as the process may use, "
                 "and one for a small model",
                 {in(0, 4096)});
}

void MachineArguments::add(const Command& command) {
  add_place(command);
  command.flag("--force", is_forced, "Run even if the model may need more memory than is free");
}

FreeMemorySource MachineArguments::free_memory(c10::Device opened) const {
  if (is_forced) return nullptr;
  if (opened.is_cpu()) return [] { return mneme::free_memory(); };
  return [opened] { return tensor::free_device_memory(opened); };
}

void add_plugin_folders(const Command& command, std::vector<fs::path>& folders) {
  command.option(
      "--plugins", folders, "DIR",
      "Folder to look in, instead of the program's own plugins; may be given several times",
      {one_each});
}

std::vector<std::string> plugin_folders(const std::vector<fs::path>& given) {
  std::vector<std::string> folders;
  for (const fs::path& folder : given)
    folders.push_back(fs::absolute(folder).lexically_normal().string());
  if (!folders.empty()) return folders;
  const fs::path& folder = plugin::default_plugin_folder();
  std::error_code ignored;
  if (folder.empty() || !fs::is_directory(folder, ignored)) {
    throw_usage(
        {.where = "plugins",
         .failed = "no folder to look in",
         .expected = "a folder " + folder.string(),
         .got = "none",
         .hint = "name one with --plugins DIR; mneme doctor says what an installation lacks"});
  }
  return {folder.string()};
}

}  // namespace mneme::cli
