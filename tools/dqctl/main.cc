// dqctl: looks into queues, and mends them.
#include <delayqueue/error.h>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include "commands.h"
#include "signals.h"
#include "text.h"

namespace dqctl {
namespace {

constexpr int kClosedOutput = 141;  // as if SIGPIPE had ended it

Exit run(int argc, char** argv, Context& context) {
  Cli cli(context.options);
  add_commands(cli, context);
  const std::function<Exit()> command = cli.parse(argc, argv);
  context.settle();
  const Exit code = command();
  context.out().flush();
  return code;
}

// What to do about a refusal that has to do with dqctl's own options.
std::string advised(const std::string& refusal) {
  for (const char* word : {"NOAUTH", "WRONGPASS", "invalid username-password", "invalid password"}) {
    if (refusal.find(word) == std::string::npos) continue;
    return refusal + "; dqctl takes the password from DELAYQUEUE_PASSWORD or a --password-file, the user from --user";
  }
  if (refusal.find("WRONGTYPE") != std::string::npos) {
    return refusal + "; something else uses a key of this queue: dqctl doctor QUEUE says which";
  }
  return refusal;
}

int complain(Context& context, const std::string& what, Exit code) {
  try {
    context.out().flush();
  } catch (...) {  // the first failure is the one to tell
  }
  std::fprintf(stderr, "dqctl: %s\n", printable(what).c_str());
  return static_cast<int>(code);
}

int guarded(int argc, char** argv) {
  Context context;
  try {
    return static_cast<int>(run(argc, argv, context));
  } catch (const ClosedOutput&) {
    return kClosedOutput;
  } catch (const Failure& failure) {
    return complain(context, failure.what(), failure.code());
  } catch (const delayqueue::ConnectionError& error) {
    return complain(context, error.what(), Exit::failed);
  } catch (const delayqueue::ReplyError& error) {
    return complain(context, advised(error.what()), Exit::failed);
  } catch (const std::invalid_argument& error) {
    return complain(context, error.what(), Exit::usage);
  } catch (const std::exception& error) {
    return complain(context, error.what(), Exit::failed);
  }
}

}  // namespace
}  // namespace dqctl

int main(int argc, char** argv) {
  dqctl::watch_signals();
  return dqctl::guarded(argc, argv);
}
