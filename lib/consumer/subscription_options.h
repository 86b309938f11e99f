// The options of a consumer and of its queues: what is checked, and which defaults depend on others.
#pragma once

#include <delayqueue/consumer.h>

#include <string>
#include <vector>

namespace delayqueue {

// The queue, as errors name it.
std::string named(const std::string& queue);

// The options of a consumer with these queues. Sets the number of threads, too. Throws std::invalid_argument.
ConsumerOptions validated(ConsumerOptions options, const std::vector<Subscription>& subscriptions);

// The options of one queue; `options`: of the consumer. Throws std::invalid_argument.
ConsumerOptions options_of(const Subscription& subscription, ConsumerOptions options);

std::vector<unsigned> weights_of(const std::vector<Subscription>& subscriptions);

}  // namespace delayqueue
