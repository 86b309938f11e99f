// dqctl metrics
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "queue_metrics.h"
#include "signals.h"

namespace dqctl {
namespace {

Exit metrics(Context& context, const std::vector<std::string>& queues) {
  if (!context.out().is_table()) throw Usage("-o: metrics are text for Prometheus; expected dqctl stats -o json");
  const MetricsPage page = read_metrics(context, queues);
  if (interrupted()) return Exit::interrupted;  // a page without some of the queues would look as if they were gone
  context.out().write(page.text);
  context.out().flush();
  for (const std::string& error : page.errors) context.out().stderr_line("dqctl: " + error);
  if (page.text.empty()) {
    context.out().stderr_line("no queue is at " + context.shown_uri() + " (prefix " +
                              in_quotes(context.options.prefix) + ")");
  }
  return page.rows.code();
}

}  // namespace

void add_metrics(Cli& cli, Context& context) {
  const auto queues = std::make_shared<std::vector<std::string>>();
  cli.add("metrics", "Prints what is in queues as metrics for Prometheus",
          {"metrics", "metrics orders mails", "metrics > /var/lib/node_exporter/delayqueue.prom"})
      .arguments("QUEUE", *queues, "Names; without one: all queues", false)
      .run([&context, queues] { return metrics(context, *queues); });
}

}  // namespace dqctl
