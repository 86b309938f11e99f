#include "producer/async.h"

#include "os/resources.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace delayqueue {
namespace {

constexpr std::size_t kMaxSends = 10'000;  // documented in producer.h, as is the next
constexpr std::size_t kMaxBytes = 16 * 1024 * 1024;
constexpr std::size_t kMaxBatch = 2'000;  // less than kMaxSends: while a batch is in flight, callers fill the next one

}  // namespace

AsyncQueue::~AsyncQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

// A message that is larger than the limit is accepted when no other is outstanding.
bool AsyncQueue::has_room(std::size_t bytes) const {
  return outstanding_ == 0 || (outstanding_ < kMaxSends && outstanding_bytes_ + bytes <= kMaxBytes);
}

std::future<Sent> AsyncQueue::enqueue(AsyncSend send) {
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

void AsyncQueue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !sends_.empty(); });
    if (sends_.empty()) return;
    std::vector<AsyncSend> sends = take_batch();
    lock.unlock();
    const std::vector<SendRequest> requests = send(sends);
    lock.lock();
    outstanding_ -= sends.size();
    for (const AsyncSend& send : sends) outstanding_bytes_ -= send.size();
    room_.notify_all();
    lock.unlock();
    sends.clear();
    reporter_.sent(router_, requests);
    lock.lock();
  }
}

std::vector<AsyncSend> AsyncQueue::take_batch() {
  const auto count = static_cast<std::ptrdiff_t>(std::min(sends_.size(), kMaxBatch));
  const auto begin = std::make_move_iterator(sends_.begin());
  std::vector<AsyncSend> sends(begin, begin + count);
  sends_.erase(sends_.begin(), sends_.begin() + count);
  return sends;
}

std::vector<SendRequest> AsyncQueue::send(std::vector<AsyncSend>& sends) {
  std::vector<SendRequest> requests(sends.size());
  for (std::size_t i = 0; i < sends.size(); ++i) {
    requests[i].messages.push_back({std::move(sends[i].id), sends[i].payload, &sends[i].terms, sends[i].headers});
  }
  const auto began = std::chrono::steady_clock::now();
  router_.send(requests);
  reporter_.count(requests, began);
  for (std::size_t i = 0; i < sends.size(); ++i) {
    if (requests[i].failure) {
      sends[i].promise.set_exception(requests[i].error());
    } else {
      sends[i].promise.set_value(requests[i].messages.front().result());
    }
  }
  return requests;
}

}  // namespace delayqueue
