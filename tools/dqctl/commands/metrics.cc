// dqctl metrics
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "commands.h"
#include "queue_metrics.h"
#include "serve/serve.h"
#include "signals.h"

namespace dqctl {
namespace {

struct MetricsArgs {
  std::vector<std::string> queues{};
  std::optional<std::string> listen{};  // unset: the page is printed
  ServeOptions options{};
};

Exit print_metrics(Context& context, const std::vector<std::string>& queues) {
  context.out().require_open();
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

Exit metrics(Context& context, const MetricsArgs& args) {
  if (!context.out().is_table()) throw Usage("-o: metrics are text for Prometheus; expected dqctl stats -o json");
  ServeOptions options = args.options;
  if (args.listen) {
#ifdef DQCTL_SERVE
    options.listen = *args.listen;
    options.command = "metrics";
    return serve_metrics(context, options, args.queues);
#else
    throw built_without_http("metrics --listen");
#endif
  }
  const bool has_access = options.token_file || !options.hosts.empty() || !options.cert.empty() ||
                          !options.key.empty() || !options.client_ca.empty();
  if (has_access) throw Usage("--token-file, --host and --https-...: expected --listen HOST:PORT, too");
  return print_metrics(context, args.queues);
}

}  // namespace

void add_metrics(Cli& cli, Context& context) {
  const auto args = std::make_shared<MetricsArgs>();
  Command& command = cli.add("metrics", "Prints what is in queues as metrics for Prometheus, or serves them over HTTP",
                             {"metrics", "metrics orders mails", "metrics > /var/lib/node_exporter/delayqueue.prom",
                              "metrics --listen 127.0.0.1:9481"});
  command.arguments("QUEUE", args->queues, "Names; without one: all queues", false)
      .text("--listen", args->listen, "HOST:PORT",
            "Serve them at /metrics, and /healthz, until a signal; a numeric address");
  add_access(command, args->options).silent().run([&context, args] { return metrics(context, *args); });
}

}  // namespace dqctl
