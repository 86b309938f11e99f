// dqctl: shows, changes and repairs queues.
#include <delayqueue/error.h>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "audit.h"
#include "commands.h"
#include "output/text.h"
#include "row_error.h"
#include "signals.h"
#include "standard_streams.h"

namespace dqctl {
namespace {

constexpr int kClosedOutput = 141;  // as if SIGPIPE had ended the process

// The output format in the arguments. Used for errors in the arguments themselves.
std::string format_in(int argc, char** argv) {
  std::string format = "table";
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") break;
    if ((word == "-o" || word == "--output") && i + 1 < argc) format = argv[++i];
    for (const std::string_view option : {"--output=", "-o="}) {
      if (word.substr(0, option.size()) == option) format = word.substr(option.size());
    }
    if (word == "-ojson" || word == "-ondjson") format = word.substr(2);
  }
  return format;
}

// Runs the command, and records what it has changed: also if it fails after that.
Exit run_recorded(const std::function<Exit()>& command, const std::vector<std::string>& words, Context& context) {
  Exit code = Exit::failed;
  try {
    code = command();
  } catch (...) {
    record_changes(context, words, "partly");
    throw;
  }
  record_changes(context, words, code == Exit::done || code == Exit::threshold ? "done" : "partly");
  return code;
}

Exit run(int argc, char** argv, Context& context) {
  Cli cli(context.options);
  add_commands(cli, context);
  context.set_output(format_in(argc, argv));
  const std::function<Exit()> command = cli.parse(argc, argv);
  context.resolve_options();
  if (cli.prints()) context.out().require_open();
  const Exit code = run_recorded(command, {argv + 1, argv + argc}, context);
  const bool no_document = code == Exit::interrupted && context.out().format() == Format::json;
  if (no_document) context.out().fail("interrupted before anything was done");
  context.out().complete();
  context.out().flush();
  return code;
}

int report_error(Context& context, const std::string& what, Exit code) {
  try {
    context.out().fail(printable(what));
    context.out().flush();
  } catch (...) {  // the first failure is reported
  }
  std::fprintf(stderr, "dqctl: %s\n", printable(what).c_str());
  return static_cast<int>(code);
}

int run_guarded(int argc, char** argv) {
  Context context;
  try {
    return static_cast<int>(run(argc, argv, context));
  } catch (const ClosedOutput&) {
    return kClosedOutput;
  } catch (const Failure& failure) {
    return report_error(context, failure.what(), failure.code());
  } catch (const delayqueue::ConnectionError& error) {
    return report_error(context, error.what(), Exit::failed);
  } catch (const delayqueue::ReplyError& error) {
    return report_error(context, advised(error.what()), Exit::failed);
  } catch (const std::invalid_argument& error) {
    return report_error(context, error.what(), Exit::usage);
  } catch (const std::exception& error) {
    return report_error(context, error.what(), Exit::failed);
  }
}

}  // namespace
}  // namespace dqctl

int main(int argc, char** argv) {
  dqctl::open_standard_streams();
  dqctl::watch_signals();
  return dqctl::run_guarded(argc, argv);
}
