// Shared parts of the consumer tests: handlers that record deliveries, and consumers without waiting times.
#pragma once

#include "support/server.h"

namespace test {

inline delayqueue::Verdict ack_all(const delayqueue::Message& /*message*/) { return delayqueue::ack(); }
inline delayqueue::Verdict ack_if(bool done) { return done ? delayqueue::ack() : delayqueue::nack(); }

// A handler that returns its verdict, and that tests may call.
using MessageHandler = std::function<delayqueue::Verdict(const delayqueue::Message&)>;

// Records deliveries. Handlers write it from any thread; the test reads it. Recording and counting stay cheap with many
// entries, so that a test that polls does not slow the handlers.
class Ledger {
 public:
  struct Entry {
    delayqueue::Message message;
    std::string by{};  // the name given to watch()
    bool running = true;
    bool overlapped = false;  // began while another delivery of the message ran with its lease not lost
  };

  // Returns a handler that records each delivery and then calls `inner`. The ledger must outlive it.
  MessageHandler watch(MessageHandler inner, const std::string& by = {});
  MessageHandler watch() {
    return watch([](const delayqueue::Message&) { return delayqueue::ack(); });
  }

  std::vector<Entry> entries() const;         // in the order in which they began
  std::vector<std::string> payloads() const;  // in the same order
  std::vector<int> attempts(const std::string& payload) const;
  std::size_t size() const;          // deliveries begun
  std::size_t running() const;       // handlers that run now
  std::size_t most_running() const;  // the most handlers that ran at the same time
  std::size_t different() const;     // different message ids
  std::size_t overlaps() const;      // deliveries that overlapped another one; must be 0

  // Wait until so many deliveries have begun (reaches) or ended (settles).
  bool reaches(std::size_t deliveries) const;
  bool settles(std::size_t deliveries) const;

 private:
  class Running;

  mutable std::mutex mutex_;
  std::vector<Entry> entries_;
  std::set<std::size_t> running_;    // indexes in entries_
  std::set<std::string> different_;  // ids
  std::size_t most_running_ = 0;
};

// Blocks handlers until the test opens it. EndConsumer opens all gates, because a consumer waits for its handlers.
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

// Returns "0", "1" ... as payloads.
std::vector<std::string> numbers(std::size_t count);

// Redis' clock, in microseconds.
long long redis_time_us(Redis& on = redis());

// Options of a consumer that polls every 20 ms, retries at once and reclaims ended leases from the start.
delayqueue::ConsumerOptions quick(std::size_t concurrency = 1);

// Options of a message that is due after this delay.
delayqueue::SendOptions delayed(std::chrono::milliseconds delay);

// The same, with this id.
delayqueue::SendOptions named(const std::string& id, std::chrono::milliseconds delay = {});

// Options of a Client: how it logs in, how long it waits to connect and for a reply, and with report_events.
delayqueue::ClientOptions logged_in_as(const std::string& user, const std::string& password);
delayqueue::ClientOptions with_timeouts(std::chrono::milliseconds timeout);
delayqueue::ClientOptions reporting_events();

// Options of a Producer whose calls make one attempt, and throw if it fails.
delayqueue::ProducerOptions one_attempt();

// A fresh queue on server(), with a producer, an inspector and an admin.
struct Queue {
  explicit Queue(const std::string& url = server().url(), const delayqueue::ProducerOptions& options = {});

  std::string name = fresh_queue();
  std::string base = "dp:" + name;
  std::string url;
  delayqueue::Client client;  // of the next three
  delayqueue::Producer producer;
  delayqueue::Inspector inspector;
  delayqueue::QueueAdmin admin;

  ConsumerPtr consumer(delayqueue::Handler handler, delayqueue::ConsumerOptions options = quick(),
                       const delayqueue::ClientOptions& client_options = {}) const;
  delayqueue::State state(const std::string& id);
  std::string send(const std::string& payload, const delayqueue::SendOptions& options = {});

  // All keys of the queue except the wake-up keys and the registry of consumers, which come and go.
  Snapshot kept(Redis& on = redis()) const;

  // True if no key is left except totals, settings, wake-up keys and the registry of consumers.
  bool empty(Redis& on = redis()) const;
};

// The counters of one of its queues.
delayqueue::ConsumerStats stats_of(const delayqueue::Consumer& consumer, const std::string& queue);

// A Client whose connections to server() have this name.
delayqueue::Client client_named(const std::string& name);

// The lines of CLIENT LIST about the connections with this client name; the id in such a line; and those of all lines.
std::vector<std::string> connections_named(const std::string& name, Redis& on = redis());
std::string connection_id(const std::string& line);
std::vector<std::string> connection_ids(const std::string& name, Redis& on = redis());

// Closes the connections with this client name. Returns how many it closed.
std::size_t cut_connections(const std::string& name, Redis& on = redis());

// The value of the line "<field>:<value>" in INFO <section>, or "" if there is none.
std::string info(const std::string& section, const std::string& field, Redis& on = redis());

// How often a command was called since the last CONFIG RESETSTAT.
std::size_t calls_of(const std::string& command, Redis& on = redis());

// Returns the type and text of the exception that `call` throws, or "nothing".
std::string thrown(const std::function<void()>& call);

}  // namespace test
