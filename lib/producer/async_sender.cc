#include "producer/async_sender.h"

#include "os/resources.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace delayqueue {
namespace {

constexpr std::size_t kMaxSends = 10'000;  // documented in producer.h, as is the next
constexpr std::size_t kMaxBytes = 16 * 1024 * 1024;
constexpr std::size_t kMaxBatch = 2'000;  // less than kMaxSends: while a batch is in flight, callers fill the next one

}  // namespace

AsyncSender::~AsyncSender() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

// A message that is larger than the limit is accepted when no other is outstanding.
bool AsyncSender::has_room(std::size_t bytes) const {
  return outstanding_ == 0 || (outstanding_ < kMaxSends && outstanding_bytes_ + bytes <= kMaxBytes);
}

std::future<Sent> AsyncSender::enqueue(AsyncSend send) {
  std::future<Sent> future = send.promise.get_future();
  const std::size_t bytes = send.size();
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) thread_ = start_thread("send_async", [this] { run(); });
  if (std::this_thread::get_id() != thread_.get_id()) room_.wait(lock, [&] { return has_room(bytes); });
  sends_.push_back(std::move(send));
  ++outstanding_;
  outstanding_bytes_ += bytes;
  if (sends_.size() == 1) changed_.notify_one();
  return future;
}

void AsyncSender::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !sends_.empty(); });
    if (sends_.empty()) return;
    std::vector<AsyncSend> sends = take_batch();
    lock.unlock();
    const std::vector<Sent> sent = flush(sends);
    lock.lock();
    outstanding_ -= sends.size();
    for (const AsyncSend& send : sends) outstanding_bytes_ -= send.size();
    room_.notify_all();
    lock.unlock();
    sends.clear();
    on_sent_(sent);
    lock.lock();
  }
}

std::vector<AsyncSender::AsyncSend> AsyncSender::take_batch() {
  const auto count = static_cast<std::ptrdiff_t>(std::min(sends_.size(), kMaxBatch));
  const auto begin = std::make_move_iterator(sends_.begin());
  std::vector<AsyncSend> sends(begin, begin + count);
  sends_.erase(sends_.begin(), sends_.begin() + count);
  return sends;
}

std::vector<Sent> AsyncSender::flush(std::vector<AsyncSend>& sends) {
  std::vector<SendRequest> requests(sends.size());
  for (std::size_t i = 0; i < sends.size(); ++i) {
    requests[i].messages.push_back({sends[i].payload, &sends[i].terms, sends[i].headers});
    requests[i].sent.push_back({std::move(sends[i].id), false});
  }
  {
    SendTimer timer(counters_, sends.size());
    spreader_.send(requests);
    const auto succeeded = [](const SendRequest& request) { return request.error == nullptr; };
    timer.succeeded(static_cast<std::size_t>(std::count_if(requests.begin(), requests.end(), succeeded)));
  }
  std::vector<Sent> sent;
  for (std::size_t i = 0; i < sends.size(); ++i) {
    try {
      requests[i].check();
      sent.push_back(requests[i].sent.front());
      sends[i].promise.set_value(std::move(requests[i].sent.front()));
    } catch (...) {
      sends[i].promise.set_exception(std::current_exception());
    }
  }
  return sent;
}

}  // namespace delayqueue
