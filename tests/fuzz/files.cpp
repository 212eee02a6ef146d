#include "tests/fuzz/files.hpp"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "host/base/text.hpp"

namespace mneme::fuzz {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMark = "==> ";
constexpr std::string_view kRepaired = "repaired";

// In memory where the system has such a place and TMPDIR names no other: what is written back is
// synced to the disk, which would take most of the time.
fs::path make_folder() {
  const fs::path memory = "/dev/shm";
  const bool is_free = std::getenv("TMPDIR") == nullptr && ::access(memory.c_str(), W_OK) == 0;
  std::string name = (is_free ? memory : fs::temp_directory_path()) / "mneme-fuzz-XXXXXX";
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder can be made: " + name);
  return name;
}

// Made when it is first asked for.
const fs::path& work_folder() {
  static const fs::path folder = make_folder();
  return folder;
}

}  // namespace

Files Files::of(std::string_view input, const std::string& first) {
  Files files;
  std::string name = first;
  std::string_view rest = input;
  while (true) {
    const bool is_line = !rest.starts_with(kMark);  // the mark follows a line end
    const std::size_t mark = is_line ? rest.find(str('\n', kMark)) : 0;
    const std::string_view text = rest.substr(0, mark);
    if (name != first || !text.empty()) files.texts[name] = text;
    if (mark == rest.npos) break;
    rest.remove_prefix(mark + kMark.size() + (is_line ? 1 : 0));
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    name = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  files.is_repaired = files.texts.erase(std::string(kRepaired)) > 0;
  return files;
}

std::string Files::text() const {
  std::string out = is_repaired ? str(kMark, kRepaired, '\n') : "";
  for (const auto& [name, text] : texts) {
    out += str(out.empty() ? "" : "\n", kMark, name, '\n', text);
  }
  return out;
}

const fs::path& empty_folder() {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(work_folder(), ignored)) {
    fs::remove_all(entry.path(), ignored);
  }
  return work_folder();
}

void remove_folder() {
  std::error_code ignored;
  fs::remove_all(work_folder(), ignored);
}

void write_files(const fs::path& folder, const Files& files,
                 std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const auto found = files.texts.find(std::string(name));
    if (found == files.texts.end()) continue;
    const fs::path file = folder / name;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << found->second;
  }
}

fs::path write_alone(std::string_view name, std::string_view text) {
  const fs::path file = empty_folder() / name;
  std::ofstream(file, std::ios::binary) << text;
  return file;
}

std::string bytes_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace mneme::fuzz
