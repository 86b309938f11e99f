// dqctl serve
#include "serve/serve.h"

#include <memory>

#include "commands.h"

namespace dqctl {
namespace {

struct ServeArgs {
  ServeOptions options{};
  std::optional<std::string> listen{};
};

Exit serve_pages(Context& context, const ServeArgs& args) {
  if (args.listen && args.options.socket) throw Usage("--listen and --socket: expected one of them");
#ifdef DQCTL_SERVE
  ServeOptions options = args.options;
  options.listen = args.listen.value_or(options.listen);
  return serve(context, options);
#else
  static_cast<void>(context);
  throw built_without_http("serve");
#endif
}

}  // namespace

Failure built_without_http(const std::string& what) {
  return {Exit::failed, what +
                            ": this dqctl was built without it, because cpp-httplib was not found; install it (Debian: "
                            "apt-get install libcpp-httplib-dev) and build dqctl again"};
}

Command& add_access(Command& command, ServeOptions& options) {
  return command
      .text("--token-file", options.token_file, "FILE",
            "Clients must send its first line as a bearer token: at least 32 characters")
      .custom(
          "--host", [&options](const std::string& value) { options.hosts.push_back(value); }, "NAME",
          "A name that Host may have, beside localhost and the address of --listen; may be given several times")
      .repeatable()
      .custom("--https-cert", into_given("--https-cert", options.cert), "FILE",
              "Certificate of this server with its chain, PEM")
      .custom("--https-key", into_given("--https-key", options.key), "FILE", "Its key, PEM")
      .custom("--https-client-ca", into_given("--https-client-ca", options.client_ca), "FILE",
              "Accept only clients with a certificate of these authorities, PEM");
}

void add_serve(Cli& cli, Context& context) {
  const auto args = std::make_shared<ServeArgs>();
  ServeOptions& options = args->options;
  Command& command =
      cli.add("serve",
              "Serves a page, JSON and metrics about all queues over HTTP, to this machine unless told otherwise",
              {"serve", "serve --socket /run/dqctl.sock --allow-changes",
               "serve --listen 0.0.0.0:9480 --token-file token --host queues.example"})
          .text("--listen", args->listen, "HOST:PORT", "A numeric address (127.0.0.1:9480)")
          .text("--socket", options.socket, "PATH", "A unix socket instead, for this user only")
          .flag("--allow-changes", options.allow_changes,
                "Let clients pause, resume, redrive, purge, release, cancel, reschedule")
          .custom("--user-header", into_given("--user-header", options.user_field), "NAME",
                  "The header in which a proxy names the user of a request, for the audit and for pauses; the proxy "
                  "must remove what clients send in it")
          .flag("--payloads", options.payloads, "Show payloads");
  add_access(command, options).silent().run([&context, args] { return serve_pages(context, *args); });
}

}  // namespace dqctl
