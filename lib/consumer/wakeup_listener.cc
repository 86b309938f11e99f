#include "consumer/wakeup_listener.h"

#include "redis/resp.h"

#include <sys/socket.h>

#include <algorithm>

namespace delayqueue {
namespace {

constexpr std::chrono::seconds kBlock{5};  // then Redis answers nil, which shows that the connection works
constexpr const char* kBlockText = "5";
constexpr const char* kShortBlockText = "0.1";     // while some queues are left out
constexpr std::chrono::seconds kRefusedPause{10};  // a user without the right to block polls; retry rarely
constexpr milliseconds kFirstPause{50};            // after a broken connection; doubles up to the patience

}  // namespace

void WakeupListener::begin(const std::vector<std::string>& keys, bool all) noexcept {
  const Clock::time_point now = Clock::now();
  if (waiting_ && now >= until_) drop_broken();
  if (waiting_ || now < connect_at_) return;
  if (now >= refused_until_) refused_.clear();
  try {
    keys_.clear();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const std::string& key = keys[(first_ + i) % keys.size()];
      if (refused_.count(key) == 0) keys_.push_back(key);
    }
    if (keys_.empty()) return;
    if (!has_connected()) return;
    std::string request;
    redis::append_head(request, '*', keys_.size() + 2);
    redis::append_word(request, "BZPOPMIN");
    for (const std::string& key : keys_) redis::append_word(request, key);
    redis::append_word(request, all ? kBlockText : kShortBlockText);
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

// Whether the other thread has nothing for begin() yet.
bool WakeupListener::is_opening() const {
  if (!opening_ || connection_ != nullptr) return false;
  return opening_->is_started() ? !opening_->has_ended() : !opening_->may_start();
}

// Connects if there is no connection.
bool WakeupListener::has_connected() {
  if (connection_ != nullptr) return true;
  if (!opening_) {
    connection_ = endpoint_.connect_to_master();
  } else if (opening_->is_started()) {
    connection_ = opening_->finish();
  } else {
    opening_->start([this] { return endpoint_.connect_to_master(); });
  }
  return connection_ != nullptr;
}

std::optional<WakeupListener::Marker> WakeupListener::read() noexcept {
  try {
    while (waiting_) {
      const redis::ReplyPtr reply = connection_->read_until(Clock::now());
      if (reply == nullptr) return std::nullopt;
      const redis::Reply answer(reply.get());
      const bool elsewhere =
          connection_->redirection(answer).has_value() || (answer.is_error() && redis::is_temporary(answer.text()));
      if (elsewhere) {
        drop_broken();
      } else if (unchecked_ > 0) {
        read_check(answer);
      } else if (answer.is_error()) {
        check_keys();
      } else {
        waiting_ = false;
        pause_ = milliseconds(0);
        if (answer.is_nil()) return std::nullopt;
        ++first_;  // a key that always has a member must not hide the others
        return marker_in(answer);
      }
    }
  } catch (const std::exception&) {
    drop_broken();
  }
  return std::nullopt;
}

std::optional<WakeupListener::Marker> WakeupListener::marker_in(redis::Reply answer) {
  const auto text = [&](std::size_t i) { return std::string(answer[i].text()); };
  return Marker{text(0), text(1), text(2), text(2) == "0", text(1) != store::kMarker};
}

// Redis has refused to wait for several keys: one of a wrong type, or without permission, is enough for that. Only
// those are left out then. Their answers are read as those that bring a marker: this thread does not wait.
void WakeupListener::check_keys() {
  if (keys_.size() == 1) return drop(kRefusedPause);
  std::string requests;
  for (const std::string& key : keys_) redis::append_command(requests, {"ZCARD", key});
  connection_->write(requests);
  unchecked_ = keys_.size();
  until_ = Clock::now() + patience_;
}

void WakeupListener::read_check(redis::Reply answer) {
  if (answer.is_error()) refused_.insert(keys_[keys_.size() - unchecked_]);
  if (--unchecked_ > 0) return;
  waiting_ = false;
  const auto refused = [this](const std::string& key) { return leaves_out(key); };
  const auto found = static_cast<std::size_t>(std::count_if(keys_.begin(), keys_.end(), refused));
  if (found == 0 || found == keys_.size()) return drop(kRefusedPause);  // the command itself is refused
  refused_until_ = Clock::now() + kRefusedPause;
}

void WakeupListener::begin_leaving() noexcept {
  if (waiting_) ::shutdown(connection_->fd(), SHUT_WR);
}

std::optional<WakeupListener::Marker> WakeupListener::leave(Clock::time_point until) noexcept {
  std::optional<Marker> marker;
  try {
    const redis::ReplyPtr reply = waiting_ && unchecked_ == 0 ? connection_->read_until(until) : nullptr;
    const redis::Reply answer(reply.get());
    if (reply != nullptr && !answer.is_error() && !answer.is_nil()) marker = marker_in(answer);
  } catch (const std::exception&) {  // the end of the stream: Redis closed the connection
  }
  drop(milliseconds(0));
  return marker;
}

void WakeupListener::end() {
  if (opening_) opening_->wait();
  drop(milliseconds(0));
}

void WakeupListener::drop_broken() {
  pause_ = std::min(std::max(2 * pause_, kFirstPause), patience_);
  drop(pause_);
}

void WakeupListener::drop(milliseconds pause) {
  connection_.reset();
  waiting_ = false;
  unchecked_ = 0;
  connect_at_ = Clock::now() + pause;
}

}  // namespace delayqueue
