// mneme man: the manual page mneme(1), made of the program's definitions.
#include "host/cli/man/man.hpp"

#include <array>
#include <cctype>
#include <memory>

#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
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
  return text + man_bold(program.name) + " " + man_bold("--help") + " | " + man_bold("--version") +
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

std::string man_entries(const std::string& section, const std::vector<ManEntry>& list) {
  std::string text = ".SH " + roff(section) + '\n';
  for (const ManEntry& one : list) {
    text += ".TP\n" + man_bold(std::string(one.name)) + '\n' + man_paragraph(std::string(one.text));
  }
  return text;
}

// The page for man(1): requests of man(7), UTF-8, the same for the same program.
std::string man_page(const CommandDefinition& program, const Manual& manual) {
  std::string title = program.name;
  for (char& letter : title) letter = static_cast<char>(std::toupper(letter));
  return str(".\\\" Made by: ", program.name, " man\n.TH ", roff(title), " 1 \"\" \"",
             roff(str(program.name, ' ', MNEME_SDK_VERSION)),
             "\" \"User Commands\"\n.nh\n.ad l\n.SH NAME\n", roff(program.name), " \\- ",
             roff(std::string(manual.summary)), '\n', man_synopsis(program), ".SH DESCRIPTION\n",
             roff(program.help), "\n", man_commands(program),
             man_entries("EXIT STATUS", manual.exit_status),
             man_entries("ENVIRONMENT", manual.environment), man_entries("FILES", manual.files),
             man_examples(program), ".SH SEE ALSO\n", roff(std::string(manual.see_also)), "; ",
             man_bold(program.name), " COMMAND ", man_bold("--help"), ".\n");
}

struct ManArguments {
  Command program;
  const Manual& manual;
};

int print_man_page(const ManArguments& arguments, const Streams& streams) {
  streams.out << man_page(arguments.program.definition(), arguments.manual);
  return 0;
}

}  // namespace

void add_man(const Command& app, const Manual& manual) {
  const std::string name = app.definition().name;
  const Command command =
      app.subcommand("man", str("Print the manual page ", name, "(1), which an installation has"));
  command.examples(
      {str(name, " man | man -l -"), str(name, " man > /usr/local/share/man/man1/", name, ".1")});
  command.runs(std::make_shared<ManArguments>(ManArguments{app, manual}), &print_man_page);
}

}  // namespace mneme::cli
