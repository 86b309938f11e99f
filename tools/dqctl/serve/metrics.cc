#include "serve/metrics.h"

#include <utility>

#include "row_error.h"

namespace dqctl {
namespace {

// A value of a label: one line that is safe on a terminal, with backslashes and quotes escaped.
std::string label(const std::string& value) {
  std::string out;
  for (const char c : printable(value)) {
    out += (c == '\\' || c == '"' ? "\\" : "") + std::string(1, c);
  }
  return out;
}

}  // namespace

std::string metrics_text(Context& context) {
  std::string text =
      "# HELP delayqueue_messages Messages of a queue by state.\n"
      "# TYPE delayqueue_messages gauge\n";
  for (const std::string& queue : context.inspector("queues").queues()) {
    delayqueue::Counts counts;
    if (read_row(context, [&] { counts = context.inspector(queue).counts(); })) continue;
    const std::pair<const char*, std::uint64_t> states[] = {{"pending", counts.pending},
                                                            {"ready", counts.ready},
                                                            {"unack", counts.unack},
                                                            {"retry", counts.retry},
                                                            {"dead", counts.dead}};
    for (const auto& [state, count] : states) {
      text +=
          "delayqueue_messages{queue=\"" + label(queue) + "\",state=\"" + state + "\"} " + std::to_string(count) + '\n';
    }
  }
  return text;
}

}  // namespace dqctl
