// Messages that kill the process of their handler each time, and what becomes of their neighbours.
#include <delayqueue/delayqueue.h>

#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/ledger.h"
#include "support/process.h"

namespace delayqueue {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using test::eventually;
using test::kPatience;
using test::Process;
using test::Queue;
using test::words;
using test::worker;

// Workers of a queue, each started again when it died.
class Crew {
 public:
  Crew(const Queue& queue, std::size_t workers, const std::string& lease_ms)
      : command_(worker(queue, 8, lease_ms)), workers_(workers) {
    for (auto& one : workers_) one = std::make_unique<Process>(command_);
  }

  // Buries the dead, and starts as many; says how many those were. `before` is called between the two.
  template <class Before>
  int restart(Before before) {
    int dead = 0;
    for (auto& one : workers_) {
      if (!one->ended()) continue;
      CHECK(one->wait() == -SIGKILL);
      note(*one);
      ++dead;
      before();
      one = std::make_unique<Process>(command_);
    }
    deaths_ += dead;
    return dead;
  }

  // Ends them in peace.
  void stop() {
    for (auto& one : workers_) {
      one->kill(SIGTERM);
      CHECK(one->wait() == 0);
      note(*one);
    }
    workers_.clear();
  }

  int deaths() const { return deaths_; }

  // Of each message that was handled to its end, the number of that delivery. After stop().
  const std::map<std::string, int>& handled_at() const { return handled_at_; }

 private:
  void note(const Process& process) {
    for (const std::string& line : process.said("begin")) began_[line.substr(0, 36)] = std::stoi(line.substr(37));
    for (const std::string& id : process.said("end")) handled_at_[id] = began_[id];
  }

  const std::vector<std::string> command_;
  std::vector<std::unique_ptr<Process>> workers_;
  std::map<std::string, int> began_, handled_at_;
  int deaths_ = 0;
};

int most_deliveries(const Crew& crew) {
  int most = 0;
  for (const auto& [id, attempt] : crew.handled_at()) most = std::max(most, attempt);
  return most;
}

// Restarts who died until `poisons` messages are dead and all others are handled.
template <class Before>
bool survives(Crew& crew, Queue& queue, std::uint64_t poisons, std::uint64_t innocents, Before before) {
  const auto over = [&] {
    crew.restart(before);
    const Counts counts = queue.inspector.counts();
    return counts.dead >= poisons && counts.totals.acked + counts.dead >= poisons + innocents;
  };
  return eventually(over, 2 * kPatience);
}

void check_dead(Queue& queue, const std::string& poison) {
  const auto dead = queue.inspector.find(poison);
  REQUIRE(dead);
  CHECK(dead->state == State::dead);
  CHECK(dead->reason == "lease ended 4 times");
  CHECK(dead->deliveries == 4);
}

TEST_CASE("poison: it ends in dead after its retries, and costs no neighbour more than one retry") {
  Queue queue;
  queue.producer.send_batch(words(3, "brief"));
  const std::string poison = queue.send("die");
  queue.producer.send_batch(words(37, "brief"));
  std::uint64_t innocents = 40;
  Crew crew(queue, 1, "30000");
  const auto time_passes = [&] {
    test::rewind(queue.base, 1h);
    queue.producer.send_batch(words(20, "brief"));  // fresh ones, beside the poison
    innocents += 20;
  };
  CHECK(survives(crew, queue, 1, 120, time_passes));
  crew.stop();
  MESSAGE("dead: " << queue.inspector.counts().dead << ", most deliveries: " << most_deliveries(crew)
                   << ", deaths: " << crew.deaths());
  check_dead(queue, poison);
  CHECK(crew.deaths() == 4);
  CHECK(innocents == 120);
  CHECK(queue.inspector.counts().dead == 1);
  CHECK(crew.handled_at().size() == innocents);
  CHECK(most_deliveries(crew) <= 2);
}

}  // namespace
}  // namespace delayqueue
