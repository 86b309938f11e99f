// All commands. Each function adds one to the command line. Commands are in commands/<name>.cc, or in the file of
// their group.
#pragma once

#include "cli.h"
#include "context.h"

namespace dqctl {

struct ServeOptions;

// Adds all commands, in the order of the help.
void add_commands(Cli& cli, Context& context);

// Adds --partition, for commands that can concern one partition of a queue.
void add_partition(Command& command, Context& context);

// Adds the options that say who may use an HTTP server: --token-file, --host, --https-cert, --https-key and
// --https-client-ca.
Command& add_access(Command& command, ServeOptions& options);

// The error of a dqctl without cpp-httplib for something that needs it.
Failure built_without_http(const std::string& what);

void add_actions(Cli& cli, Context& context);
void add_bury(Cli& cli, Context& context);
void add_cancel(Cli& cli, Context& context);
void add_complete(Cli& cli, Context& context);
void add_completion(Cli& cli, Context& context);
void add_doctor(Cli& cli, Context& context);
void add_drain(Cli& cli, Context& context);
void add_events(Cli& cli, Context& context);
void add_export(Cli& cli, Context& context);
void add_extend(Cli& cli, Context& context);
void add_import(Cli& cli, Context& context);
void add_find(Cli& cli, Context& context);
void add_forget(Cli& cli, Context& context);
void add_limit(Cli& cli, Context& context);
void add_ls(Cli& cli, Context& context);
void add_man(Cli& cli, Context& context);
void add_metrics(Cli& cli, Context& context);
void add_partitions(Cli& cli, Context& context);
void add_pause(Cli& cli, Context& context);
void add_purge(Cli& cli, Context& context);
void add_queues(Cli& cli, Context& context);
void add_reasons(Cli& cli, Context& context);
void add_redrive(Cli& cli, Context& context);
void add_release(Cli& cli, Context& context);
void add_reschedule(Cli& cli, Context& context);
void add_resume(Cli& cli, Context& context);
void add_schedule(Cli& cli, Context& context);
void add_scripts(Cli& cli, Context& context);
void add_send(Cli& cli, Context& context);
void add_serve(Cli& cli, Context& context);
void add_show(Cli& cli, Context& context);
void add_stats(Cli& cli, Context& context);
void add_stuck(Cli& cli, Context& context);
void add_top(Cli& cli, Context& context);
void add_version(Cli& cli, Context& context);
void add_work(Cli& cli, Context& context);
void add_workers(Cli& cli, Context& context);

}  // namespace dqctl
