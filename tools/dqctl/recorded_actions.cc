#include "recorded_actions.h"

#include <algorithm>
#include <utility>

#include "signals.h"

namespace dqctl {

Object action_object(const ActionRow& row) {
  const delayqueue::Action& action = row.action;
  Object object;
  object.add("queue", row.queue).add("at", action.at);
  action.at ? object.add("who", action.who) : object.add_null("who");
  object.add("messages", action.messages);
  action.at ? object.add("outcome", action.outcome) : object.add_null("outcome");
  return object.add("what", action.what);
}

void sort_by_time(std::vector<ActionRow>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [](const ActionRow& a, const ActionRow& b) {
    if (a.action.at && b.action.at) return *a.action.at > *b.action.at;
    return a.action.at.has_value() && !b.action.at.has_value();
  });
}

ActionReading read_actions(Context& context, const std::vector<std::string>& queues) {
  ActionReading reading;
  for (const std::string& queue : queues) {
    if (interrupted()) break;
    const auto error = read_row(context, [&] {
      for (delayqueue::Action& action : context.inspector(queue).actions())
        reading.rows.push_back({queue, std::move(action)});
    });
    reading.errors.add(error);
    if (error) reading.error_lines.push_back(in_quotes(queue) + ": " + printable(error->text));
  }
  sort_by_time(reading.rows);
  return reading;
}

}  // namespace dqctl
