#include "producer/async.h"

#include "os/resources.h"
#include "queue/option_checks.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace delayqueue {
namespace {

constexpr std::size_t kMaxSends = 10'000;  // documented in sender.h, as is the next
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
bool AsyncQueue::fits(std::size_t bytes) const {
  return outstanding_ == 0 || (outstanding_ < kMaxSends && outstanding_bytes_ + bytes <= kMaxBytes);
}

bool AsyncQueue::enqueue(AsyncSend send, std::string& payload, bool may_block) {
  const std::size_t bytes = payload.size() + send.headers.size();
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) thread_ = start_thread("send_async", [this] { run(); });
  if (!may_block) {
    if (!fits(bytes)) return false;
  } else if (std::this_thread::get_id() != thread_.get_id()) {
    room_.wait(lock, [&] { return fits(bytes); });
  }
  sends_.push_back(std::move(send));
  sends_.back().payload = std::move(payload);
  ++queued_;
  ++outstanding_;
  outstanding_bytes_ += bytes;
  if (sends_.size() == 1) changed_.notify_one();
  return true;
}

bool AsyncQueue::flush(milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto finished = [this, all = queued_] { return with_result_ >= all; };
  if (std::this_thread::get_id() == thread_.get_id()) return finished();
  return finished_.wait_for(lock, std::clamp(timeout, milliseconds(0), kLongest), finished);
}

void AsyncQueue::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !sends_.empty(); });
    if (sends_.empty()) return;
    std::vector<AsyncSend> sends = take_batch();
    lock.unlock();
    std::size_t bytes = 0;
    for (const AsyncSend& send : sends) bytes += send.size();
    const std::vector<SendRequest> requests = send(sends);
    for (AsyncSend& send : sends) std::string().swap(send.payload);  // callers may fill the room now
    lock.lock();
    outstanding_ -= sends.size();
    outstanding_bytes_ -= bytes;
    room_.notify_all();
    lock.unlock();
    give_results(sends, requests);
    const std::size_t count = sends.size();
    sends.clear();  // destroys the callbacks before flush() returns
    lock.lock();
    with_result_ += count;
    finished_.notify_all();
    lock.unlock();
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
    requests[i].messages.push_back(
        {std::move(sends[i].id), sends[i].payload, &sends[i].terms, sends[i].headers, sends[i].key});
  }
  const auto began = std::chrono::steady_clock::now();
  router_.send(requests, began);
  reporter_.count(requests, began);
  return requests;
}

void AsyncQueue::give_results(const std::vector<AsyncSend>& sends, const std::vector<SendRequest>& requests) {
  for (std::size_t i = 0; i < sends.size(); ++i) {
    const PendingMessage& message = requests[i].messages.front();
    const AsyncSent result =
        requests[i].failure ? AsyncSent(requests[i].error(), message.id) : AsyncSent(message.result());
    try {
      sends[i].done(result);
    } catch (...) {
      reporter_.sink().log(Severity::error, "the callback of send_async threw: " + current_exception_text());
    }
  }
}

}  // namespace delayqueue
