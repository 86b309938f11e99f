#include "testing/player.h"

#include <delayqueue/error.h>
#include <delayqueue/metrics.h>

#include <algorithm>
#include <exception>
#include <future>
#include <memory>
#include <stdexcept>
#include <utility>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {
namespace testing {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr std::size_t kMostHandled = 10'000;
constexpr std::chrono::seconds kPatience{10};  // for progress, in real time
constexpr milliseconds kSlotPatience{1000};    // for a schedule to be advanced, in real time
constexpr microseconds kArrival{1000};         // of a message that is due, before another look
constexpr milliseconds kPoll{5};
constexpr milliseconds kSoon{10};
constexpr milliseconds kStop{2000};  // for a Delivery that is not settled

std::string base_of(const KeyOptions& keys, const std::string& queue) {
  const std::string name = keys.prefix + ":" + queue;
  return keys.hash_tag == HashTag::on ? "{" + name + "}" : name;
}

ConsumerOptions own(ConsumerOptions options) {
  options.concurrency = 1;
  options.tuning.threads = 1;
  options.tuning.prefetch = 0;
  options.tuning.register_consumer = false;
  options.tuning.poll_interval = kPoll;
  options.tuning.reconnect_grace = milliseconds(0);
  options.middleware = {};  // around the handler of the test, not around that of the consumer
  if (!options.logger) options.logger = no_log();
  return options;
}

}  // namespace

Player::Player(std::string call, TestServer& server, const Client& client, const Handlers& handlers,
               ConsumerOptions options)
    : call_(std::move(call)), server_(server), middleware_(std::move(options.middleware)) {
  if (handlers.empty()) throw std::invalid_argument(call_ + ": no handlers; expected one for each queue");
  std::vector<Subscription> subscriptions;
  for (const auto& [name, handler] : handlers) {
    auto inspector = std::make_unique<Inspector>(client, name);
    queues_.emplace(name, Queue{base_of(client.keys(), name), &handler, std::move(inspector)});
    subscriptions.push_back({name, [this](Delivery delivery) {
                               const std::lock_guard lock(mutex_);
                               arrived_.push_back(std::move(delivery));
                               changed_.notify_one();
                             }});
  }
  server_.find_queues();
  for (auto& [name, queue] : queues_) {
    if (queue.inspector->counts().unack == 0) continue;
    for (const MessageInfo& one : held_messages(*queue.inspector)) queue.elsewhere.emplace(one.id, one.at.value());
  }
  consumer_.emplace(client, std::move(subscriptions), own(std::move(options)));
  consumer_->start();
}

// A message that has arrived returns to its queue, and this uses no retry, since the consumer stops.
Player::~Player() {
  try {
    consumer_->request_stop();
  } catch (const SetupError&) {  // no thread: then it is a nack
  }
  {
    const std::lock_guard lock(mutex_);
    arrived_.clear();
  }
  static_cast<void>(consumer_->stop(kStop));
}

// What handlers take is real time, and passes besides: a backoff of 5 minutes after 10 minutes is over after 15. What
// is due soon counts as due, such as the end of a backoff of 0, which is in the next millisecond.
std::vector<Handled> Player::run(milliseconds time) {
  microseconds left = time;
  std::optional<Time> next = handle_due(false);
  while (left.count() > 0 || (next && *next - server_.now() <= kSoon)) {
    const bool reaches = next && *next - server_.now() <= std::max<microseconds>(left, kSoon);
    const microseconds by = reaches ? std::chrono::ceil<microseconds>(*next - server_.now()) : left;
    const microseconds jump = std::clamp(by, microseconds(0), left);
    if (jump.count() > 0) server_.jump(jump);
    left -= jump;
    next = handle_due(reaches);
  }
  return std::move(handled_);
}

// Until nothing is due any more. `expected`: something is, so that it is quicker to wait than to look. Returns when
// something is due again, as far as is known.
std::optional<Time> Player::handle_due(bool expected) {
  Clock::time_point progress = Clock::now();
  std::uint64_t due = 0;  // as the last look has found
  for (;;) {
    if (auto delivery = receive(expected)) {
      handle(*std::move(delivery));
      progress = Clock::now();
      expected = due > 1;
      due -= expected ? 1 : due;
      continue;
    }
    const Look look = look_at_all();
    if (!look.busy) return look.next;
    due = look.due;
    if (Clock::now() - progress > kPatience) fail_without_progress();
    expected = true;
  }
}

// The next message that has arrived; `waits`: after a short wait.
std::optional<Delivery> Player::receive(bool waits) {
  std::unique_lock lock(mutex_);
  if (waits) changed_.wait_for(lock, kArrival, [this] { return !arrived_.empty(); });
  if (arrived_.empty()) return std::nullopt;
  std::optional<Delivery> first(std::move(arrived_.front()));
  arrived_.pop_front();
  return first;
}

void Player::handle(Delivery delivery) {
  const Message message = delivery.message();
  const Handler& handler = *queues_.at(message.queue()).handler;
  if (handled_.size() == kMostHandled) {
    throw std::logic_error(call_ + ": more than " + std::to_string(kMostHandled) + " messages; the last one is " +
                           message.id() + " of queue " + quoted(message.queue()) +
                           ": does a handler send to its own queue, or snooze, without a delay?");
  }
  handled_.push_back({message.queue(), message.id(), message.payload(), message.attempt(), {}, server_.now()});
  std::exception_ptr of_test;
  std::optional<Verdict> verdict;
  try {
    verdict = verdict_of(handler, delivery);
    if (!verdict && !handler.settles_later()) verdict = nack("middleware returned no verdict");
  } catch (const std::exception&) {
    verdict = nack(current_exception_text());
  } catch (...) {  // those by which test frameworks end a test
    verdict = nack(current_exception_text());
    of_test = std::current_exception();
  }
  handled_.back().verdict = verdict;
  if (verdict) settle(std::move(delivery), *verdict);
  if (of_test) std::rethrow_exception(of_test);
}

// Waits until Redis has the verdict.
void Player::settle(Delivery delivery, const Verdict& verdict) {
  const auto settled = std::make_shared<std::promise<void>>();
  std::future<void> done = settled->get_future();
  if (!std::move(delivery).settle(verdict, [settled](Settlement) { settled->set_value(); })) return;
  if (done.wait_for(kPatience) != std::future_status::ready) fail_without_progress();
}

// No verdict: the handler owns the delivery.
std::optional<Verdict> Player::verdict_of(const Handler& handler, Delivery& delivery) {
  const Message message = delivery.message();
  bool passed = false;
  const auto next = [&]() -> std::optional<Verdict> {
    if (!handler.settles_later()) return handler.on_message_(handler.function_.get(), message);
    if (std::exchange(passed, true)) throw std::logic_error("next: called twice; a Delivery is passed on once");
    handler.on_delivery_(handler.function_.get(), std::move(delivery));
    return std::nullopt;
  };
  std::optional<Verdict> verdict = middleware_ ? middleware_(message, next) : next();
  if (passed) verdict.reset();
  return verdict;
}

Player::Look Player::look_at_all() {
  const Time here = server_.now();
  Look all;
  std::vector<std::string> bases;
  for (auto& [name, queue] : queues_) {
    const Look look = look_at(queue, here);
    all.busy = all.busy || look.busy;
    all.due += look.due;
    all.add(look.next);
    bases.push_back(queue.base);
  }
  const auto slots = server_.next_slots(bases);
  auto slot = slots.begin();
  for (auto& [name, queue] : queues_) {
    if (*slot > here) all.add(*slot);
    all.busy = waits_for_schedule(queue, *slot++, here) || all.busy;
  }
  return all;
}

// What is due, but kept back, is not busy: what was due before `here` is no next time.
Player::Look Player::look_at(const Queue& queue, Time here) {
  const Counts counts = queue.inspector->counts();
  const std::uint64_t due = counts.due + counts.ready + counts.retry;
  const bool has_places = !counts.limits.running || counts.in_flight < *counts.limits.running;
  const bool has_tokens = counts.next_delivery.count() == 0;
  Look look;
  if (has_places && has_tokens && !counts.paused) look.due = due;
  look.busy = counts.overdue > 0 || look.due > 0;
  std::vector<std::optional<Time>> times = {counts.oldest_lease};
  times.push_back(counts.paused ? counts.paused_until : counts.oldest_due);
  if (due > 0 && !has_tokens) times.emplace_back(counts.now + counts.next_delivery);
  for (const std::optional<Time>& time : times) {
    if (time > here) look.add(time);
  }
  if (counts.unack == 0 || look.busy) return look;
  for (const MessageInfo& one : held_messages(*queue.inspector)) {
    look.busy = look.busy || queue.elsewhere.count({one.id, one.at.value()}) == 0;
  }
  return look;
}

// A slot that has passed is advanced by the consumer, unless its schedule cannot be read.
bool Player::waits_for_schedule(Queue& queue, const std::optional<Time>& slot, Time here) {
  if (!slot || *slot > here) return false;
  if (!queue.passed_slot || queue.passed_slot->first != *slot) queue.passed_slot.emplace(*slot, Clock::now());
  return Clock::now() - queue.passed_slot->second < kSlotPatience;
}

void Player::fail_without_progress() {
  std::string text = call_ + ": nothing was delivered or settled for " + to_text(kPatience);
  for (auto& [name, queue] : queues_) {
    const Counts counts = queue.inspector->counts();
    if (counts.due + counts.ready + counts.retry + counts.overdue > 0) {
      text += "; queue " + quoted(name) + " has " + std::to_string(counts.due + counts.ready) + " due messages and " +
              std::to_string(counts.retry + counts.overdue) + " to be delivered again: does another consumer run?";
    }
    for (const MessageInfo& one : held_messages(*queue.inspector)) {
      text += "; " + one.id + " of queue " + quoted(name) +
              " is in flight: a handler of a Delivery must settle it without waiting for what the test does later";
    }
  }
  if (const std::string error = consumer_->metrics().stats.last_error; !error.empty()) text += "; last error: " + error;
  throw std::logic_error(text);
}

}  // namespace testing
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
