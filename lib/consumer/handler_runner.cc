// A consumer's workers: what they do with a message, how it comes back, and what is done about those that hang.
#include "consumer/callback_scope.h"
#include "consumer/consumer_loop.h"
#include "redis/escaped.h"

#include <algorithm>
#include <utility>

namespace delayqueue {

// ---- In a worker's thread --------------------------------------------------------------------------------------------

bool Consumer::Impl::handle(Delivery& delivery) {
  // Redis may have been away for longer than the lease. If the message is still ours it goes back untouched.
  if (delivery.message.lost()) return delivery.end(snooze(milliseconds(0)));
  delivery.begin();
  return delivery.end(call_handler(delivery.message));
}

Verdict Consumer::Impl::call_handler(const Message& message) {
  const CallbackScope handler(this);
  Verdict verdict = nack("the handler threw something that is no std::exception");
  try {
    verdict = handler_(message);
  } catch (const std::exception& e) {
    verdict = nack(std::string(e.what()));
  } catch (...) {  // said above
  }
  return verdict;
}

// ---- In the loop's thread -------------------------------------------------------------------------------------------

Prefetcher::Load Consumer::Impl::worker_load() const {
  const Workers::Load load = workers_->load();
  return {load.idle, load.waiting};
}

void Consumer::Impl::collect_done() {
  const std::vector<DeliveryPtr> done = workers_->take_done();
  with_workers_ -= done.size();
  for (const DeliveryPtr& delivery : done) settler_.add(delivery);
  prefetcher_.handled(done);
}

void Consumer::Impl::expire_overrunning() {
  for (const DeliveryPtr& delivery : lease_keeper_.expire_overrunning(options_.processing_timeout)) {
    event_sink_.log(Severity::warning, "the handler of " + redis::escaped(delivery->message.id) +
                                           " runs longer than processing_timeout (" +
                                           std::to_string(options_.processing_timeout.count()) +
                                           " ms): its lease may end");
    replace_worker(*delivery);
  }
}

// A handler that goes on without its lease keeps its thread busy; others must not have to wait for it.
void Consumer::Impl::replace_worker(Delivery& delivery) {
  if (!delivery.replace_worker()) return;
  try {
    workers_->add_worker();
  } catch (const std::exception& e) {
    delivery.keep_worker();
    event_sink_.log(Severity::error,
                    std::string("cannot make a thread in place of one whose handler hangs: ") + e.what());
  }
}

// Stopping: what no handler has begun goes back as if it had never been taken.
bool Consumer::Impl::give_back_unstarted() {
  std::vector<DeliveryPtr> unstarted = workers_->take_back();
  with_workers_ -= unstarted.size();
  for (DeliveryPtr& delivery : prefetcher_.abandon_fetching()) unstarted.push_back(std::move(delivery));
  std::reverse(unstarted.begin(), unstarted.end());  // each goes before those given back earlier
  for (const DeliveryPtr& delivery : unstarted) {
    delivery->end(snooze(milliseconds(0)));
    settler_.add(delivery);
  }
  return !unstarted.empty();
}

}  // namespace delayqueue
