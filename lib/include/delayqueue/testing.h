// For tests of programs that use this library. make_message() is in the library itself; what is in the namespace
// `testing` needs the target delayqueue::testing (pkg-config: delayqueue-testing). See docs/testing.md.
#pragma once

#include <delayqueue/client.h>
#include <delayqueue/consumer.h>
#include <delayqueue/handler.h>
#include <delayqueue/message.h>
#include <delayqueue/producer.h>
#include <delayqueue/sender.h>
#include <delayqueue/server.h>
#include <delayqueue/version.h>

#include <chrono>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {

struct MessageFields {
  std::string id{};  // a UUID; empty: a new UUIDv7, whose time is now
  std::string queue = "test";
  int attempt = 1;
  int retries_left = 3;
  bool lease_lost = false;  // true: the lease is lost from the start; false: it never ends
  Headers headers{};
};

// A message for a handler under test: `handler(make_message("order 42")).kind() == Verdict::Kind::ack`. Throws
// std::invalid_argument if the id is not a UUID.
[[nodiscard]] DELAYQUEUE_EXPORT Message make_message(std::string payload, const MessageFields& fields = {});

namespace testing {

// A Sender that records what it is to send, for tests of code that sends. It needs no Redis. It refuses what a Producer
// refuses, with the same texts, and keeps ids and unique keys as a queue in which no message is ever due. Any thread.
class RecordingSender final : public Sender {
 public:
  // Of the options it uses retries, max_payload, before_send and logger. Throws as the constructor of a Producer.
  explicit RecordingSender(ProducerOptions options = {});
  ~RecordingSender() override;

  // All messages that were stored, also those that were cancelled later, in their order, each with its id in
  // SendOptions::id. One that was replaced or rescheduled is listed once, as it is now.
  [[nodiscard]] std::vector<OutgoingMessage> sent() const;
  // The ids of those that were cancelled, in the order of the calls.
  [[nodiscard]] std::vector<std::string> cancelled() const;

  // The next send, batch, cancel or reschedule throws this exception, and changes nothing; send_async() passes it to
  // `done`. Of a send, a ConnectionError or QueueFull gets the ids of its messages. If it is called again before that,
  // the calls that follow fail, one for each.
  template <class Exception>
  void fail_next(Exception error) {
    add_failure(std::make_exception_ptr(std::move(error)));
  }

 private:
  class Impl;
  void add_failure(std::exception_ptr error);
  Sent do_send(std::string_view payload, const SendOptions& options) override;
  std::vector<Sent> do_send_batch(const std::vector<OutgoingMessage>& messages) override;
  std::vector<Sent> do_send_views(const std::vector<std::string_view>& payloads, const SendOptions& options) override;
  bool do_send_async(std::string& payload, const SendOptions& options, SendCallback& done, bool may_block) override;
  bool do_flush(milliseconds timeout) override;
  State do_cancel(const MessageRef& message) override;
  Outcome do_reschedule(const MessageRef& message, const RescheduleOptions& when) override;

  std::unique_ptr<Impl> impl_;
};

struct SandboxOptions {
  PrivateServerOptions server{};
  KeyOptions keys{};  // of the queues that drain(), play() and sent() work on
};

// One call of a handler by Sandbox::drain() or play().
struct Handled {
  std::string queue{};
  std::string id{};
  std::string payload{};
  int attempt = 1;
  std::optional<Verdict> verdict{};            // unset: the handler took a Delivery
  std::chrono::system_clock::time_point at{};  // when it was called, by Sandbox::now()
};

// A message that waits for a delivery.
struct Waiting {
  std::string id{};
  std::string payload{};
  Headers headers{};
  State state = State::unknown;                 // unack: it is in a backoff
  std::chrono::system_clock::time_point due{};  // when the next delivery is due, by Sandbox::now()
  // The same from now on, rounded up: to 0.1 s, above 10 s to 1 s. So it equals the delay of a send a moment ago.
  milliseconds due_in{0};
  int retries = 0;                    // that are left
  std::optional<milliseconds> ttl{};  // how long after that time it expires, rounded up in the same way; unset: never
  std::string key{};                  // see UniqueOptions; empty: none
};

using Handlers = std::map<std::string, Handler>;  // by the names of their queues

// A private Redis whose clock the test moves. For the library Redis has the only clock, so all that has a time behaves
// as if that time had passed: due times, backoffs, leases, TTLs, pauses, schedules, limits, unique windows, and the
// retention of dead letters. The clock of the process does not move: use SendOptions::delay, or now() for
// SendOptions::at.
//
// Needs Linux, and a redis-server that is linked dynamically. It starts in some 20 ms; each test may have one, and
// several may run at the same time. It ends with this object or with the process, and leaves no process and no file
// behind, even if the process is killed. One thread at a time.
//
// A wrong use, such as a handler that sends to its queue without end, throws std::logic_error, which names the queue,
// the messages and what to change.
class Sandbox {
 public:
  // Throws SetupError if there is no such server, or its clock cannot be moved; otherwise as PrivateServer.
  explicit Sandbox(SandboxOptions options = {});
  ~Sandbox();
  Sandbox(const Sandbox&) = delete;
  Sandbox& operator=(const Sandbox&) = delete;

  std::string url() const;       // for Producer, Consumer, Inspector and so on
  const Client& client() const;  // the same, with SandboxOptions::keys
  PrivateServer& server();       // kill() and restart() make faults

  // The time on the server.
  [[nodiscard]] std::chrono::system_clock::time_point now() const;

  // Lets this time pass; at least 0. Idle consumers of the test notice at once. Throws std::logic_error if messages are
  // still in flight after 5 s: living consumers would have renewed their leases, so wait for the handlers; of dead
  // ones, see lose_leases().
  void advance(milliseconds by);

  // Lets time pass until the leases of all messages in flight have ended, as after the death of their consumers.
  void lose_leases();

  // Delivers all that is due now. Calls the handler in this thread, where the assertions of a test framework work, for
  // one message at a time. Returns its calls when nothing is due any more; at most 10,000. An exception of the handler
  // is a nack, as in a Consumer. One that is no std::exception, such as those by which frameworks end a test, is
  // rethrown then.
  //
  // The consumer is a real one with these options, except concurrency and tuning. Messages in flight elsewhere are left
  // alone. The queue is as empty then as its pause and limits allow. Throws as Consumer::start().
  std::vector<Handled> drain(const QueueName& queue, const Handler& handler, const ConsumerOptions& options = {});

  // Lets this time pass, besides that which the handlers take. Delivers all that is due in it, at its time, as drain()
  // does: jumps from one due time, slot, or end of a backoff, lease or pause to the next.
  std::vector<Handled> play(milliseconds time, const Handlers& handlers, const ConsumerOptions& options = {});

  // What waits in the queue, the earliest first: neither messages in flight nor dead letters.
  [[nodiscard]] std::vector<Waiting> sent(const QueueName& queue);
  // The first of these with this payload; unset: there is none.
  [[nodiscard]] std::optional<Waiting> find(const QueueName& queue, std::string_view payload);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace testing
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
