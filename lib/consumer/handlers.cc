#include "consumer/handlers.h"

#include "consumer/callback_scope.h"
#include "consumer/delivery.h"
#include "redis/escaped.h"

#include <algorithm>
#include <exception>
#include <limits>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>

namespace delayqueue {
namespace {

// Calls the function. Returns the text of what it threw, if anything; an empty one if there is no memory for it.
template <class Function>
std::optional<std::string> thrown_by(const Function& function) {
  try {
    try {
      function();
      return std::nullopt;
    } catch (...) {
      return current_exception_text();
    }
  } catch (const std::bad_alloc&) {
    return std::string();
  }
}

run::WorkResult work_result(const StageChange& change) { return {change.frees_worker, change.frees_place}; }

using Arrived = InFlightMessage::Arrived;

constexpr char kNoVerdict[] = "middleware returned no verdict";
constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

}  // namespace

Handlers::Handlers(const void* scope, std::function<void()> wake, const std::atomic<bool>& stopping, bool strict,
                   Middleware middleware)
    : scope_(scope),
      wake_(std::move(wake)),
      stopping_(stopping),
      strict_(strict),
      middleware_(std::move(middleware)),
      inbox_(std::make_shared<VerdictInbox>(wake_)) {}

std::size_t Handlers::add_queue(Handler handler, Counters& counters, const run::WorkerQueue& queue) {
  queues_.emplace_back(std::move(handler), counters, queue.limit);
  worker_queues_.push_back(queue);
  return queues_.size() - 1;
}

// If every handler returns its verdict, the worker is the place, and there is no limit for hanging ones: each is
// replaced.
void Handlers::start(std::size_t threads, std::size_t places) {
  const bool any_settles_later =
      std::any_of(queues_.begin(), queues_.end(), [](const Queue& queue) { return queue.settles_later(); });
  workers_ = std::make_unique<Workers>(
      threads, [this](InFlightPtr& delivery) { return handle(delivery); }, wake_, stopping_,
      any_settles_later ? places : kNoLimit, worker_queues_, strict_);
}

void Handlers::read_loads(std::vector<run::WorkerLoad>& loads) const {
  workers_->read_loads(loads);
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    run::WorkerLoad& load = loads[i];
    load.places = queues_[i].settles_later() ? std::min(load.places, load.allowed) : kNoLimit;
    if (queues_[i].lost > queues_[i].most) load.idle = load.places = 0;
  }
}

std::size_t Handlers::running() const {
  std::uint64_t sum = 0;
  for (const Queue& queue : queues_) sum += queue.counters->running;
  return static_cast<std::size_t>(sum);
}

// ---- In a worker's thread -------------------------------------------------------------------------------------------

run::WorkResult Handlers::handle(const InFlightPtr& delivery) {
  Queue& queue = queues_[delivery->queue];
  --queue.counters->prefetched;
  // Redis may have been away for longer than the lease. If the message is still ours, it is released.
  if (queue.holds_off || delivery->message.lease_lost() || !delivery->begin()) {
    return work_result(delivery->release(snooze(milliseconds(0))));
  }
  push_begun(*delivery);
  ++queue.counters->running;
  if (delivery->due != Lease::Clock::time_point()) queue.counters->lateness.record(delivery->began() - delivery->due);
  const CallbackScope scope(scope_);
  if (queue.settles_later()) return work_result(pass_delivery(queue.handler, delivery));
  std::optional<Verdict> verdict = verdict_of(queue.handler, delivery->message);
  const Verdict::Kind kind = verdict->kind();
  --queue.counters->running;
  const StageChange change = delivery->finish(std::move(verdict));
  if (kind == Verdict::Kind::pause_queue && change.takes_verdict) queue.holds_off = true;
  queue.counters->record(kind, delivery->settled_at - delivery->began());
  return work_result(change);
}

// Without a lock, so that workers with short handlers do not wait for each other.
void Handlers::push_begun(InFlightMessage& delivery) {
  delivery.begun_before = begun_.load(std::memory_order_relaxed);
  while (!begun_.compare_exchange_weak(delivery.begun_before, &delivery, std::memory_order_release,
                                       std::memory_order_relaxed)) {
  }
}

std::optional<Verdict> Handlers::verdict_of(const Handler& handler, const Message& message) const {
  std::optional<Verdict> verdict;
  auto thrown = thrown_by([&] {
    if (middleware_) {
      verdict = middleware_(
          message, [&] { return std::optional<Verdict>(handler.on_message_(handler.function_.get(), message)); });
    } else {
      verdict = handler.on_message_(handler.function_.get(), message);
    }
    if (!verdict) verdict = nack(kNoVerdict);
  });
  if (thrown) verdict = nack(*std::move(thrown));
  return verdict;
}

StageChange Handlers::pass_delivery(const Handler& handler, const InFlightPtr& delivery) {
  const HandlerScope scope(*delivery);
  bool passed = false;  // to the handler
  const auto pass = [&] {
    if (std::exchange(passed, true)) throw std::logic_error("next: called twice; a Delivery is passed on once");
    handler.on_delivery_(handler.function_.get(), Delivery(delivery, inbox_));
    return std::optional<Verdict>();
  };
  std::optional<Verdict> instead;
  auto thrown = thrown_by([&] {
    instead = middleware_ ? middleware_(delivery->message, pass) : pass();
    if (!passed && !instead) instead = nack(kNoVerdict);
  });
  StageChange change;
  if (passed && !scope.dropped()) {
    change = delivery->leave();
  } else if (thrown) {
    change = delivery->finish(nack(*thrown));
  } else {
    if (passed) instead.reset();
    change = delivery->finish(std::move(instead));
  }
  if (thrown && !change.takes_verdict) {
    const std::string& id = delivery->message.id();
    warn([&] {
      return Warning{delivery->queue,
                     "the handler of " + redis::escaped(id) + " threw after its delivery was settled or moved " +
                         "elsewhere, so this is not the reason of a nack: " + redis::escaped(*thrown),
                     id};
    });
  }
  return change;
}

// Without memory for the warning there is none: an exception that leaves a worker's thread ends the process.
template <class MakeWarning>
void Handlers::warn(const MakeWarning& make) {
  try {
    Warning warning = make();
    const std::lock_guard lock(warnings_mutex_);
    warnings_.push_back(std::move(warning));
  } catch (const std::bad_alloc&) {
  }
}

// ---- In the consumer's thread ---------------------------------------------------------------------------------------

void Handlers::run(BodyFetcher::Fetched& fetched, std::size_t queue) {
  const std::size_t first = fetched.first.size(), redelivered = fetched.redelivered.size();
  workers_->submit_urgent(std::move(fetched.redelivered), queue);
  given_ += redelivered;
  workers_->submit(std::move(fetched.first), queue);
  given_ += first;
}

void Handlers::keep_one_free(bool on, std::size_t queue) {
  if (std::exchange(queues_[queue].keeps_one_free, on) != on) workers_->keep_one_free(on, queue);
}

Handlers::Done Handlers::take_done() {
  std::vector<InFlightPtr> returned = workers_->take_done();
  list_begun();  // after take_done(): then all of these are in the lists
  Done done;
  done.deliveries.reserve(returned.size());
  for (InFlightPtr& delivery : returned) {
    if (done.returned.size() <= delivery->lane) done.returned.resize(delivery->lane + 1);
    ++done.returned[delivery->lane];
    const Stage stage = delivery->stage();
    const bool with_verdict = stage == Stage::finished || stage == Stage::finished_lost || stage == Stage::released;
    if (std::exchange(delivery->arrived, Arrived::the_return) == Arrived::the_verdict) {
      settled_first_.erase(delivery);
      ended(*delivery);
    } else if (with_verdict) {
      ended(*delivery);
      done.deliveries.push_back(std::move(delivery));
    }
  }
  std::vector<std::size_t> freed;
  for (InFlightPtr& delivery : inbox_->take()) {
    if (std::exchange(delivery->arrived, Arrived::the_verdict) == Arrived::the_return) {
      ended(*delivery);
    } else if (!delivery->facts().has_lost_place) {
      settled_first_.insert(delivery);
    }
    if (delivery->stage() == Stage::settled_last) {
      freed.resize(queues_.size());
      ++freed[delivery->queue];
    }
    done.deliveries.push_back(std::move(delivery));
  }
  for (const InFlightPtr& delivery : done.deliveries) {
    if (!delivery->verdict) {
      delivery->verdict = stopping_ ? snooze(milliseconds(0)) : nack("dropped without a verdict");
    }
    Queue& queue = queues_[delivery->queue];
    if (delivery->verdict->kind() == Verdict::Kind::pause_queue) queue.holds_off = true;  // before its place is free
    if (queue.settles_later() && delivery->facts().has_begun)
      queue.counters->record(delivery->verdict->kind(), delivery->settled_at - delivery->began());
  }
  for (std::size_t queue = 0; queue < freed.size(); ++queue) {
    if (freed[queue] > 0) workers_->free_places(freed[queue], queue);
  }
  measure_longest();
  return done;
}

// Its handler has returned, and its verdict is there.
void Handlers::ended(InFlightMessage& delivery) {
  --given_;
  const StageFacts facts = delivery.facts();
  if (!facts.has_begun) return;
  unlist_begun(delivery);
  Queue& queue = queues_[delivery.queue];
  if (!queue.settles_later()) return;
  --queue.counters->running;
  if (facts.has_lost_place) --queue.lost;
}

// Its owner keeps a delivery until it is removed here: a worker, the Delivery of the user, or the inbox.
void Handlers::list_begun() {
  InFlightMessage* next = nullptr;
  for (InFlightMessage* one = begun_.exchange(nullptr, std::memory_order_acquire); one != nullptr;) {
    one->begun_after = next;
    next = std::exchange(one, one->begun_before);
  }
  while (next != nullptr) {  // the first one that has begun
    InFlightMessage& one = *std::exchange(next, next->begun_after);
    Queue& queue = queues_[one.queue];
    one.begun_before = queue.last_begun;
    one.begun_after = nullptr;
    (queue.last_begun == nullptr ? queue.first_begun : queue.last_begun->begun_after) = &one;
    queue.last_begun = &one;
  }
}

void Handlers::unlist_begun(InFlightMessage& delivery) {
  Queue& queue = queues_[delivery.queue];
  InFlightMessage* const before = std::exchange(delivery.begun_before, nullptr);
  InFlightMessage* const after = std::exchange(delivery.begun_after, nullptr);
  (before == nullptr ? queue.first_begun : before->begun_after) = after;
  (after == nullptr ? queue.last_begun : after->begun_before) = before;
}

void Handlers::measure_longest() {
  for (const Queue& queue : queues_) {
    queue.counters->running_since =
        queue.first_begun == nullptr ? 0 : queue.first_begun->began().time_since_epoch().count();
  }
}

// The inbox no longer keeps the deliveries that are in the lists.
void Handlers::refuse_verdicts() {
  for (Queue& queue : queues_) {
    queue.first_begun = queue.last_begun = nullptr;
    queue.counters->running_since = 0;
  }
  inbox_->close();
}

std::vector<InFlightPtr> Handlers::dequeue_all() {
  std::vector<InFlightPtr> unstarted = workers_->dequeue_all();
  given_ -= unstarted.size();
  return unstarted;
}

std::vector<InFlightPtr> Handlers::dequeue(std::size_t queue, std::size_t lane) {
  std::vector<InFlightPtr> unstarted =
      workers_->dequeue(queue, [lane](const InFlightPtr& delivery) { return delivery->lane == lane; });
  given_ -= unstarted.size();
  queues_[queue].holds_off = false;
  return unstarted;
}

std::vector<InFlightPtr> Handlers::take_hanging(std::size_t lane, milliseconds most) {
  std::vector<InFlightPtr> hanging;
  for (const InFlightPtr& delivery : settled_first_) {
    if (delivery->lane == lane && delivery->handler_runs_longer_than(most)) hanging.push_back(delivery);
  }
  for (const InFlightPtr& delivery : hanging) settled_first_.erase(delivery);
  return hanging;
}

void Handlers::lose_place(InFlightMessage& delivery, const EventSink& log) {
  const bool frees_place = delivery.lose_place();
  if (delivery.keeps_worker()) {
    try {
      workers_->add_worker([&] { return delivery.replace_worker(); });  // unless the handler has returned meanwhile
    } catch (const std::exception& e) {
      log.log(Severity::error, std::string("a worker whose handler hangs is not replaced: ") + e.what());
    }
  }
  if (!frees_place) return;
  workers_->free_places(1, delivery.queue);
  Queue& queue = queues_[delivery.queue];
  if (!queue.settles_later()) return;
  if (++queue.lost != queue.most + 1) return;
  log.log(Severity::warning, std::to_string(queue.lost) +
                                 " deliveries have lost their leases and are not settled, or their handlers hang, " +
                                 "more than `concurrency`; no more messages are taken until some of them have ended");
}

void Handlers::call_back(InFlightMessage& delivery, Settlement settlement) {
  if (!delivery.on_settled) return;
  workers_->call([this, queue = delivery.queue, id = delivery.message.id(),
                  on_settled = std::exchange(delivery.on_settled, nullptr), settlement]() mutable {
    const CallbackScope scope(scope_);
    // Destroys it here, too: what it owns may be the consumer.
    const auto thrown = thrown_by([&] { std::exchange(on_settled, nullptr)(settlement); });
    if (!thrown) return;
    warn([&] {
      return Warning{queue, "the callback of a settled delivery threw: " + redis::escaped(*thrown), std::move(id)};
    });
  });
}

std::vector<Handlers::Warning> Handlers::warnings() {
  const std::lock_guard lock(warnings_mutex_);
  return std::exchange(warnings_, {});
}

}  // namespace delayqueue
