// Folders of plugins to begin with, made of the files of sdk/template.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "host/cli/streams.hpp"

namespace mneme::cli {

using ProjectFiles = std::map<std::string, std::string>;  // texts by paths in the project

// Errors (kUsage) that name `where`: a name or an id that a plugin cannot have. The id is checked as
// the loader takes it, "org.example.my_memory".
void check_plugin_name(const std::string& name, const std::string& where);
void check_plugin_id(const std::string& id, const std::string& where);

// The files of these folders of sdk/template, of the later folder where several have one, for a
// plugin of this name and id.
[[nodiscard]] ProjectFiles template_files(const std::vector<std::string>& folders,
                                          const std::string& name, const std::string& id);

// Error (kUsage) where the folder is there and not empty.
void check_project_folder(const std::filesystem::path& folder);
// Writes the files and prints their paths. Error (kRun) for a folder that cannot be made, and for a
// file that cannot be written, as on a full disk: then nothing of the project is left.
void write_project(const std::filesystem::path& folder, const ProjectFiles& files,
                   const Streams& streams);

// "cmake -B build -DCMAKE_PREFIX_PATH=PREFIX && cmake --build build" with the prefix of this
// program's installation, and a line that says what PREFIX is where its SDK is not there.
[[nodiscard]] std::string build_command();
[[nodiscard]] std::string sdk_hint();

}  // namespace mneme::cli
