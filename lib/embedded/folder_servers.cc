#include "embedded/folder_servers.h"

#include "embedded/folder_server.h"
#include "embedded/folder_use.h"
#include "embedded/private_folder.h"
#include "os/interrupt.h"
#include "os/per_process.h"

#include <delayqueue/error.h>
#include <delayqueue/private_server.h>

#include <signal.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

namespace delayqueue {
namespace {

// One folder's server, and this process' use of it.
struct Entry {
  std::mutex mutex;                      // guards the rest; held while the server starts
  std::unique_ptr<FolderUse> use;        // null for the private server of the process
  std::unique_ptr<FolderServer> server;  // null if another process started it
};

struct Registry {
  std::mutex mutex;  // guards the map
  std::map<std::string, Entry> by_folder;
  std::atomic<bool> ended{false};
};

PerProcess<Registry> registry_of_folders;

constexpr std::chrono::seconds kJoinLimit{15};      // other processes may be starting or ending the server
constexpr std::chrono::milliseconds kLockPause{1};  // between attempts: a blocking lock could not be interrupted

// The last process that uses a folder ends its server and waits until it has ended, so that all data is on disk.
void end_server(Entry& entry, const std::string& folder) try {
  if (entry.use == nullptr) return entry.server.reset();
  const auto use = std::move(entry.use);  // destroyed when the server has ended
  if (use->is_last()) {
    entry.server.reset();
    end_server_at(folder + "/s");
  } else if (entry.server) {
    entry.server->leave();
  }
} catch (const std::runtime_error&) {  // ignored while the process ends; the system signals the server
}

// Called when the process exits, after the destructors of static objects, which may use the servers until then.
// atexit() would end the servers before an object that was made earlier than the first connection.
[[gnu::destructor, gnu::used]] void end_servers() {
  Registry* const registry = registry_of_folders.find();
  if (registry == nullptr) return;
  registry->ended = true;
  const std::lock_guard lock(registry->mutex);
  for (auto& [folder, entry] : registry->by_folder) {
    const std::lock_guard none_starts(entry.mutex);
    end_server(entry, folder);
  }
}

Entry& entry_of(Registry& registry, const std::string& folder) {
  const std::lock_guard lock(registry.mutex);
  return registry.by_folder[folder];
}

void start(Entry& entry, const std::string& folder) {
  if (entry.server) {
    entry.server->end(SIGKILL);
    return entry.server->start();
  }
  PrivateServerOptions options;
  options.folder = folder;
  const auto lifetime = folder.empty() ? FolderServer::Lifetime::object : FolderServer::Lifetime::until_last_user;
  entry.server = std::make_unique<FolderServer>(options, lifetime);
}

void start_or_find(Entry& entry, const std::string& folder, const std::string& socket) {
  if (listens(socket)) return;
  try {
    start(entry, folder);
  } catch (const SetupError&) {
    throw;
  } catch (const std::runtime_error&) {
    if (!listens(socket)) throw;  // else another process has started it
  }
}

std::string socket_of_folder(Entry& entry, const std::string& folder) {
  std::string socket = folder + "/s";
  const Descriptor opened = open_private_folder(folder);
  if (entry.use && entry.use->is_of(opened)) {
    start_or_find(entry, folder, socket);
    return socket;
  }
  auto use = std::make_unique<FolderUse>(opened, folder);
  use->join(std::chrono::steady_clock::now() + kJoinLimit, [&socket] { end_server_at(socket); });
  start_or_find(entry, folder, socket);
  use->share();
  entry.use = std::move(use);
  return socket;
}

std::string socket_of_process(Entry& entry) {
  if (!entry.server || !listens(entry.server->socket())) start(entry, "");
  return entry.server->socket();
}

}  // namespace

std::string embedded_socket(const std::string& folder) {
  const std::string path = folder.empty() ? "" : absolute_folder(folder);
  check_socket_path(path);
  Registry& registry = registry_of_folders.get();
  Entry& entry = entry_of(registry, path);
  const std::string where = folder.empty() ? "embedded: " : "embedded:" + folder + ": ";
  std::unique_lock lock(entry.mutex, std::try_to_lock);
  while (!lock.owns_lock()) {
    if (Interrupt::is_raised_here()) throw ConnectionError(where + "stopped while another thread started the server");
    std::this_thread::sleep_for(kLockPause);
    static_cast<void>(lock.try_lock());
  }
  if (registry.ended) throw ConnectionError(where + "cannot start a server: the process is ending");
  try {
    return path.empty() ? socket_of_process(entry) : socket_of_folder(entry, path);
  } catch (const SetupError& e) {
    throw SetupError(where + e.what());
  } catch (const std::runtime_error& e) {
    throw ConnectionError(where + e.what());
  }
}

}  // namespace delayqueue
