#include "consumer/handler_runner.h"

#include "consumer/callback_scope.h"

#include <exception>
#include <string>

namespace delayqueue {

void HandlerRunner::start(std::size_t workers) {
  workers_ = std::make_unique<Workers>(
      workers, [this](InFlightPtr& delivery) { return handle(*delivery); }, wake_, stopping_);
}

// In a worker's thread. Returns whether the worker goes on: see InFlightMessage::end().
bool HandlerRunner::handle(InFlightMessage& delivery) const {
  --counters_.prefetched;
  // Redis may have been away for longer than the lease. If the message is still ours, it is given back untouched.
  if (delivery.message.lease_lost()) return delivery.end(snooze(milliseconds(0)));
  delivery.begin();
  ++counters_.running;
  Verdict verdict = call_handler(delivery.message);
  --counters_.running;
  return delivery.end(std::move(verdict));
}

Verdict HandlerRunner::call_handler(const Message& message) const {
  const CallbackScope scope(scope_);
  try {
    return handler_(message);
  } catch (const std::exception& e) {
    return nack(std::string(e.what()));
  } catch (...) {
    return nack("the handler threw something that is no std::exception");
  }
}

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

std::vector<InFlightPtr> HandlerRunner::take_done() {
  std::vector<InFlightPtr> done = workers_->take_done();
  given_ -= done.size();
  return done;
}

std::vector<InFlightPtr> HandlerRunner::take_back() {
  std::vector<InFlightPtr> unstarted = workers_->take_back();
  given_ -= unstarted.size();
  return unstarted;
}

void HandlerRunner::replace_worker(InFlightMessage& delivery, const EventSink& log) {
  if (!delivery.replace_worker()) return;
  try {
    workers_->add_worker();
  } catch (const std::exception& e) {
    delivery.keep_worker();
    log.log(Severity::error, std::string("a worker whose handler hangs is not replaced: ") + e.what());
  }
}

}  // namespace delayqueue
