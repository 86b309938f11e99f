#include <delayqueue/sender.h>

#include <memory>
#include <stdexcept>

namespace delayqueue {
namespace {

void check_done(const SendCallback& done) {
  if (!done) throw std::invalid_argument("done: empty; expected a function, which gets the result");
}

}  // namespace

Sender::~Sender() = default;

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
