#include "commands.h"

namespace dqctl {

void add_partition(Command& command, Context& context) {
  command.custom(
      "--partition",
      [&context](const std::string& value) {
        context.options.partition = static_cast<unsigned>(parse_number("--partition", value, 0, 255));
      },
      "N", "Only this partition of the queue; dqctl partitions shows them");
}

void add_commands(Cli& cli, Context& context) {
  // Commands that read.
  add_queues(cli, context);
  add_stats(cli, context);
  add_ls(cli, context);
  add_show(cli, context);
  add_find(cli, context);
  add_reasons(cli, context);
  add_stuck(cli, context);
  add_workers(cli, context);
  add_top(cli, context);
  add_events(cli, context);
  add_metrics(cli, context);
  add_doctor(cli, context);
  add_partitions(cli, context);
  add_actions(cli, context);
  add_serve(cli, context);
  // Commands that act.
  add_send(cli, context);
  add_work(cli, context);
  add_cancel(cli, context);
  add_reschedule(cli, context);
  add_release(cli, context);
  add_bury(cli, context);
  add_extend(cli, context);
  add_redrive(cli, context);
  add_purge(cli, context);
  add_pause(cli, context);
  add_resume(cli, context);
  add_drain(cli, context);
  add_limit(cli, context);
  add_schedule(cli, context);
  add_forget(cli, context);
  add_export(cli, context);
  add_import(cli, context);
  add_scripts(cli, context);
  // Commands about dqctl itself.
  add_completion(cli, context);
  add_complete(cli, context);
  add_man(cli, context);
  add_version(cli, context);
}

}  // namespace dqctl
