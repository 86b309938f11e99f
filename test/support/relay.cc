#include "support/relay.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "os/resources.h"
#include "support/server.h"

namespace test {
namespace {

using Clock = std::chrono::steady_clock;
using delayqueue::Descriptor;

constexpr std::chrono::milliseconds kMoment{100};

Descriptor connect_to(const std::string& path) {
  Descriptor link(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  if (::connect(link.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return link;
  throw std::runtime_error(path + ": " + delayqueue::reason(errno));
}

// The end of the RESP value that begins at `at`, or 0 if the value is incomplete.
std::size_t end_of(std::string_view bytes, std::size_t at) {
  const std::size_t line = bytes.find("\r\n", at);
  if (line == bytes.npos) return 0;
  const char kind = bytes[at];
  std::size_t end = line + 2;
  if (kind != '$' && kind != '*') return end;
  const long count = std::stol(std::string(bytes.substr(at + 1, line - at - 1)));
  if (count < 0) return end;
  if (kind == '$')
    return end + static_cast<std::size_t>(count) + 2 <= bytes.size() ? end + static_cast<std::size_t>(count) + 2 : 0;
  for (long i = 0; i < count; ++i) {
    end = end_of(bytes, end);
    if (end == 0) return 0;
  }
  return end;
}

// Appends the bytes that have arrived. Returns false at the end of the link.
bool read_some(int fd, std::string& to) {
  char bytes[256 * 1024];
  const auto got = ::recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
  if (got > 0) to.append(bytes, static_cast<std::size_t>(got));
  return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace

struct Relay::Link {
  Descriptor client, server;
  std::string from_client, from_server;  // not yet forwarded
  std::size_t due = 0;                   // replies outstanding for forwarded commands
  Clock::time_point kept{};              // start of the delay of the last reply; default: no delay
};

Relay::Relay() : listening_(listen_on(dir_.file("socket"))), thread_([this] { run(); }) { server(); }

Relay::~Relay() {
  ended_ = true;
  thread_.join();
}

void Relay::run() {
  std::list<Link> links;
  while (!ended_) {
    std::vector<pollfd> fds = {{listening_.get(), POLLIN, 0}};
    for (const Link& link : links) {
      fds.push_back({link.client.get(), POLLIN, 0});
      fds.push_back({link.server.get(), POLLIN, 0});
    }
    ::poll(fds.data(), fds.size(), 5);
    links.remove_if([this](Link& link) { return !serve(link); });
    if ((fds[0].revents & POLLIN) == 0) continue;
    Descriptor client(::accept(listening_.get(), nullptr, nullptr));
    links.push_back({std::move(client), connect_to(server().socket()), {}, {}, 0, {}});
  }
}

bool Relay::serve(Link& link) { return forward_commands(link) && answer(link); }

// Forwards complete commands of the client.
bool Relay::forward_commands(Link& link) {
  if (!read_some(link.client.get(), link.from_client)) return false;
  std::size_t commands = 0;
  std::size_t passed = 0;
  for (std::size_t at = 0; at < link.from_client.size() && (at = end_of(link.from_client, at)) > 0; passed = at)
    ++commands;
  if (passed < link.from_client.size() || commands == 0) return true;
  if (armed_ && link.kept != Clock::time_point()) {
    ++early_requests_;
    if (then_ == Then::cut) return false;
  }
  link.kept = {};
  link.due += commands;
  return write_all(link.server.get(), std::exchange(link.from_client, {}));
}

// Forwards the outstanding replies, but delays the last one while armed.
bool Relay::answer(Link& link) {
  if (!read_some(link.server.get(), link.from_server)) return false;
  std::size_t passed = 0;
  while (link.due > 0) {
    const std::size_t end = passed < link.from_server.size() ? end_of(link.from_server, passed) : 0;
    if (end == 0) break;
    if (armed_ && link.due == 1) {
      if (link.kept == Clock::time_point()) link.kept = Clock::now();
      if (Clock::now() - link.kept < kMoment) break;
    }
    --link.due;
    passed = end;
  }
  if (link.due == 0) link.kept = {};
  const bool alive = write_all(link.client.get(), std::string_view(link.from_server).substr(0, passed));
  link.from_server.erase(0, passed);
  return alive;
}

}  // namespace test
