#include <delayqueue/sender.h>

#include "queue/option_checks.h"
#include "redis/escaped.h"

#include <memory>
#include <stdexcept>

namespace delayqueue {
namespace {

void check_done(const SendCallback& done) {
  if (!done) throw std::invalid_argument("done: empty; expected a function, which gets the result");
}

}  // namespace

Sender::~Sender() = default;

void Sender::check(const ProducerOptions& options) { validate(options); }

void Sender::check(std::string_view payload, const SendOptions& options, const ProducerOptions& producer) {
  check_payload(payload, producer);
  static_cast<void>(terms_of(options, producer));
  static_cast<void>(packed_headers(options.headers));
  static_cast<void>(id_of(options));
}

void Sender::check(const RescheduleOptions& when) { static_cast<void>(due_of(when.delay, when.at)); }

std::string Sender::checked(const MessageRef& message) {
  if (!message.key()) return id_of(message);
  check_key("key", message.key()->str());
  return "";
}

std::vector<Sent> Sender::send_views(const std::vector<std::string_view>& payloads, const SendOptions& options) {
  if (!options.id.empty())
    throw std::invalid_argument("id: " + options.id + "; every message of a batch needs its own");
  if (!options.unique.key.empty()) {
    throw std::invalid_argument("unique.key: \"" + redis::escaped(options.unique.key) +
                                "\"; every message of a batch needs its own");
  }
  return do_send_views(payloads, options);
}

void Sender::send_async(std::string payload, const SendOptions& options, SendCallback done) {
  check_done(done);
  do_send_async(payload, options, done, true);
}

bool Sender::try_send_async(std::string&& payload, const SendOptions& options, SendCallback done) {
  check_done(done);
  return do_send_async(payload, options, done, false);
}

std::future<Sent> Sender::send_async(std::string payload, const SendOptions& options) {
  const auto promise = std::make_shared<std::promise<Sent>>();
  SendCallback done = [promise](const AsyncSent& result) {
    if (result) {
      promise->set_value(result.get());
    } else {
      promise->set_exception(result.error());
    }
  };
  std::future<Sent> future = promise->get_future();
  do_send_async(payload, options, done, true);
  return future;
}

}  // namespace delayqueue
