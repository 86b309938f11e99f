#include "consumer/wakeups.h"

#include "redis/resp.h"
#include "store/keys.h"

#include <delayqueue/error.h>

#include <sys/socket.h>
#include <algorithm>
#include <utility>

namespace delayqueue {
namespace {

constexpr std::chrono::seconds kBlock{5};  // then Redis answers nil, which shows that the connection works
constexpr const char* kBlockText = "5";
constexpr const char* kShortBlockText = "0.1";     // while some queues are left out
constexpr std::chrono::seconds kRefusedPause{10};  // a user without the right to block polls; retry rarely
constexpr milliseconds kFirstPause{50};            // after a broken connection; doubles up to the patience

}  // namespace

// ---- WakeupListener -------------------------------------------------------------------------------------------------

void WakeupListener::begin(const std::vector<std::string>& keys, bool all,
                           const std::vector<std::string>& emptied) noexcept {
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
    emptied_.clear();
    for (const std::string& key : emptied) {
      if (leaves_out(key)) continue;
      emptied_.push_back(key);
      redis::append_command(request, {"ZPOPMIN", key, std::to_string(store::kMostPartitions)});  // after the wait
    }
    connection_->write(request);
    waiting_ = true;
    unread_ = 1 + emptied_.size();
    until_ = now + kBlock + patience_;
  } catch (const ReplyError&) {
    drop(kRefusedPause);
  } catch (const std::exception&) {
    drop_broken();
    // This thread also renews leases, so slow attempts must be rare.
    connect_at_ = std::max(connect_at_, Clock::now() + 10 * (Clock::now() - now));
  }
}

// Connects if there is no connection.
bool WakeupListener::has_connected() {
  if (connection_ != nullptr) return true;
  connected_at_ = Clock::now();
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
    receive_until(Clock::now());
  } catch (const std::exception&) {
    drop_broken();
  }
  if (markers_.empty()) return std::nullopt;
  Marker marker = std::move(markers_.front());
  markers_.pop_front();
  return marker;
}

void WakeupListener::receive_until(Clock::time_point deadline) {
  while (waiting_) {
    const redis::ReplyPtr reply = connection_->read_until(deadline);
    if (reply == nullptr) return;
    read(redis::Reply(reply.get()));
  }
}

void WakeupListener::read(redis::Reply answer) {
  const bool elsewhere =
      connection_->redirection(answer).has_value() || (answer.is_error() && redis::is_temporary(answer.text()));
  if (elsewhere) return drop_broken();
  if (unchecked_ > 0) return read_check(answer);
  if (unread_ > emptied_.size()) {
    is_refused_ = answer.is_error();
    if (!is_refused_ && !answer.is_nil()) {
      ++first_;  // a key that always has a member must not hide the others
      add_marker(std::string(answer[0].text()), answer[1], answer[2]);
    }
  } else if (!answer.is_error()) {  // without the right to ZPOPMIN each wait brings one marker
    const std::string& key = emptied_[emptied_.size() - unread_];
    for (std::size_t i = 0; i + 1 < answer.size(); i += 2) add_marker(key, answer[i], answer[i + 1]);
  }
  if (--unread_ > 0) return;
  if (is_refused_) return check_keys();
  waiting_ = false;
  backoff_.succeeded(connected_at_);
}

void WakeupListener::add_marker(const std::string& key, redis::Reply member, redis::Reply due) {
  markers_.push_back(
      {key, std::string(member.text()), std::string(due.text()), due.text() == "0", member.text() != store::kMarker});
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

WakeupListener::Left WakeupListener::leave(Clock::time_point until) noexcept {
  try {
    if (unchecked_ == 0) receive_until(until);
  } catch (const std::exception&) {  // the end of the stream: Redis closed the connection
  }
  Left left{std::exchange(markers_, {}), waiting_};
  drop(milliseconds(0));
  return left;
}

void WakeupListener::end() {
  if (opening_) opening_->wait();
  drop(milliseconds(0));
}

void WakeupListener::drop_broken() {
  backoff_.failed("", {kFirstPause, patience_}, Clock::now());
  drop(backoff_.left(Clock::now()));
}

void WakeupListener::drop(Clock::duration pause) {
  connection_.reset();
  waiting_ = false;
  unread_ = unchecked_ = 0;
  connect_at_ = Clock::now() + pause;
}

// ---- Wakeups --------------------------------------------------------------------------------------------------------

void Wakeups::receive(const WakeupListener::Marker& marker) {
  const WakeupListener::Marker before = received_.value_or(marker);
  received_ = marker;
  received_->ready = marker.ready || before.ready;
  received_->foreign = marker.foreign || before.foreign;
}

// Another consumer is woken if more waits than this one can take: once, until there is room again.
std::optional<WakeupListener::Marker> Wakeups::read(bool full, bool more_ready) {
  auto marker = std::exchange(received_, std::nullopt);
  if (marker && marker->foreign) clear_wake_ = true;  // there may be a million more
  const bool signalled = std::exchange(overflow_signalled_, full);
  if ((full && more_ready && !signalled) || (marker && full)) wake_another_ = true;
  return marker;
}

bool Wakeups::add(RoundTrip& round_trip, bool stopping) {
  redis::Pipeline& pipeline = round_trip.pipeline();
  const store::Moves& moves = partition_.moves;
  bool removes = std::exchange(clear_wake_, false);
  if (removes) moves.clear_wake(pipeline);
  if (std::exchange(wake_another_, false)) {
    if (is_home()) {
      moves.wake(pipeline);
    } else {
      partition_.queue.add_marker(partition_.number, "0");
    }
  }
  if (stopping && (is_watcher_ || lost_marker_)) {
    is_watcher_ = lost_marker_ = false;
    moves.leave_watch(pipeline, partition_.queue.consumer);
    forward_marker(round_trip);
  }
  if (is_home()) removes = add_markers(round_trip) || removes;
  return removes;
}

bool Wakeups::add_markers(RoundTrip& round_trip) {
  const bool removes = std::exchange(partition_.queue.clears_wakes, false);
  if (removes) partition_.moves.clear_wakes(round_trip.pipeline());
  for (const auto& [number, due] : std::exchange(partition_.queue.markers, {})) {
    partition_.moves.wake_for(round_trip.pipeline(), number, due);
  }
  return removes;
}

void Wakeups::forward_marker(RoundTrip& round_trip) {
  if (is_home()) return;
  round_trip.expect(partition_.moves.take_marker(round_trip.pipeline()), [this](const auto& answer) {
    try {
      if (const auto due = answer.get()) partition_.queue.add_marker(partition_.number, *due);
    } catch (const ReplyError&) {  // without the right to it other consumers find the message when they poll
    }
  });
}

}  // namespace delayqueue
