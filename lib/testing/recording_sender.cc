#include <delayqueue/testing.h>

#include <delayqueue/error.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {
namespace testing {
namespace {

// Throws the exception; if it has no ids, with these.
[[noreturn]] void raise(const std::exception_ptr& error, const std::vector<std::string>& ids) {
  try {
    std::rethrow_exception(error);
  } catch (const ConnectionError& e) {
    if (!e.ids().empty()) throw;
    throw ConnectionError(e.what(), ids, e.not_sent());
  } catch (const QueueFull& e) {
    if (!e.ids().empty()) throw;
    throw QueueFull(e.what(), ids);
  }
}

// Calls functions in their order, in another thread.
class Caller {
 public:
  Caller() = default;
  ~Caller() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  void add(std::function<void()> function) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(function));
    ++added_;
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    changed_.notify_all();
  }

  // Waits until all that was added so far has returned.
  bool wait(milliseconds timeout) {
    std::unique_lock lock(mutex_);
    if (std::this_thread::get_id() == thread_.get_id()) return false;
    return changed_.wait_for(lock, timeout, [this, until = added_] { return called_ >= until; });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ends_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      {
        const std::function<void()> function = std::move(waiting_.front());
        waiting_.pop_front();
        lock.unlock();
        function();
      }
      lock.lock();
      ++called_;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;
  std::size_t added_ = 0, called_ = 0;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace

class RecordingSender::Impl {
 public:
  explicit Impl(ProducerOptions producer) : options(std::move(producer)) {}

  std::vector<Sent> send(std::vector<OutgoingMessage> messages);
  State cancel(const MessageRef& message, const std::string& id);
  Outcome reschedule(const MessageRef& message, const std::string& id, const RescheduleOptions& when);
  void call_back(const SendCallback& done, const AsyncSent& result) const;

  const ProducerOptions options;
  mutable std::mutex mutex;  // guards the rest, except `caller`
  std::vector<OutgoingMessage> sent{};
  std::vector<std::string> cancelled{};
  std::deque<std::exception_ptr> failures{};
  Caller caller{};  // last: its thread uses the members above

 private:
  Sent store(OutgoingMessage message);
  OutgoingMessage* find(const std::string& id);
  OutgoingMessage* find_key(const std::string& key);
  OutgoingMessage* find(const MessageRef& message, const std::string& id) {
    return message.key() ? find_key(message.key()->str()) : find(id);
  }
  void fail(const std::vector<std::string>& ids);

  std::map<std::string, std::size_t> live_{};  // id -> its place in `sent`; without those that are cancelled
};

void RecordingSender::Impl::fail(const std::vector<std::string>& ids) {
  if (failures.empty()) return;
  const std::exception_ptr error = failures.front();
  failures.pop_front();
  raise(error, ids);
}

OutgoingMessage* RecordingSender::Impl::find(const std::string& id) {
  const auto found = live_.find(id);
  return found == live_.end() ? nullptr : &sent[found->second];
}

OutgoingMessage* RecordingSender::Impl::find_key(const std::string& key) {
  const auto has_key = [&](const auto& one) { return sent[one.second].options.unique.key == key; };
  const auto found = std::find_if(live_.begin(), live_.end(), has_key);
  return found == live_.end() ? nullptr : &sent[found->second];
}

Sent RecordingSender::Impl::store(OutgoingMessage message) {
  const SendOptions& given = message.options;
  if (find(given.id) != nullptr) return {given.id, SendResult::existed};
  OutgoingMessage* const holder = given.unique.key.empty() ? nullptr : find_key(given.unique.key);
  if (holder == nullptr) {
    live_[given.id] = sent.size();
    sent.push_back(std::move(message));
    return {sent.back().options.id, SendResult::created};
  }
  if (given.unique.on_conflict == OnConflict::keep) return {holder->options.id, SendResult::kept};
  if (given.unique.on_conflict == OnConflict::postpone) {
    holder->options.delay = given.delay;
    holder->options.at = given.at;
  }
  holder->options.headers = given.headers;
  holder->payload = std::move(message.payload);
  return {holder->options.id, SendResult::replaced};
}

std::vector<Sent> RecordingSender::Impl::send(std::vector<OutgoingMessage> messages) {
  std::vector<std::string> ids;
  ids.reserve(messages.size());
  for (OutgoingMessage& message : messages) {
    if (message.options.id.empty()) message.options.id = new_id();
    ids.push_back(message.options.id);
  }
  const std::lock_guard lock(mutex);
  fail(ids);
  std::vector<Sent> results;
  results.reserve(messages.size());
  for (OutgoingMessage& message : messages) results.push_back(store(std::move(message)));
  return results;
}

State RecordingSender::Impl::cancel(const MessageRef& message, const std::string& id) {
  const std::lock_guard lock(mutex);
  fail({});
  const OutgoingMessage* const found = find(message, id);
  if (found == nullptr) return State::unknown;
  const bool waits = found->options.at || found->options.delay.count() > 0;
  cancelled.push_back(found->options.id);
  live_.erase(found->options.id);
  return waits ? State::pending : State::ready;
}

Outcome RecordingSender::Impl::reschedule(const MessageRef& message, const std::string& id,
                                          const RescheduleOptions& when) {
  const std::lock_guard lock(mutex);
  fail({});
  OutgoingMessage* const found = find(message, id);
  if (found == nullptr) return Outcome::unknown;
  found->options.delay = when.delay;
  found->options.at = when.at;
  return Outcome::done;
}

void RecordingSender::Impl::call_back(const SendCallback& done, const AsyncSent& result) const {
  try {
    done(result);
  } catch (...) {
    LogEntry entry;
    entry.severity = Severity::error;
    entry.line = entry.text = "the callback of a send threw: " + current_exception_text();
    entry.message_id = result.id();
    if (options.logger) return options.logger(entry);
    std::fprintf(stderr, "delayqueue: error: %s\n", entry.line.c_str());
  }
}

RecordingSender::RecordingSender(ProducerOptions options) {
  check(options);
  impl_ = std::make_unique<Impl>(std::move(options));
}

RecordingSender::~RecordingSender() = default;

std::vector<OutgoingMessage> RecordingSender::sent() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->sent;
}

std::vector<std::string> RecordingSender::cancelled() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->cancelled;
}

void RecordingSender::add_failure(std::exception_ptr error) {
  const std::lock_guard lock(impl_->mutex);
  impl_->failures.push_back(std::move(error));
}

Sent RecordingSender::do_send(std::string_view payload, const SendOptions& options) {
  return do_send_batch({{std::string(payload), options}}).front();
}

std::vector<Sent> RecordingSender::do_send_batch(const std::vector<OutgoingMessage>& messages) {
  std::vector<OutgoingMessage> checked_messages = messages;
  for (OutgoingMessage& message : checked_messages) {
    if (impl_->options.before_send) impl_->options.before_send(message);
  }
  for (OutgoingMessage& message : checked_messages) {
    check(message.payload, message.options, impl_->options);
    if (!message.options.id.empty()) message.options.id = checked(message.options.id);
  }
  return impl_->send(std::move(checked_messages));
}

std::vector<Sent> RecordingSender::do_send_views(const std::vector<std::string_view>& payloads,
                                                 const SendOptions& options) {
  std::vector<OutgoingMessage> messages;
  messages.reserve(payloads.size());
  for (const std::string_view payload : payloads) messages.push_back({std::string(payload), options});
  return do_send_batch(messages);
}

bool RecordingSender::do_send_async(std::string& payload, const SendOptions& options, SendCallback& done,
                                    bool /*may_block*/) {
  OutgoingMessage message{payload, options};
  std::optional<AsyncSent> result;
  try {
    result = do_send_batch({message}).front();
  } catch (const std::invalid_argument&) {
    throw;  // at once, as of a Producer
  } catch (const ConnectionError& e) {
    result.emplace(std::current_exception(), e.ids().empty() ? "" : e.ids().front());
  } catch (const std::exception&) {
    result.emplace(std::current_exception(), options.id);
  }
  payload.clear();
  impl_->caller.add([this, done = std::move(done), result = *std::move(result)] { impl_->call_back(done, result); });
  return true;
}

bool RecordingSender::do_flush(milliseconds timeout) { return impl_->caller.wait(timeout); }

State RecordingSender::do_cancel(const MessageRef& message) { return impl_->cancel(message, checked(message)); }

Outcome RecordingSender::do_reschedule(const MessageRef& message, const RescheduleOptions& when) {
  const std::string id = checked(message);
  check(when);
  return impl_->reschedule(message, id, when);
}

}  // namespace testing
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
