#include "serve/metrics.h"

#include <utility>

#include "row_error.h"

namespace dqctl {
namespace {

// A value of a label: backslashes, quotes and line breaks escaped, and bytes that are not UTF-8 as \xNN.
std::string label(const std::string& value) {
  std::string out;
  for (const char c : is_utf8(value) ? value : printable(value)) {
    out += c == '\\' ? "\\\\" : c == '"' ? "\\\"" : c == '\n' ? "\\n" : std::string(1, c);
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
