// dqctl man, hidden: writes the man page from the definition of the command line.
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>

#include "commands.h"
#include "own_file.h"

namespace dqctl {
namespace {

struct ManArgs {
  std::string file{};
};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else {
      out += c;
    }
  }
  return !out.empty() && out.front() == '.' ? "\\&" + out : out;
}

std::string option_text(const OptionInfo& option) {
  std::string out = ".TP\n";
  for (std::size_t i = 0; i < option.names.size(); ++i) {
    out += (i == 0 ? "" : ", ") + ("\\fB" + escaped(option.names[i]) + "\\fR");
  }
  if (!option.value.empty() && !option.argument) out += " \\fI" + escaped(option.value) + "\\fR";
  return out + (option.required && !option.argument ? " (must be given)" : "") + "\n" + escaped(option.what) + ".\n";
}

std::string synopsis(const CommandInfo& command) {
  std::string out = "\\fBdqctl " + escaped(command.name) + "\\fR";
  for (const OptionInfo& option : command.options) {
    if (option.argument)
      out += option.required ? " \\fI" + escaped(option.names.front()) + "\\fR"
                             : " [\\fI" + escaped(option.names.front()) + "\\fR]";
  }
  return out + " [\\fIoptions\\fR]";
}

std::string section_of(const CommandInfo& command) {
  std::string out = ".SS " + synopsis(command) + "\n" + escaped(command.what) + ".\n";
  for (const OptionInfo& option : command.options) out += option_text(option);
  out += ".PP\nFor example:\n.PP\n.nf\n";
  for (const std::string& example : command.examples) out += ".RS 4\ndqctl " + escaped(example) + "\n.RE\n";
  return out + ".fi\n";
}

constexpr const char* kHead = R"man(.SH NAME
dqctl \- shows the queues of delayqueue, acts on them and repairs them
.SH SYNOPSIS
\fBdqctl\fR [\fIoptions\fR] \fIcommand\fR [\fIarguments\fR]
.SH DESCRIPTION
Data goes to standard output, all other text to standard error.
A command that changes more than the messages named is a dry run without
\fB\-\-yes\fR.
Control characters in payloads, reasons and names are shown escaped, so that no
payload can control the terminal.
.PP
A password is never given as an argument: put the URL with its password into
\fBDELAYQUEUE_URI\fR, or the password into \fBDELAYQUEUE_PASSWORD\fR or the first
line of a \fB\-\-password\-file\fR.
.PP
Durations are written 250ms, 10s, 5m, 2h, 3d, 1w or 1h30m; points in time
2026\-11\-21T19:36:45Z (or with an offset), or +10m.
A GLOB must match the whole text: * stands for any bytes, ? for one byte, and \e
makes the next byte literal.
)man";

constexpr const char* kTail = R"man(.SH OUTPUT
\fB\-o table\fR is for people, and may change. \fB\-o json\fR writes one document,
\fB\-o ndjson\fR one line for each element; their fields are stable, and described in
tools/dqctl/README.md of the sources. Times are RFC 3339 in UTC with milliseconds.
Text that is not UTF\-8 is in a field whose name ends in _base64 instead.
.SH EXIT STATUS
.TP
.B 0
done
.TP
.B 1
failed: the server was unreachable or refused, or no queue could be read
.TP
.B 2
wrong usage
.TP
.B 3
not found: no such queue, or none of the messages named; \fBfind\fR found
nothing
.TP
.B 4
partly done: some messages were not there or refused, some queues or servers
could not be read, or it was interrupted
.TP
.B 5
threshold passed: \fBstuck\fR found something, \fBdoctor\fR a risk or damage,
\fBscripts list\fR a script missing; \fBdrain\fR took longer than its
\fB\-\-timeout\fR
.TP
.B 6
\fBwork\fR ended before Redis had taken the verdicts of all finished commands:
their messages are delivered again
.TP
.B 130
interrupted before anything was done
.TP
.B 141
the reader of standard output has gone (| head)
.SH ENVIRONMENT
.TP
.B DELAYQUEUE_URI
the server, if \fB\-\-uri\fR is not given
.TP
.B DELAYQUEUE_PASSWORD
the password, if \fB\-\-password\-file\fR is not given
.TP
.BR DELAYQUEUE_SENTINEL_USER ", " DELAYQUEUE_SENTINEL_PASSWORD
for the Sentinels of a redis+sentinel URL
.TP
.B DQCTL_AUDIT
1: as \fB\-\-audit\fR; 0: not
.TP
.B NO_COLOR
if set and not empty: no colours
)man";

Exit write_page(const Cli& cli, Context& context, const std::string& file) {
  std::string page = ".\\\" Made by dqctl itself.\n.TH DQCTL 1 \"\" \"delayqueue " DQCTL_VERSION "\"\n";
  page += kHead;
  page += ".SH OPTIONS OF ALL COMMANDS\nMay stand before the command or behind it.\n";
  for (const OptionInfo& option : cli.global_options()) page += option_text(option);
  page += ".SH COMMANDS\n";
  for (const CommandInfo& command : cli.commands()) page += section_of(command);
  page += kTail;
  if (file.empty()) {
    context.out().require_open();
    context.out().write(page);
    return Exit::done;
  }
  const Fd fd = open_own_file("--file", file, IfExists::replace);
  for (std::string_view rest = page; !rest.empty();) {
    const auto n = ::write(fd.get(), rest.data(), rest.size());
    if (n <= 0) throw Failure(Exit::failed, "--file: " + in_quotes(file) + " cannot be written");
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  ::fchmod(fd.get(), S_IRUSR | S_IWUSR | S_IRGRP | S_IROTH);
  return Exit::done;
}

}  // namespace

void add_man(Cli& cli, Context& context) {
  const auto args = std::make_shared<ManArgs>();
  cli.add("man", "Writes the man page", {"man | man -l -"}, true)
      .text("--file", args->file, "FILE", "Where to (standard output)")
      .silent()
      .run([&cli, &context, args] { return write_page(cli, context, args->file); });
}

}  // namespace dqctl
