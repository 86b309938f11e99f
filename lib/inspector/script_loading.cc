#include <delayqueue/server.h>

#include "queue/endpoint.h"
#include "redis/pipeline.h"
#include "store/scripts.h"

#include <delayqueue/error.h>

#include <exception>
#include <string>

namespace delayqueue {
namespace {

using redis::Connection;
using redis::Pipeline;
using redis::Script;

template <class Call>
std::vector<ServerScripts> for_each_server(const Client& client, Call call) {
  Endpoint endpoint = Endpoint::of_servers(client);
  std::vector<ServerScripts> all;
  for (const redis::Address& server : endpoint.servers()) {
    ServerScripts& one = all.emplace_back();
    one.address = server.text();
    try {
      call(*endpoint.dial(server), one);
    } catch (const std::exception& e) {  // also std::invalid_argument: TLS refuses the host name of a server
      one.error = e.what();
    }
  }
  return all;
}

}  // namespace

std::vector<ServerScripts> DELAYQUEUE_ABI::find_scripts(const Client& client) {
  return for_each_server(client, [](Connection& connection, ServerScripts& server) {
    Pipeline pipeline(connection);
    pipeline.command("SCRIPT").arg("EXISTS");
    for (const Script* script : store::scripts::all()) pipeline.arg(script->sha1);
    pipeline.run();
    const redis::Reply there = pipeline.reply(0);
    const auto& all = store::scripts::all();
    for (std::size_t i = 0; i < all.size(); ++i) {
      (there[i].integer() == 1 ? server.loaded : server.missing).emplace_back(all[i]->name);
    }
  });
}

std::vector<ServerScripts> DELAYQUEUE_ABI::load_scripts(const Client& client) {
  return for_each_server(client, [](Connection& connection, ServerScripts& server) {
    for (const Script* script : store::scripts::all()) server.missing.emplace_back(script->name);
    Pipeline pipeline(connection);
    for (const Script* script : store::scripts::all()) pipeline.command("SCRIPT").arg("LOAD").arg(script->body);
    pipeline.run();
    for (const Script* script : store::scripts::all()) {
      const redis::Reply name = pipeline.reply(server.loaded.size());
      if (name.text() != script->sha1) {
        throw ReplyError("cannot load the script " + std::string(script->name) + " at redis at " + server.address +
                         ": the answer is not its SHA1, " + std::string(script->sha1));
      }
      server.missing.erase(server.missing.begin());
      server.loaded.emplace_back(script->name);
    }
  });
}

}  // namespace delayqueue
