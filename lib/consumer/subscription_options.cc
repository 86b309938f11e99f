#include "consumer/subscription_options.h"

#include "queue/option_checks.h"
#include "redis/escaped.h"
#include "run/turns.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <set>
#include <stdexcept>
#include <utility>

namespace delayqueue {
namespace {

// A longer poll_interval or lease is taken as this one. Multiples of the first are added to times; and after the year
// 2106 a score of Redis, a number of seconds, does not have the microseconds that make the end of a lease a receipt.
constexpr std::chrono::hours kYear{365 * 24};

bool settles_later(const Subscription& subscription) { return subscription.handler.settles_later(); }

// The threads that run the handlers, if the caller has not chosen: a handler that returns its verdict needs one until
// then.
std::size_t threads_for(const std::vector<Subscription>& subscriptions, std::size_t concurrency) {
  std::size_t handlers = 0;
  for (const Subscription& one : subscriptions) {
    if (!settles_later(one)) handlers += one.options.concurrency.value_or(concurrency);
  }
  return std::min({std::max(handlers, ConsumerOptions::hardware_concurrency()), concurrency, kMostThreads});
}

}  // namespace

std::string named(const std::string& queue) { return "queue \"" + redis::escaped(queue) + '"'; }

ConsumerOptions options_of(const Subscription& subscription, ConsumerOptions options) {
  const SubscriptionOptions& own = subscription.options;
  const std::size_t all = options.concurrency;
  options.concurrency = own.concurrency.value_or(all);
  options.lease = own.lease.value_or(options.lease);
  options.backoff = own.backoff.value_or(options.backoff);
  options.processing_timeout = own.processing_timeout.value_or(options.processing_timeout);
  options.dead_retention = own.dead_retention.value_or(options.dead_retention);
  options.dead_limit = own.dead_limit.value_or(options.dead_limit);
  if (!settles_later(subscription)) options.tuning.threads = 0;
  validate(options, settles_later(subscription));
  options.lease = std::min<milliseconds>(options.lease, kYear);
  if (options.concurrency > all) {
    throw std::invalid_argument("concurrency: " + std::to_string(options.concurrency) + "; expected at most the " +
                                std::to_string(all) + " of the consumer");
  }
  if (own.weight < 1 || own.weight > run::Turns::kMostWeight) {
    throw std::invalid_argument("weight: " + std::to_string(own.weight) + "; expected 1 to " +
                                std::to_string(run::Turns::kMostWeight));
  }
  return options;
}

ConsumerOptions validated(ConsumerOptions options, const std::vector<Subscription>& subscriptions) {
  const bool any_settles_later = std::any_of(subscriptions.begin(), subscriptions.end(), settles_later);
  validate(options, any_settles_later);
  options.tuning.poll_interval = std::min<milliseconds>(options.tuning.poll_interval, kYear);
  options.lease = std::min<milliseconds>(options.lease, kYear);
  if (subscriptions.empty()) throw std::invalid_argument("queues: none; expected at least one");
  std::set<std::string> queues;
  for (const Subscription& one : subscriptions) {
    if (!queues.insert(one.queue.str()).second) {
      throw std::invalid_argument("queues: " + named(one.queue.str()) + " twice; expected each queue once");
    }
  }
  if (!any_settles_later) options.tuning.threads = options.concurrency;
  if (options.tuning.threads == 0) options.tuning.threads = threads_for(subscriptions, options.concurrency);
  return options;
}

std::vector<unsigned> weights_of(const std::vector<Subscription>& subscriptions) {
  std::vector<unsigned> weights;
  weights.reserve(subscriptions.size());
  for (const Subscription& one : subscriptions) weights.push_back(one.options.weight);
  return weights;
}

}  // namespace delayqueue
