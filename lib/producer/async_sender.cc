#include "producer/async_sender.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace delayqueue {
namespace {

constexpr std::size_t kMostLetters = 10'000;  // as producer.h has it
constexpr std::size_t kMostBytes = 16 * 1024 * 1024;
constexpr std::size_t kTaken = 2'000;  // at a time: meanwhile others fill the room

}  // namespace

Courier::~Courier() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

// One that is larger than all the room there is goes alone.
bool Courier::has_room(std::size_t bytes) const {
  return count_ == 0 || (count_ < kMostLetters && bytes_ + bytes <= kMostBytes);
}

std::future<Sent> Courier::give(Letter letter) {
  std::future<Sent> future = letter.promise.get_future();
  const std::size_t bytes = letter.payload.size();
  std::unique_lock lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  if (std::this_thread::get_id() != thread_.get_id()) room_.wait(lock, [&] { return has_room(bytes); });
  letters_.push_back(std::move(letter));
  ++count_;
  bytes_ += bytes;
  if (letters_.size() == 1) changed_.notify_one();
  return future;
}

void Courier::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || !letters_.empty(); });
    if (letters_.empty()) return;
    std::vector<Letter> letters = take_some();
    lock.unlock();
    const std::vector<Sent> sent = deliver(letters);
    lock.lock();
    count_ -= letters.size();
    for (const Letter& letter : letters) bytes_ -= letter.payload.size();
    room_.notify_all();
    lock.unlock();
    letters.clear();
    tell_(sent);
    lock.lock();
  }
}

std::vector<Courier::Letter> Courier::take_some() {
  const auto count = static_cast<std::ptrdiff_t>(std::min(letters_.size(), kTaken));
  const auto begin = std::make_move_iterator(letters_.begin());
  std::vector<Letter> letters(begin, begin + count);
  letters_.erase(letters_.begin(), letters_.begin() + count);
  return letters;
}

std::vector<Sent> Courier::deliver(std::vector<Letter>& letters) {
  std::vector<Parcel> parcels(letters.size());
  for (std::size_t i = 0; i < letters.size(); ++i) {
    parcels[i].messages.push_back({letters[i].payload, &letters[i].terms});
    parcels[i].sent.push_back({std::move(letters[i].id), false});
  }
  outbox_.send(parcels);
  std::vector<Sent> sent;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    try {
      parcels[i].check();
      sent.push_back(parcels[i].sent.front());
      letters[i].promise.set_value(std::move(parcels[i].sent.front()));
    } catch (...) {
      letters[i].promise.set_exception(std::current_exception());
    }
  }
  return sent;
}

}  // namespace delayqueue
