#include "consumer/handler_runner.h"

#include "consumer/callback_scope.h"
#include "consumer/handler_scope.h"
#include "redis/escaped.h"

#include <exception>
#include <limits>
#include <optional>
#include <string>

namespace delayqueue {
namespace {

// Calls the function. Returns the text of what it threw, if anything.
template <class Function>
std::optional<std::string> thrown_by(const char* name, const Function& function) {
  try {
    function();
    return std::nullopt;
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return std::string(name) + " threw something that is no std::exception";
  }
}

}  // namespace

HandlerRunner::HandlerRunner(AnyHandler handler, const void* scope, std::function<void()> wake,
                             const std::atomic<bool>& stopping, Counters& counters)
    : handler_(std::move(handler)),
      settles_later_(std::holds_alternative<DeliveryHandler>(handler_)),
      scope_(scope),
      wake_(std::move(wake)),
      stopping_(stopping),
      counters_(counters),
      inbox_(std::make_shared<VerdictInbox>(wake_)) {}

// With a Handler the worker is the place, and there is no limit for hanging ones: each is replaced.
void HandlerRunner::start(std::size_t threads, std::size_t places) {
  constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
  most_lost_ = settles_later_ ? places : kNoLimit;
  workers_ = std::make_unique<Workers>(
      threads, [this](InFlightPtr& delivery) { return handle(delivery); }, wake_, stopping_,
      settles_later_ ? places : kNoLimit);
}

run::WorkerLoad HandlerRunner::load() const {
  run::WorkerLoad load = workers_->load();
  if (lost_ > most_lost_) load.idle = load.places = 0;
  return load;
}

// ---- In a worker's thread -------------------------------------------------------------------------------------------

run::WorkResult HandlerRunner::handle(const InFlightPtr& delivery) {
  --counters_.prefetched;
  // Redis may have been away for longer than the lease. If the message is still ours, it is given back untouched.
  if (delivery->message.lease_lost() || !delivery->begin()) return delivery->end(snooze(milliseconds(0)));
  ++counters_.running;
  const CallbackScope scope(scope_);
  if (settles_later_) {
    call(std::get<DeliveryHandler>(handler_), delivery);
    return delivery->end_handler();
  }
  Verdict verdict = call(std::get<Handler>(handler_), delivery->message);
  --counters_.running;
  return delivery->end(std::move(verdict));
}

Verdict HandlerRunner::call(const Handler& handler, const Message& message) const {
  try {
    return handler(message);
  } catch (const std::exception& e) {
    return nack(std::string(e.what()));
  } catch (...) {
    return nack("the handler threw something that is no std::exception");
  }
}

void HandlerRunner::call(const DeliveryHandler& handler, const InFlightPtr& delivery) {
  const HandlerScope scope(*delivery);
  const auto thrown = thrown_by("the handler", [&] { handler(Delivery(delivery, inbox_)); });
  if (scope.dropped() && delivery->claim()) {
    delivery->verdict_at_return = true;
    delivery->dropped = !thrown;
    if (thrown) delivery->verdict = nack(*thrown);
  } else if (thrown) {
    warn("the handler of " + redis::escaped(delivery->message.id()) + " threw after its delivery was settled or moved" +
         " elsewhere, so this is not the reason of a nack: " + redis::escaped(*thrown));
  }
}

void HandlerRunner::warn(std::string line) {
  const std::lock_guard lock(warnings_mutex_);
  warnings_.push_back(std::move(line));
}

// ---- In the consumer's thread ---------------------------------------------------------------------------------------

void HandlerRunner::run(Prefetcher::Fetched fetched) {
  const std::size_t first = fetched.first.size(), redelivered = fetched.redelivered.size();
  workers_->submit_urgent(std::move(fetched.redelivered));
  given_ += redelivered;
  workers_->submit(std::move(fetched.first));
  given_ += first;
}

void HandlerRunner::keep_one_free(bool on) {
  if (std::exchange(keeps_one_free_, on) != on) workers_->keep_one_free(on);
}

HandlerRunner::Done HandlerRunner::take_done() {
  std::vector<InFlightPtr> returned = workers_->take_done();
  Done done;
  done.returned = returned.size();
  if (!settles_later_) {
    given_ -= returned.size();
    done.deliveries = std::move(returned);
    return done;
  }
  for (InFlightPtr& delivery : returned) {
    delivery->returned = true;
    if (delivery->verdict_at_return) delivery->has_verdict = true;
    if (delivery->has_verdict) ended(*delivery);
    if (delivery->verdict_at_return) done.deliveries.push_back(std::move(delivery));
  }
  std::size_t freed = 0;
  for (InFlightPtr& delivery : inbox_->take()) {
    delivery->has_verdict = true;
    if (delivery->returned) ended(*delivery);
    if (delivery->frees_place) ++freed;
    done.deliveries.push_back(std::move(delivery));
  }
  for (const InFlightPtr& delivery : done.deliveries) {
    if (!delivery->dropped) continue;
    delivery->verdict = stopping_ ? snooze(milliseconds(0)) : nack("dropped without a verdict");
  }
  if (freed > 0) workers_->free_places(freed);
  return done;
}

// Its handler has returned, and its verdict is there.
void HandlerRunner::ended(const InFlightMessage& delivery) {
  --given_;
  if (delivery.has_begun()) --counters_.running;
  if (delivery.refilled) --lost_;
}

std::vector<InFlightPtr> HandlerRunner::take_back() {
  std::vector<InFlightPtr> unstarted = workers_->take_back();
  given_ -= unstarted.size();
  return unstarted;
}

void HandlerRunner::refill(InFlightMessage& delivery, const EventSink& log) {
  if (delivery.replace_worker()) {
    try {
      workers_->add_worker();
    } catch (const std::exception& e) {
      delivery.keep_worker();
      log.log(Severity::error, std::string("a worker whose handler hangs is not replaced: ") + e.what());
    }
  }
  if (!delivery.lose_place()) return;
  workers_->free_places(1);
  if (!settles_later_) return;
  delivery.refilled = true;
  if (++lost_ != most_lost_ + 1) return;
  log.log(Severity::warning, std::to_string(lost_) + " deliveries have lost their leases and are not settled, more " +
                                 "than `concurrency`; no more messages are taken until some of them are settled");
}

void HandlerRunner::call_back(InFlightMessage& delivery, Settlement settlement) {
  if (!delivery.on_settled) return;
  workers_->call([this, on_settled = std::exchange(delivery.on_settled, nullptr), settlement]() mutable {
    const CallbackScope scope(scope_);
    // Destroys it here, too: what it owns may be the consumer.
    const auto thrown = thrown_by("the callback", [&] { std::exchange(on_settled, nullptr)(settlement); });
    if (thrown) warn("the callback of a settled delivery threw: " + redis::escaped(*thrown));
  });
}

std::vector<std::string> HandlerRunner::warnings() {
  const std::lock_guard lock(warnings_mutex_);
  return std::exchange(warnings_, {});
}

}  // namespace delayqueue
