// dqctl forget
#include <memory>

#include "commands.h"

namespace dqctl {
namespace {

using delayqueue::Counts;
using delayqueue::Remains;

// "3 pending, 1 dead"; empty if the queue has no messages.
std::string list_of(const Remains& remains) {
  std::string text;
  const auto add = [&](std::uint64_t count, const char* what) {
    if (count > 0) text += (text.empty() ? "" : ", ") + count_text(count) + ' ' + what;
  };
  add(remains.pending, "pending");
  add(remains.ready, "ready");
  add(remains.unack, "unack");
  add(remains.retry, "retry");
  add(remains.dead, "dead");
  return text;
}

// Why the queue cannot be forgotten, and what to do.
std::string reason_of(const Remains& remains, const std::string& queue) {
  if (remains.wrong_type) {
    return "one of its keys has a wrong type; " + command_text("doctor", {queue}) + " shows which";
  }
  if (remains.schedules > 0) {
    return "it has schedules (" + count_text(remains.schedules) + "), which make new messages; remove them first";
  }
  const std::string left = list_of(remains);
  if (!left.empty()) {
    return "it is not empty: " + left + "; wait until they are delivered (" + command_text("drain", {queue}) +
           "), or remove them with dqctl purge, and what is in unack with dqctl cancel";
  }
  if (remains.retries > 0) {
    return "it has messages that are in no state, or remains of them (" + count_text(remains.retries) + "); " +
           command_text("doctor", {queue}, "--repair --yes") + " repairs it";
  }
  return "a consumer waits for its messages; stop it, then run this again";
}

Exit forget(Context& context, const std::string& queue) {
  const Counts counts = context.counts(queue);
  const Remains remains = context.admin(queue).forget();
  if (!remains.none()) {
    throw Failure(Exit::failed, "cannot forget queue " + in_quotes(queue) + ": " + reason_of(remains, queue));
  }
  Output& out = context.out();
  if (out.is_table()) {
    out.line("forgot " + in_quotes(queue) + (counts.paused ? ", and its pause" : ""));
  } else {
    out.object(Object().add("queue", queue).add("forgotten", true).add("paused", counts.paused));
  }
  return Exit::done;
}

}  // namespace

void add_forget(Cli& cli, Context& context) {
  const auto queue = std::make_shared<std::string>();
  cli.add("forget",
          "Removes an empty queue from the list of queues, with its statistics and its pause. One that has messages or "
          "a waiting consumer is refused. The next send enters it again",
          {"forget orders"})
      .argument("QUEUE", *queue, "The queue")
      .run([&context, queue] { return forget(context, *queue); });
}

}  // namespace dqctl
