// For tests of programs that use this library. make_message() is in the library itself; what is in the namespace
// `testing` needs the target delayqueue::testing (pkg-config: delayqueue-testing). See docs/testing.md.
#pragma once

#include <delayqueue/message.h>
#include <delayqueue/producer.h>
#include <delayqueue/sender.h>
#include <delayqueue/version.h>

#include <exception>
#include <memory>
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

}  // namespace testing
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
