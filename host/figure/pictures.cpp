#include "host/figure/pictures.hpp"

#include <utility>

#include "host/base/error.hpp"
#include "host/base/process/child.hpp"
#include "host/base/text.hpp"

namespace mneme::figure {
namespace {

namespace fs = std::filesystem;

constexpr double kMostSeconds = 600.0;  // fonts are looked for at the first start

constexpr std::string_view kSpecification = ".vl.json";

// The format, then files: what is read and what is written, in turn.
constexpr const char* kPython =
    "import sys, vl_convert\n"
    "draw = {'svg': vl_convert.vegalite_to_svg, 'pdf': vl_convert.vegalite_to_pdf}[sys.argv[1]]\n"
    "for source, target in zip(sys.argv[2::2], sys.argv[3::2]):\n"
    "    with open(source, encoding='utf-8') as file: drawn = draw(file.read())\n"
    "    with open(target, 'wb') as file:\n"
    "        file.write(drawn if isinstance(drawn, bytes) else drawn.encode('utf-8'))\n";

// Looked for in PATH.
ChildResult run(std::vector<std::string> words) {
  return run_child({.launch = {.program = "/usr/bin/env", .arguments = std::move(words)},
                    .limits = {.seconds = kMostSeconds}});
}

fs::path picture_of(const fs::path& file, std::string_view format) {
  std::string name = file.filename().string();
  if (name.ends_with(kSpecification)) name.resize(name.size() - kSpecification.size());
  return file.parent_path() / str(name, '.', format);
}

[[noreturn]] void fail_drawing(const std::string& where, const ChildResult& result) {
  throw_run({.where = where,
             .failed = "vl-convert could not draw the figure",
             .expected = "exit status 0",
             .got = result.is_timed_out ? std::string("no end within ten minutes")
                                        : str("exit status ", result.exit_code, ": ",
                                              result.err.empty() ? result.out : result.err)});
}

}  // namespace

const std::vector<std::string>& picture_formats() {
  static const std::vector<std::string> kFormats = {"svg", "pdf"};
  return kFormats;
}

Drawer find_drawer() {
  if (run({"vl-convert", "--version"}).exit_code == 0) return Drawer::kProgram;
  if (run({"python3", "-c", "import vl_convert"}).exit_code == 0) return Drawer::kPython;
  throw_usage({.where = "--figures",
               .failed = "vl-convert, which draws pictures, is not installed",
               .expected = "the program vl-convert, or the package vl_convert of python3",
               .got = "neither",
               .hint = "python3 -m pip install vl-convert-python"});
}

std::vector<fs::path> draw_pictures(Drawer drawer, const std::vector<fs::path>& files,
                                    std::string_view format) {
  std::vector<fs::path> out;
  for (const fs::path& file : files) out.push_back(picture_of(file, format));
  if (drawer == Drawer::kProgram) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      const ChildResult drawn = run({"vl-convert", str("vl2", format), "--input", files[i].string(),
                                     "--output", out[i].string()});
      if (drawn.exit_code != 0) fail_drawing(files[i].string(), drawn);
    }
    return out;
  }
  std::vector<std::string> words = {"python3", "-c", kPython, std::string(format)};
  for (std::size_t i = 0; i < files.size(); ++i) {
    words.push_back(files[i].string());
    words.push_back(out[i].string());
  }
  const ChildResult drawn = run(std::move(words));
  if (drawn.exit_code != 0)
    fail_drawing(files.empty() ? "--figures" : files.front().parent_path().string(), drawn);
  return out;
}

}  // namespace mneme::figure
