#include "embedded/folder_servers.h"

#include "embedded/folder_owner.h"
#include "embedded/folder_server.h"
#include "embedded/private_folder.h"
#include "os/interrupt.h"
#include "os/per_process.h"

#include <delayqueue/error.h>
#include <delayqueue/server.h>

#include <signal.h>

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace delayqueue {
namespace {

struct Entry {
  std::mutex mutex;  // guards the server; held while it starts
  std::unique_ptr<FolderServer> server;
};

struct Registry {
  std::mutex mutex;  // guards the map
  std::map<FolderId, Entry> by_folder;
  std::atomic<bool> ended{false};
};

constexpr FolderId kTemporary{};                    // for the temporary folder of "embedded:"
constexpr std::chrono::milliseconds kLockPause{1};  // between attempts: a blocking lock could not be interrupted

PerProcess<Registry> registry_of_process;

// Called when the process exits, after the destructors of static objects, which may use the servers until then.
// atexit() would end the servers before an object that was made earlier than the first connection.
[[gnu::destructor, gnu::used]] void end_servers() {
  Registry* const registry = registry_of_process.find();
  if (registry == nullptr) return;
  registry->ended = true;
  const std::lock_guard lock(registry->mutex);
  for (auto& [folder, entry] : registry->by_folder) {
    const std::lock_guard none_starts(entry.mutex);
    entry.server.reset();
  }
}

Entry& entry_of(Registry& registry, const std::string& folder) {
  const FolderId id = folder.empty() ? kTemporary : id_of(open_private_folder(folder));
  const std::lock_guard lock(registry.mutex);
  return registry.by_folder[id];
}

// Starts the server if it does not run.
std::string socket_of(Entry& entry, const std::string& folder) {
  if (entry.server == nullptr) {
    PrivateServerOptions options;
    options.folder = folder;
    entry.server = std::make_unique<FolderServer>(options);
  } else if (entry.server->pid() < 0 || !listens(entry.server->socket())) {
    entry.server->end(SIGKILL);
    entry.server->start();
  }
  return entry.server->socket();
}

std::string socket_in(Registry& registry, const std::string& folder) {
  Entry& entry = entry_of(registry, folder);
  std::unique_lock lock(entry.mutex, std::try_to_lock);
  while (!lock.owns_lock()) {
    if (Interrupt::is_raised_here()) throw ConnectionError("stopped while another thread started the server");
    std::this_thread::sleep_for(kLockPause);
    static_cast<void>(lock.try_lock());
  }
  if (registry.ended) throw ConnectionError("cannot start a server: the process is ending");
  return socket_of(entry, folder);
}

}  // namespace

std::string embedded_socket(const std::string& folder) {
  const std::string path = folder.empty() ? "" : absolute_folder(folder);
  check_socket_path(path);
  const std::string where = folder.empty() ? "embedded: " : "embedded:" + folder + ": ";
  try {
    return socket_in(registry_of_process.get(), path);
  } catch (const SetupError& e) {
    throw SetupError(where + e.what());
  } catch (const std::runtime_error& e) {
    throw ConnectionError(where + e.what());
  }
}

}  // namespace delayqueue
