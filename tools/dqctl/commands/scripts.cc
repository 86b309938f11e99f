// dqctl scripts
#include <delayqueue/server.h>

#include <algorithm>
#include <memory>

#include "commands.h"
#include "output/table.h"

namespace dqctl {
namespace {

using delayqueue::ServerScripts;

struct ScriptsArgs {
  std::string action{};
};

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string note_of(const ServerScripts& server) {
  if (!server.error.empty()) return server.error;
  if (server.missing.empty()) return "";
  return server.loaded.empty() ? "missing: all" : "missing: " + joined(server.missing);
}

Object object_of(const ServerScripts& server) {
  Object object;
  object.add("server", server.address).add("loaded", server.loaded).add("missing", server.missing);
  return server.error.empty() ? object.add_null("error") : object.add("error", server.error);
}

void show(Output& out, const std::vector<ServerScripts>& servers) {
  Listing listing(out, {{"SERVER"}, {"LOADED", true}, {"OF", true}, {""}}, "servers");
  for (const ServerScripts& server : servers) {
    const std::size_t all = server.loaded.size() + server.missing.size();
    const bool whole = server.error.empty() && server.missing.empty();
    listing.add({{printable(server.address), Colour::bold},
                 {all == 0 ? "?" : count_text(server.loaded.size()), whole ? Colour::green : Colour::red},
                 {all == 0 ? "?" : count_text(all)},
                 {printable(note_of(server)), Colour::red}},
                object_of(server));
  }
  listing.end();
}

Exit scripts(Context& context, const ScriptsArgs& args) {
  if (args.action != "load" && args.action != "list") {
    throw Usage("ACTION: neither load nor list (not repeated here, for it may be a password); expected one of them");
  }
  const bool loads = args.action == "load";
  const std::vector<ServerScripts> servers =
      loads ? delayqueue::load_scripts(context.client()) : delayqueue::find_scripts(context.client());
  show(context.out(), servers);
  const auto failed = [](const ServerScripts& server) { return !server.error.empty(); };
  const auto lacks = [](const ServerScripts& server) { return !server.missing.empty(); };
  if (std::all_of(servers.begin(), servers.end(), failed)) return Exit::failed;
  if (std::any_of(servers.begin(), servers.end(), failed)) return Exit::partly;
  return std::any_of(servers.begin(), servers.end(), lacks) ? Exit::threshold : Exit::done;
}

}  // namespace

void add_scripts(Cli& cli, Context& context) {
  const auto args = std::make_shared<ScriptsArgs>();
  cli.add("scripts",
          "Loads the scripts into every server that may serve a queue, for users without the right to EVAL; or lists "
          "which servers have them",
          {"scripts load -u redis+sentinel://10.0.0.1/mymaster --user loader", "scripts list -o json"})
      .argument("ACTION", args->action, "load (again after each restart of a server), or list (exit code 5: not all)")
      .run([&context, args] { return scripts(context, *args); });
}

}  // namespace dqctl
