#include "embedded.h"

#include <delayqueue/error.h>
#include <delayqueue/private_server.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>

namespace delayqueue {
namespace {

bool listening(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  if (fd < 0) return false;
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  ::fcntl(fd, F_SETFL, O_NONBLOCK);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const int result = ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  const bool up = result == 0 || errno == EAGAIN;  // EAGAIN: it is there, with a long queue at its door
  ::close(fd);
  return up;
}

// The server of one folder, as far as this process started it.
struct Place {
  std::mutex mutex;  // guards server; held while it starts
  std::unique_ptr<PrivateServer> server;
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

void end_servers() {
  Places* places = all_places;
  if (places == nullptr || places->owner != ::getpid()) return;
  places->ended = true;
  const std::lock_guard lock(places->mutex);
  for (auto& [folder, place] : places->by_folder) {
    const std::lock_guard none_starts(place.mutex);
    place.server.reset();
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
  if (place.server) return place.server->restart();
  PrivateServerOptions options;
  options.folder = folder;
  place.server = std::make_unique<PrivateServer>(options);
}

std::string socket_of(const std::string& folder) {
  Places& places = places_of_this_process();
  Place& place = place_of(places, folder);
  const std::lock_guard lock(place.mutex);
  if (places.ended) throw ConnectionError("embedded:" + folder + ": the process is ending");
  if (place.server && listening(place.server->socket())) return place.server->socket();
  try {
    start(place, folder);
    return place.server->socket();
  } catch (const std::runtime_error& e) {
    std::string shared = folder + "/s";
    if (!folder.empty() && listening(shared)) return shared;  // another process was faster
    throw ConnectionError("embedded:" + folder + ": " + e.what());
  }
}

}  // namespace

std::string embedded_socket(const std::string& folder) {
  if (folder.empty()) return socket_of(folder);
  const std::string path = absolute(folder);
  const std::string shared = path + "/s";
  const bool fits = shared.size() < sizeof(sockaddr_un::sun_path);  // if not, starting it says so
  return fits && listening(shared) ? shared : socket_of(path);
}

}  // namespace delayqueue
