// Player: delivers what is due to handlers in the caller's thread, and lets time pass in between.
#pragma once

#include "testing/test_server.h"

#include <delayqueue/testing.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {
namespace testing {

// The consumer is a real one, which takes one message at a time. Its handler passes the Delivery to the caller's
// thread, which calls the handler of the test and waits until the verdict is settled.
class Player {
 public:
  // `call`: for errors, such as "drain". Throws as the constructor of a Consumer.
  Player(std::string call, TestServer& server, const Client& client, const Handlers& handlers, ConsumerOptions options);
  ~Player();
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  // Handles all that is due until this time has passed, each message when it is due.
  std::vector<Handled> run(milliseconds time);

 private:
  struct Queue {
    std::string base;
    const Handler* handler;
    std::unique_ptr<Inspector> inspector;
    std::set<std::pair<std::string, Time>> elsewhere{};  // in flight before: the id, and the end of the lease
    std::optional<std::pair<Time, std::chrono::steady_clock::time_point>> passed_slot{};  // and since when it is seen
  };

  // What a look at a queue has found.
  struct Look {
    std::uint64_t due = 0;       // messages that can be delivered now
    bool busy = false;           // there are some, or one is in flight
    std::optional<Time> next{};  // when something is due, as far as is known

    void add(const std::optional<Time>& time) {
      if (time && (!next || *time < *next)) next = time;
    }
  };

  std::optional<Time> handle_due(bool expected);
  std::optional<Delivery> receive(bool waits);
  void handle(Delivery delivery);
  void settle(Delivery delivery, const Verdict& verdict);
  std::optional<Verdict> verdict_of(const Handler& handler, Delivery& delivery);
  Look look_at_all();
  static Look look_at(const Queue& queue, Time here);
  static bool waits_for_schedule(Queue& queue, const std::optional<Time>& slot, Time here);
  [[noreturn]] void fail_without_progress();

  const std::string call_;
  TestServer& server_;
  std::map<std::string, Queue> queues_;
  const Middleware middleware_;
  std::vector<Handled> handled_;

  std::mutex mutex_;  // guards the next two
  std::condition_variable changed_;
  std::deque<Delivery> arrived_;

  std::optional<Consumer> consumer_;  // last: its threads use the members above
};

}  // namespace testing
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
