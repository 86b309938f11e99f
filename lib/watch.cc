#include "watch.h"

namespace delayqueue {
namespace {

constexpr std::chrono::seconds kBlock{5};          // then Redis answers "nothing": a sign of life
constexpr std::chrono::seconds kRefusedPause{10};  // a user without the right to block polls, and need not ask often

}  // namespace

void Watch::begin() noexcept {
  const Clock::time_point now = Clock::now();
  if (waiting_ && now >= until_) drop();
  if (waiting_ || now < connect_at_) return;
  try {
    if (connection_ == nullptr) connection_ = endpoint_.connect();
    std::string request;
    redis::append_command(request, {"BZPOPMIN", endpoint_.keys().wake, std::to_string(kBlock.count())});
    connection_->write(request);
    waiting_ = true;
    until_ = now + kBlock + patience_;
  } catch (const ReplyError&) {
    drop();
    connect_at_ = now + kRefusedPause;
  } catch (const std::exception&) {
    drop();
  }
}

bool Watch::found() noexcept {
  if (!waiting_) return false;
  try {
    const redis::ReplyPtr reply = connection_->read_until(Clock::now());
    if (reply == nullptr) return false;
    waiting_ = false;
    const redis::Reply answer(reply.get());
    if (!answer.is_error()) return !answer.is_nil();
    drop();
    if (!redis::is_temporary(answer.text())) connect_at_ = Clock::now() + kRefusedPause;
  } catch (const std::exception&) {
    drop();
  }
  return false;
}

void Watch::drop() {
  connection_.reset();
  waiting_ = false;
  connect_at_ = Clock::now() + patience_;
}

}  // namespace delayqueue
