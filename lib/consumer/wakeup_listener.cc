#include "consumer/wakeup_listener.h"

#include <sys/socket.h>

#include <algorithm>

namespace delayqueue {
namespace {

constexpr std::chrono::seconds kBlock{5};          // then Redis answers nil, which shows that the connection works
constexpr std::chrono::seconds kRefusedPause{10};  // a user without the right to block polls; retry rarely
constexpr milliseconds kFarewell{200};             // for Redis to notice the end of the connection
constexpr milliseconds kFirstPause{50};            // after a broken connection; doubles up to the patience

}  // namespace

void WakeupListener::begin() noexcept {
  const Clock::time_point now = Clock::now();
  if (waiting_ && now >= until_) drop_broken();
  if (waiting_ || now < connect_at_) return;
  try {
    if (connection_ == nullptr) connection_ = endpoint_.connect();
    std::string request;
    redis::append_command(request, {"BZPOPMIN", endpoint_.keys().wake, std::to_string(kBlock.count())});
    connection_->write(request);
    waiting_ = true;
    until_ = now + kBlock + patience_;
  } catch (const ReplyError&) {
    drop(kRefusedPause);
  } catch (const std::exception&) {
    drop_broken();
    // This thread also renews leases, so slow attempts must be rare.
    connect_at_ = std::max(connect_at_, Clock::now() + 10 * (Clock::now() - now));
  }
}

bool WakeupListener::found() noexcept {
  if (!waiting_) return false;
  try {
    const redis::ReplyPtr reply = connection_->read_until(Clock::now());
    if (reply == nullptr) return false;
    waiting_ = false;
    const redis::Reply answer(reply.get());
    if (!answer.is_error()) {
      pause_ = milliseconds(0);
      if (answer.is_nil()) return false;
      foreign_ = foreign_ || answer[1].text() != store::kMarker;
      ready_ = ready_ || answer[2].text() == "0";
      return true;
    }
    const bool elsewhere = connection_->redirection(answer).has_value() || redis::is_temporary(answer.text());
    elsewhere ? drop_broken() : drop(kRefusedPause);
  } catch (const std::exception&) {
    drop_broken();
  }
  return false;
}

bool WakeupListener::leave() noexcept {
  bool found = false;
  try {
    if (waiting_) ::shutdown(connection_->fd(), SHUT_WR);
    const redis::ReplyPtr reply = waiting_ ? connection_->read_until(Clock::now() + kFarewell) : nullptr;
    const redis::Reply answer(reply.get());
    found = reply != nullptr && !answer.is_error() && !answer.is_nil();
  } catch (const std::exception&) {  // the end of the stream: Redis closed the connection
  }
  end();
  return found;
}

void WakeupListener::drop_broken() {
  pause_ = std::min(std::max(2 * pause_, kFirstPause), patience_);
  drop(pause_);
}

void WakeupListener::drop(milliseconds pause) {
  connection_.reset();
  waiting_ = false;
  connect_at_ = Clock::now() + pause;
}

}  // namespace delayqueue
