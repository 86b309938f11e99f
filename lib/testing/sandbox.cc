#include <delayqueue/testing.h>

#include "testing/player.h"
#include "testing/test_server.h"

#include <delayqueue/error.h>
#include <delayqueue/inspector.h>

#include <algorithm>
#include <stdexcept>
#include <thread>
#include <utility>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {
namespace testing {
namespace {

constexpr milliseconds kPatience{5000};                         // for handlers to return, in real time
constexpr milliseconds kLongest{100LL * 365 * 24 * 3'600'000};  // as of all durations of the library
constexpr std::size_t kMostNamed = 5;                           // messages in an error
constexpr std::size_t kWholePayload = 512ULL * 1024 * 1024;

void check_time(const char* field, milliseconds time) {
  if (time.count() >= 0 && time <= kLongest) return;
  throw std::invalid_argument(std::string(field) + ": " + std::to_string(time.count()) + " ms; expected " +
                              (time.count() < 0 ? "at least 0 ms" : "at most a hundred years"));
}

// Times in Redis are rounded up to the millisecond, and the time to live is a difference of two: an error of a few of
// them does not count.
milliseconds rounded_up(Time::duration time) {
  constexpr milliseconds kError{5};
  const milliseconds exact = std::max(std::chrono::ceil<milliseconds>(time) - kError, milliseconds(0));
  const milliseconds step(exact > std::chrono::seconds(10) ? 1000 : 100);
  return (exact + step - milliseconds(1)) / step * step;
}

std::string named(const std::vector<TestServer::InFlight>& messages) {
  std::string text;
  for (std::size_t i = 0; i < std::min(messages.size(), kMostNamed); ++i) {
    text += (i == 0 ? "" : ", ") + messages[i].message.id + " of queue " + quoted(messages[i].queue);
  }
  return messages.size() > kMostNamed ? text + " ..." : text;
}

}  // namespace

class Sandbox::Impl {
 public:
  explicit Impl(SandboxOptions options)
      : server(std::move(options.server)), client(Client(server.url()).with_keys(std::move(options.keys))) {}

  std::vector<Handled> play(const char* call, milliseconds time, const Handlers& handlers,
                            const ConsumerOptions& options) {
    Player player(call, server, client, handlers, options);
    return player.run(time);
  }

  TestServer server;
  Client client;
};

Sandbox::Sandbox(SandboxOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Sandbox::~Sandbox() = default;

std::string Sandbox::url() const { return impl_->server.url(); }
const Client& Sandbox::client() const { return impl_->client; }
PrivateServer& Sandbox::server() { return impl_->server.server(); }
std::chrono::system_clock::time_point Sandbox::now() const { return impl_->server.now(); }

void Sandbox::advance(milliseconds by) {
  check_time("by", by);
  TestServer& server = impl_->server;
  server.find_queues();
  const auto until = std::chrono::steady_clock::now() + kPatience;
  for (auto held = server.in_flight(); !held.empty(); held = server.in_flight()) {
    if (std::chrono::steady_clock::now() > until) {
      throw std::logic_error("advance(" + to_text(by) + "): " + std::to_string(held.size()) +
                             " messages are still in flight after " + to_text(kPatience) + ": " + named(held) +
                             "; wait until their handlers have returned, or call lose_leases() if their process died");
    }
    std::this_thread::sleep_for(milliseconds(1));
  }
  server.jump(by);
}

void Sandbox::lose_leases() {
  TestServer& server = impl_->server;
  server.find_queues();
  Time end = server.now();
  for (const TestServer::InFlight& one : server.in_flight()) end = std::max(end, *one.message.at);
  server.jump(std::chrono::ceil<std::chrono::microseconds>(std::max(end - server.now(), Time::duration(0))) +
              milliseconds(1));
}

std::vector<Handled> Sandbox::drain(const QueueName& queue, const Handler& handler, const ConsumerOptions& options) {
  return impl_->play("drain", milliseconds(0), {{queue.str(), handler}}, options);
}

std::vector<Handled> Sandbox::play(milliseconds time, const Handlers& handlers, const ConsumerOptions& options) {
  check_time("time", time);
  return impl_->play("play", time, handlers, options);
}

std::vector<Waiting> Sandbox::sent(const QueueName& queue) {
  Inspector inspector(impl_->client, queue);
  const Time now = impl_->server.now();
  std::vector<Waiting> waiting;
  ListOptions page;
  page.limit = 100;
  page.payload = kWholePayload;
  for (const State state : {State::pending, State::ready, State::unack, State::retry}) {
    page.cursor.clear();
    do {
      MessagePage found = inspector.list(state, page);
      for (MessageInfo& one : found.messages) {
        if (one.held || !one.retries) continue;  // in flight; or cancelled
        const Time due = one.at.value_or(one.waits_since.value_or(now));
        std::optional<milliseconds> ttl;
        if (one.ttl) ttl = rounded_up(*one.ttl - std::max(due - now, Time::duration(0)));
        waiting.push_back({std::move(one.id), std::move(one.payload), std::move(one.headers), state, due,
                           rounded_up(due - now), *one.retries, ttl, std::move(one.key)});
      }
      page.cursor = found.next;
    } while (!page.cursor.empty());
  }
  std::stable_sort(waiting.begin(), waiting.end(), [](const Waiting& a, const Waiting& b) { return a.due < b.due; });
  return waiting;
}

std::optional<Waiting> Sandbox::find(const QueueName& queue, std::string_view payload) {
  std::vector<Waiting> all = sent(queue);
  const auto found = std::find_if(all.begin(), all.end(), [&](const Waiting& one) { return one.payload == payload; });
  if (found == all.end()) return std::nullopt;
  return std::move(*found);
}

}  // namespace testing
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
