#include "embedded/folder_servers.h"

#include "embedded/folder_server.h"
#include "embedded/folder_use.h"
#include "embedded/private_folder.h"
#include "os/interrupt.h"

#include <delayqueue/error.h>
#include <delayqueue/private_server.h>

#include <signal.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>

namespace delayqueue {
namespace {

// The server of one folder, as far as this process started it.
struct Place {
  std::mutex mutex;                // guards the rest; held while the server starts
  std::unique_ptr<FolderUse> use;  // null for the process' own server
  std::unique_ptr<FolderServer> server;
};

struct Places {
  explicit Places(const Places* of_parent) : parent(of_parent) {}

  const Places* const parent;  // of the process that forked this one; never touched
  const pid_t owner = ::getpid();
  std::mutex mutex;  // guards the map
  std::map<std::string, Place> by_folder;
  std::atomic<bool> ended{false};
};

// Never destroyed: threads and static objects of the host may ask until the very end.
std::atomic<Places*> all_places{nullptr};

constexpr std::chrono::seconds kJoinLimit{15};      // others may be starting the server, or ending it
constexpr std::chrono::milliseconds kLockPause{1};  // a thread that waits for a lock cannot be interrupted

// The last process that uses a folder ends its server and waits for that, so that all is on disk when it has ended.
void end_server(Place& place, const std::string& folder) try {
  if (place.use == nullptr) return place.server.reset();
  const auto use = std::move(place.use);  // destroyed when the server has ended
  if (use->is_last()) {
    place.server.reset();
    end_server_at(folder + "/s");
  } else if (place.server) {
    place.server->leave();
  }
} catch (const std::runtime_error&) {  // the end of the process is no time for it; the system tells the server
}

void end_servers() {
  Places* places = all_places;
  if (places == nullptr || places->owner != ::getpid()) return;
  places->ended = true;
  const std::lock_guard lock(places->mutex);
  for (auto& [folder, place] : places->by_folder) {
    const std::lock_guard none_starts(place.mutex);
    end_server(place, folder);
  }
}

// A forked process leaves its parent's as they are: the locks may be held by threads that it does not have.
Places& places_of_this_process() {
  Places* places = all_places;
  while (places == nullptr || places->owner != ::getpid()) {
    auto fresh = std::make_unique<Places>(places);
    if (!all_places.compare_exchange_strong(places, fresh.get())) continue;
    if (places == nullptr) std::atexit(end_servers);  // a fork keeps what was registered
    places = fresh.release();
  }
  return *places;
}

Place& place_of(Places& places, const std::string& folder) {
  const std::lock_guard lock(places.mutex);
  return places.by_folder[folder];
}

std::string absolute(const std::string& folder) {
  const auto path = std::filesystem::absolute(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).string();
}

void start(Place& place, const std::string& folder) {
  if (place.server) {
    place.server->end(SIGKILL);
    return place.server->start();
  }
  PrivateServerOptions options;
  options.folder = folder;
  const auto life = folder.empty() ? FolderServer::Life::of_object : FolderServer::Life::until_last_user;
  place.server = std::make_unique<FolderServer>(options, life);
}

void start_or_find(Place& place, const std::string& folder, const std::string& socket) {
  if (listens(socket)) return;
  try {
    start(place, folder);
  } catch (const SetupError&) {
    throw;
  } catch (const std::runtime_error&) {
    if (!listens(socket)) throw;  // else another process was faster
  }
}

std::string socket_of_folder(Place& place, const std::string& folder) {
  const std::string socket = folder + "/s";
  const Descriptor opened = open_private_folder(folder);
  if (place.use && place.use->is_of(opened)) {
    start_or_find(place, folder, socket);
    return socket;
  }
  auto use = std::make_unique<FolderUse>(opened, folder);
  use->join(std::chrono::steady_clock::now() + kJoinLimit, [&socket] { end_server_at(socket); });
  start_or_find(place, folder, socket);
  use->share();
  place.use = std::move(use);
  return socket;
}

std::string socket_of_process(Place& place) {
  if (!place.server || !listens(place.server->socket())) start(place, "");
  return place.server->socket();
}

}  // namespace

std::string embedded_socket(const std::string& folder) {
  const std::string path = folder.empty() ? "" : absolute(folder);
  if (path.size() + 2 >= sizeof(sockaddr_un::sun_path)) {
    throw std::invalid_argument("folder: " + path + ": the path of its socket is longer than " +
                                std::to_string(sizeof(sockaddr_un::sun_path) - 1) + " bytes");
  }
  Places& places = places_of_this_process();
  Place& place = place_of(places, path);
  const std::string where = folder.empty() ? "embedded: " : "embedded:" + folder + ": ";
  std::unique_lock lock(place.mutex, std::try_to_lock);
  while (!lock.owns_lock()) {
    if (Interrupt::is_raised_here()) throw ConnectionError(where + "stopped while another thread started the server");
    std::this_thread::sleep_for(kLockPause);
    static_cast<void>(lock.try_lock());
  }
  if (places.ended) throw ConnectionError(where + "the process is ending");
  try {
    return path.empty() ? socket_of_process(place) : socket_of_folder(place, path);
  } catch (const SetupError& e) {
    throw SetupError(where + e.what());
  } catch (const std::runtime_error& e) {
    throw ConnectionError(where + e.what());
  }
}

}  // namespace delayqueue
