#include "serve/serve.h"

#include <delayqueue/error.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "serve/routes.h"
#include "signals.h"

namespace dqctl {
namespace {

constexpr milliseconds kLongestEnd{300};  // for answers that are being made when a signal arrives

struct ServeAddress {
  std::optional<ListenAddress> tcp{};  // unset: a socket of a path
};

ServeAddress check_options(const ServeOptions& options) {
  if (options.cert.empty() != options.key.empty()) throw Usage("--https-cert and --https-key: expected both, or none");
  if (!options.client_ca.empty() && options.cert.empty()) {
    throw Usage("--https-client-ca: needs TLS; expected --https-cert and --https-key, too");
  }
  ServeAddress address;
  if (options.socket) return address;
  address.tcp = parse_listen(options.listen);
  if (!address.tcp->is_loopback && !options.token_file && options.client_ca.empty()) {
    throw Usage(
        "--listen: " + in_quotes(options.listen) +
        "; everybody who reaches this address could read the queues; expected --token-file FILE, or "
        "--https-cert, --https-key and --https-client-ca, or an address of this machine such as 127.0.0.1:9480");
  }
  return address;
}

AccessOptions access_options(const ServeOptions& options, const ServeAddress& address) {
  AccessOptions access;
  for (const std::string& host : options.hosts) {
    try {
      access.hosts.push_back(parse_host(host));
    } catch (const HttpError&) {
      throw Usage("--host: " + cut(in_quotes(host), 60) + "; expected the name in the address of the page");
    }
  }
  if (address.tcp) access.hosts.push_back(address.tcp->host);
  if (options.token_file) access.token = read_token(*options.token_file);
  access.allow_changes = options.allow_changes;
  access.user_field = in_lower_case(options.user_field);
  if (!access.user_field.empty() && !is_other_field(access.user_field)) {
    throw Usage("--user-header: " + cut(in_quotes(options.user_field), 60) +
                "; expected the name of a header that has no other use, such as X-Forwarded-User");
  }
  return access;
}

void note(const ServeOptions& options, const std::string& text) {
  std::fprintf(stderr, "dqctl %s: %s\n", options.command, text.c_str());
}

// The socket, and who may use it.
struct Endpoint {
  // Throws Usage.
  explicit Endpoint(const ServeOptions& options)
      : address(check_options(options)), access(access_options(options, address)) {
    if (!options.cert.empty()) tls = std::make_unique<TlsContext>(options.cert, options.key, options.client_ca);
    listener = address.tcp ? std::make_unique<Listener>(*address.tcp) : std::make_unique<Listener>(*options.socket);
  }

  const ServeAddress address;
  const Access access;
  std::unique_ptr<TlsContext> tls{};
  std::unique_ptr<Listener> listener{};
};

// path: what clients open first. rest: what else they should know.
void announce(const ServeOptions& options, const Endpoint& endpoint, const std::string& path, const std::string& rest) {
  const auto& tcp = endpoint.address.tcp;
  const std::string& shown = endpoint.listener->shown();
  const std::string scheme = options.cert.empty() ? "http://" : "https://";
  note(options, "listening on " + (tcp ? scheme + shown + path : printable(shown)) + rest);
  const bool is_guarded = !tcp || options.token_file || !options.client_ca.empty();
  if (!is_guarded && (options.allow_changes || options.payloads)) {
    note(options,
         "warning: every user of this machine can use it; --socket PATH or --token-file FILE keeps others out");
  }
  if (tcp && !tcp->is_loopback && options.cert.empty()) {
    note(options, "warning: the token is sent without TLS; use --https-cert and --https-key, or a proxy with TLS");
  }
}

}  // namespace

Exit serve(Context& context, const ServeOptions& options) {
  Endpoint endpoint(options);
  const RedisName redis{context.shown_uri(), context.options.prefix};
  Context other = context.for_another_thread();
  Clients clients(context);
  CommandReads command_reads(other);
  History history;
  Events events;
  Audit audit([&](const ServedChange& change) { events.publish_change(change_object(change).text()); });
  QueuePoller poller(context, history, [&](const Readings& readings) {
    if (events.listeners() > 0) events.publish_queues(queues_document(redis, readings, history).text());
  });
  const Reads reads(clients, poller, options.payloads);
  Changes changes(clients, reads, audit);
  const Routes routes({endpoint.access, redis, reads, command_reads, poller, history, changes, audit, events});
  HttpServer server(*endpoint.listener, std::move(endpoint.tls),
                    [&](const HttpRequest& request) { return routes.answer(request); });

  poller.start();
  announce(options, endpoint, "/",
           std::string(options.allow_changes ? "; changes are allowed" : "; read-only") +
               (options.payloads ? "; payloads are shown" : "; payloads are hidden"));
  const auto first = poller.fresh();
  if (first->failing_since)
    note(options, "warning: " + printable(first->error) + "; trying again until Redis is there");
  server.run(interrupted);
  events.stop();
  const bool served = server.stop(kLongestEnd);
  if (!served) changes.end(Clients::kLongestReply);
  const bool polled = poller.stop(kLongestEnd);
  endpoint.listener.reset();
  if (!served || !polled) std::_Exit(static_cast<int>(Exit::done));  // a thread still waits for Redis
  return Exit::done;
}

Exit serve_metrics(Context& context, const ServeOptions& options, const std::vector<std::string>& queues) {
  Endpoint endpoint(options);
  Context other = context.for_another_thread();
  CommandReads reads(context, [&](const std::string& error) { note(options, "warning: " + error); });
  CommandReads checks(other);
  try {
    checks.check_redis(queues);
  } catch (const delayqueue::ConnectionError& error) {
    note(options, "warning: " + printable(error.what()) + "; each request tries again");
  } catch (const HttpError&) {  // a signal has arrived
    return Exit::done;
  }
  HttpServer server(*endpoint.listener, std::move(endpoint.tls), [&](const HttpRequest& request) {
    return metrics_answer(endpoint.access, reads, checks, queues, request);
  });
  announce(options, endpoint, "/metrics", "");
  server.run(interrupted);
  if (!server.stop(kLongestEnd)) std::_Exit(static_cast<int>(Exit::done));  // a thread still waits for Redis
  return Exit::done;
}

}  // namespace dqctl
