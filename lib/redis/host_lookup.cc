#include "redis/host_lookup.h"

#include "os/interrupt.h"
#include "os/per_process.h"
#include "os/resources.h"
#include "redis/escaped.h"

#include <delayqueue/error.h>

#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace delayqueue::redis {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSlice{10};        // between two checks of the Interrupt
constexpr std::chrono::minutes kKept{1};  // addresses that no caller has waited for, for one caller
// Addresses of a name that took longer than kSlow, for all callers: a probe may have waited for them, and the call
// after it has no time for another look-up.
constexpr std::chrono::seconds kKeptForAll{2};
constexpr milliseconds kSlow{50};

// Without ports.
struct Result {
  std::vector<HostAddress> addresses{};
  int error = 0;
  int system_error = 0;
};

Result get_addresses(const std::string& host, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  Result result;
  result.error = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  result.system_error = errno;
  if (result.error != 0) return result;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    HostAddress address;
    if (entry->ai_family != AF_INET && entry->ai_family != AF_INET6) continue;
    address.size = std::min<socklen_t>(entry->ai_addrlen, sizeof address.address);
    std::memcpy(&address.address, entry->ai_addr, address.size);
    result.addresses.push_back(address);
  }
  ::freeaddrinfo(list);
  if (result.addresses.empty()) result.error = EAI_NONAME;
  return result;
}

void set_port(HostAddress& address, int port) {
  const auto in_order = htons(static_cast<std::uint16_t>(port));
  if (address.family() == AF_INET) reinterpret_cast<sockaddr_in*>(&address.address)->sin_port = in_order;
  if (address.family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&address.address)->sin6_port = in_order;
}

[[noreturn]] void fail(const Address& server, const std::string& why) {
  throw ConnectionError("cannot connect to " + server.text() + ": " + why);
}

std::string quoted(const Address& server) { return "'" + escaped(server.host) + "'"; }

std::vector<HostAddress> checked(Result result, const Address& server) {
  if (result.error != 0) {
    fail(server, "no address for the name " + quoted(server) + ": " +
                     (result.error == EAI_SYSTEM ? reason(result.system_error) : ::gai_strerror(result.error)));
  }
  for (HostAddress& address : result.addresses) set_port(address, server.port);
  return std::move(result.addresses);
}

void check_interrupt(const Address& server) {
  if (Interrupt::is_raised_here()) fail(server, "stopped while looking up the name " + quoted(server));
}

struct LookUp {
  int waiting = 0;  // callers
  const Clock::time_point begun_at = Clock::now();
  bool ended = false;
  Clock::time_point ended_at{};
  std::chrono::seconds kept_for_all{0};
  bool had_callers = false;  // when it ended
  Result result{};
};

// The look-ups of this process.
class LookUps {
 public:
  Result wait(const Address& server, Deadline deadline);

 private:
  std::shared_ptr<LookUp> join_or_start(const std::string& host);
  void run(const std::string& host, LookUp& look_up) noexcept;

  std::mutex mutex_;  // guards the rest
  std::condition_variable ended_;
  std::map<std::string, std::shared_ptr<LookUp>> by_name_;  // under way, or with addresses for the next caller
};

Result LookUps::wait(const Address& server, Deadline deadline) {
  const auto begin = Clock::now();
  const bool interruptible = Interrupt::current() != nullptr;
  std::unique_lock lock(mutex_);
  const std::shared_ptr<LookUp> look_up = join_or_start(server.host);
  ++look_up->waiting;
  const auto has_ended = [&] { return look_up->ended; };
  for (auto now = begin; !has_ended() && now < deadline && !Interrupt::is_raised_here(); now = Clock::now()) {
    ended_.wait_until(lock, interruptible ? std::min(deadline, now + kSlice) : deadline, has_ended);
  }
  --look_up->waiting;
  if (has_ended()) return look_up->result;
  lock.unlock();
  check_interrupt(server);
  const auto waited = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
  fail(server, "the look-up of the name " + quoted(server) + " has not ended after " + std::to_string(waited.count()) +
                   " ms; check the name servers in /etc/resolv.conf, or use an IP address");
}

// Requires the lock.
std::shared_ptr<LookUp> LookUps::join_or_start(const std::string& host) {
  const auto found = by_name_.find(host);
  if (found != by_name_.end()) {
    std::shared_ptr<LookUp> look_up = found->second;
    if (!look_up->ended || Clock::now() - look_up->ended_at < look_up->kept_for_all) return look_up;
    by_name_.erase(found);
    if (!look_up->had_callers && Clock::now() - look_up->ended_at < kKept) return look_up;
  }
  auto look_up = std::make_shared<LookUp>();
  by_name_[host] = look_up;
  try {
    start_thread<ConnectionError>("the look-up of a name", [this, host, look_up] { run(host, *look_up); }).detach();
  } catch (...) {
    by_name_.erase(host);
    throw;
  }
  return look_up;
}

void LookUps::run(const std::string& host, LookUp& look_up) noexcept {
  Result result;
  try {
    result = get_addresses(host, 0);
  } catch (...) {  // of the vector
    result.error = EAI_MEMORY;
  }
  const std::lock_guard lock(mutex_);
  look_up.result = std::move(result);
  look_up.ended_at = Clock::now();
  look_up.ended = true;
  look_up.had_callers = look_up.waiting > 0;
  if (look_up.ended_at - look_up.begun_at >= kSlow) look_up.kept_for_all = kKeptForAll;
  const bool is_for_later = !look_up.had_callers || look_up.kept_for_all.count() > 0;
  if (!is_for_later || look_up.result.error != 0) by_name_.erase(host);
  ended_.notify_all();
}

PerProcess<LookUps> look_ups;

}  // namespace

std::vector<HostAddress> look_up_host(const Address& server, Deadline deadline) {
  Result literal = get_addresses(server.host, AI_NUMERICHOST);  // needs no thread
  if (literal.error == 0) return checked(std::move(literal), server);
  check_interrupt(server);
  return checked(look_ups.get().wait(server, deadline), server);
}

}  // namespace delayqueue::redis
