// dqctl version
#include <delayqueue/version.h>

#include "commands.h"

namespace dqctl {

void add_version(Cli& cli, Context& context) {
  cli.add("version", "Shows the version, which is that of the library, too", {"version -o json"}).run([&context] {
    Output& out = context.out();
    if (out.is_table()) {
      out.line(std::string("dqctl ") + delayqueue::version());
    } else {
      out.object(Object().add("version", delayqueue::version()));
    }
    return Exit::done;
  });
}

}  // namespace dqctl
