// What the tests of consumers stand on: handlers that write down what they see, and consumers that need no waiting.
#pragma once

#include <delayqueue/consumer.h>
#include <delayqueue/inspector.h>
#include <delayqueue/producer.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "support/server.h"

namespace test {

// Far more than a busy machine needs, under a sanitizer, too. Only a failure takes so long.
inline constexpr std::chrono::seconds kPatience{60};

// Handlers write, in any thread; the test reads. What handlers do here, and the counts, stay cheap however many entries
// there are, so that a test that waits for its messages does not slow them.
class Ledger {
 public:
  struct Entry {
    delayqueue::Message message;
    std::string by{};  // whose handler it was
    bool running = true;
    bool overlapped = false;  // when it began, another delivery of the same message ran and was not lost
  };

  // A handler that notes every delivery and lets `inner` decide. The ledger must outlive it.
  delayqueue::Handler watch(delayqueue::Handler inner, const std::string& by = {});
  delayqueue::Handler watch() {
    return watch([](const delayqueue::Message&) { return true; });
  }

  std::vector<Entry> entries() const;         // in the order in which they began
  std::vector<std::string> payloads() const;  // likewise
  std::vector<int> attempts(const std::string& payload) const;
  std::size_t size() const;          // deliveries begun
  std::size_t running() const;       // handlers under way
  std::size_t most_running() const;  // the most at one time
  std::size_t different() const;     // ids seen
  std::size_t overlaps() const;      // two holders at a time: must be 0

  // Waits until so many deliveries have begun (or ended).
  bool reaches(std::size_t deliveries) const;
  bool settles(std::size_t deliveries) const;

 private:
  class Running;

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::set<std::size_t> running_;    // where their entries are
  std::set<std::string> different_;  // ids
  std::size_t most_running_ = 0;
};

// Handlers wait at it until the test opens it, or ends a consumer (which waits for its handlers).
class Gate {
 public:
  Gate();
  ~Gate();
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

  void pass();
  void open();

  static void open_all();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

struct EndConsumer {
  void operator()(delayqueue::Consumer* consumer) const;
};
using ConsumerPtr = std::unique_ptr<delayqueue::Consumer, EndConsumer>;

// "0", "1" ... for payloads.
std::vector<std::string> numbers(std::size_t count);

// Redis' clock, in microseconds.
long long redis_time_us(Redis& on = redis());

// Looks every 20 ms, tries again at once, and takes back overdue leases from the first moment.
delayqueue::ConsumerOptions quick(int concurrency = 1);

// A queue of its own on server(), and one of each to work on it.
struct Queue {
  explicit Queue(const std::string& url = server().url());

  std::string name = fresh_queue();
  std::string base = "dp:" + name;
  std::string url;
  delayqueue::Producer producer;
  delayqueue::Inspector inspector;

  ConsumerPtr consumer(delayqueue::Handler handler, delayqueue::ConsumerOptions options = quick()) const;
  delayqueue::State state(const std::string& id);
  std::string send(const std::string& payload, const delayqueue::SendOptions& options = {});

  // All its keys but those of wake-ups, which come and go.
  Snapshot kept(Redis& on = redis()) const;

  // No message, and nothing kept of one.
  bool empty(Redis& on = redis()) const;
};

// Ends the connections whose client name is `name`; says how many.
std::size_t cut_connections(const std::string& name, Redis& on = redis());

// The value of a line "<field>:<value>" in INFO <section>; empty if there is none.
std::string info(const std::string& section, const std::string& field, Redis& on = redis());

// What `call` throws: its type and text; "nothing" if it does not.
std::string thrown(const std::function<void()>& call);

}  // namespace test
