// mneme man: the manual page mneme(1), made of the program's definitions.
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/cli/cli.hpp"
#include "host/cli/streams.hpp"
#include "mneme/abi.h"

namespace mneme::cli {
namespace {

// Text between requests: a hyphen stays one that can be copied into a command line, a backslash is
// itself, and a line that begins with a dot or an apostrophe is no request.
std::string roff(const std::string& text) {
  constexpr std::string_view kSpecial = "-\\'~^`";
  constexpr std::array kEscapes = {"\\-", "\\e", "\\(aq", "\\(ti", "\\(ha", "\\(ga"};
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool begins_line = i == 0 || text[i - 1] == '\n';
    if (begins_line && (c == '.' || c == '\'')) out += "\\&";
    const std::size_t place = kSpecial.find(c);
    out += place == kSpecial.npos ? std::string(1, c) : kEscapes[place];
  }
  return out;
}

std::string man_bold(const std::string& text) { return "\\fB" + roff(text) + "\\fR"; }
std::string man_italic(const std::string& text) { return "\\fI" + roff(text) + "\\fR"; }

// "--memory FILE..." with the name in bold and the value in italics.
std::string man_heading(const OptionDefinition& option) {
  using Values = OptionDefinition::Values;
  std::vector<std::string> names;
  for (const std::string& name : option.names) {
    names.push_back(option.is_positional() ? man_italic(name) : man_bold(name));
  }
  std::string text = join(names, ", ");
  if (!option.is_positional() && option.values != Values::kNone) {
    const std::string value = man_italic(option.type);
    text += ' ' + (option.values == Values::kOptional ? '[' + value + ']' : value);
  }
  return option.values == Values::kMany ? text + " ..." : text;
}

// A sentence in lines of a readable source.
std::string man_paragraph(const std::string& text) {
  const std::string stop = text.ends_with('.') ? "" : ".";
  return roff(join(wrap_text(text + stop, 72), "\n")) + '\n';
}

std::string man_options(const CommandDefinition& command) {
  std::string text;
  for (const OptionDefinition& one : command.options) {
    const bool is_everywhere = one.names.back() == "--help" || one.names.back() == "--version";
    if (is_everywhere) continue;
    text += ".TP\n" + man_heading(one) + '\n' + man_paragraph(one.full_help());
  }
  return text;
}

std::string man_synopsis(const CommandDefinition& program) {
  std::string text = ".SH SYNOPSIS\n.nf\n";
  for_each_command(program, [&](const std::string& path, const CommandDefinition& command) {
    if (command.needs_command) return;
    const std::string usage = command.usage();  // "[EXP] [OPTIONS]"
    text += man_bold(path) + (usage.empty() ? "" : ' ' + roff(usage)) + '\n';
  });
  return text + man_bold("mneme") + " " + man_bold("--help") + " | " + man_bold("--version") +
         "\n.fi\n";
}

std::string man_commands(const CommandDefinition& program) {
  std::string text = ".SH COMMANDS\nEvery command has " + man_bold("--help") +
                     ", which prints what stands here about it.\n";
  for_each_command(program, [&](const std::string& path, const CommandDefinition& command) {
    if (command.needs_command) return;
    text +=
        ".SS " + roff('"' + path + '"') + '\n' + man_paragraph(command.help) + man_options(command);
  });
  return text;
}

std::string man_examples(const CommandDefinition& program) {
  std::string text = ".SH EXAMPLES\n", gap;
  for (const CommandDefinition& command : program.commands) {
    if (command.examples.empty()) continue;
    text += gap + roff(command.help) + ":\n.PP\n.RS 4\n.nf\n";
    for (const std::string& line : command.examples) text += roff(line) + '\n';
    text += ".fi\n.RE\n";
    gap = ".PP\n";
  }
  return text;
}

struct ManEntry {
  std::string_view name;
  std::string_view text;
};

std::string man_entries(const std::string& section, const std::vector<ManEntry>& list) {
  std::string text = ".SH " + roff(section) + '\n';
  for (const ManEntry& one : list) {
    text += ".TP\n" + man_bold(std::string(one.name)) + '\n' + man_paragraph(std::string(one.text));
  }
  return text;
}

const std::vector<ManEntry> kExitStatus = {
    {"0", "The command has done what it was asked for."},
    {"1", "The run failed: a file could not be written, a loss is not finite, memory ran out."},
    {"2", "Wrong use, or a configuration or an input file that is wrong."},
    {"3", "A plugin could not be loaded, or one of its functions failed."},
    {"4", "The device that was asked for is not there or failed."},
    {"128 + N",
     "The signal N stopped the command, which saved what it had: 130 after Ctrl-C (SIGINT), 143 "
     "after SIGTERM, 129 after SIGHUP. A command that has nothing to save ends by the signal "
     "itself, which a shell reports with the same number. eval --watch, generate --chat "
     "between two turns and serve between two requests end with 0: there Ctrl-C is the end."}};

const std::vector<ManEntry> kEnvironment = {
    {"COLUMNS", "Columns that tables and paragraphs take; else the terminal's, else 80."},
    {"GOMP_SPINCOUNT, OMP_WAIT_POLICY",
     "How long threads look for work before they sleep. Without either, that is short while other "
     "programs want the cores, and long otherwise."},
    {"NO_COLOR",
     "Set and not empty: no colours on the terminal. Into pipes and files there are none in any "
     "case."},
    {"OMP_NUM_THREADS", "Threads to compute with where --threads is not given."},
    {"TMPDIR", "Folder for temporary files, instead of /tmp."}};

const std::vector<ManEntry> kManFiles = {
    {"EXP.toml",
     "An experiment: model, data, training, evaluation. \"mneme config keys\" lists its keys."},
    {"memory files",
     "TOML files with the table [memory] alone; --memory puts one in place of the experiment's."},
    {"runs/<name>",
     "The folder of a run: the resolved experiment, versions and checksums, metrics, log, "
     "checkpoints, evaluations."},
    {"../lib/mneme/plugins", "The memories that come with the program, seen from its own folder."},
    {"../share/mneme/configs", "Experiments and memory files to begin with."},
    {"../share/doc/mneme",
     "The documentation: docs/training.md, evaluation.md, compare.md, analysis.md, runs.md, "
     "configuration.md and others."}};

// The page for man(1): requests of man(7), UTF-8, the same for the same program.
std::string man_page(const CommandDefinition& program) {
  return str(
      ".\\\" Made by: mneme man\n.TH MNEME 1 \"\" \"", roff(str("mneme ", MNEME_SDK_VERSION)),
      "\" \"User Commands\"\n.nh\n.ad l\n.SH NAME\nmneme \\- runtime for transformer memory\n",
      man_synopsis(program), ".SH DESCRIPTION\n", roff(program.help), "\n", man_commands(program),
      man_entries("EXIT STATUS", kExitStatus), man_entries("ENVIRONMENT", kEnvironment),
      man_entries("FILES", kManFiles), man_examples(program),
      ".SH SEE ALSO\nREADME.md and the folder docs/ of the documentation, see FILES; ",
      man_bold("mneme"), " COMMAND ", man_bold("--help"), ".\n");
}

struct ManArguments {
  Command program;
};

int print_man_page(const ManArguments& arguments, const Streams& streams) {
  streams.out << man_page(arguments.program.definition());
  return 0;
}

}  // namespace

void add_man(const Command& app) {
  const Command command =
      app.subcommand("man", "Print the manual page mneme(1), which an installation has");
  command.examples({"mneme man | man -l -", "mneme man > /usr/local/share/man/man1/mneme.1"});
  command.runs(std::make_shared<ManArguments>(ManArguments{app}), &print_man_page);
}

}  // namespace mneme::cli
