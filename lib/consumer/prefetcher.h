// How many messages a consumer takes, from which list, and when their bodies are fetched. Used by its thread only.
#pragma once

#include "consumer/delivery.h"
#include "consumer/poison_guard.h"
#include "store/moves.h"

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue {

class Prefetcher {
 public:
  using Clock = std::chrono::steady_clock;

  // What the workers are doing: how many are idle, how many messages wait in line for one.
  struct Load {
    std::size_t idle = 0;
    std::size_t waiting = 0;
  };

  // Messages whose bodies have come. First deliveries may wait in line; redelivered ones were taken for a free worker
  // and go to it at once, so that one that kills its process takes no neighbours' retries with it.
  struct Fetched {
    std::vector<DeliveryPtr> line, urgent, expired;
  };

  Prefetcher(std::size_t workers, std::size_t prefetch, milliseconds lease)
      : workers_(workers), most_prefetched_(prefetch), lease_(lease), poison_guard_(lease) {}

  // How many more messages may be held.
  std::size_t room(const Load& load) const;

  // Whether there is surely something to take: the last take got all it asked for, or left some in retry for which
  // there is a worker now.
  bool may_find(const Load& load) const { return more_ready_ || (retry_waits() && free_workers(load) > 0); }
  // Whether to look again at once: the last take got all it asked for, or met suspects, and another may find more.
  bool should_go_on(const Load& load) const {
    if (more_ready_ && limits(load).total > 0) return true;
    return poison_guard_.should_rescan() && retry_waits() && free_workers(load) > 0;
  }
  bool more_ready() const { return more_ready_; }

  // There may be something to take, but now is not the time.
  void may_find_more() { more_ready_ = true; }

  // Messages came into retry. They may be behind suspects: then look_due() is when to look for them.
  void retry_grew() { poison_guard_.retry_grew(); }
  Clock::time_point rescan_due() const { return poison_guard_.rescan_due(); }

  // Whether one worker must be kept back for retry. Under load every worker that gets free goes on with the line; without
  // this retry would never have its share.
  bool retry_is_due() const;

  // Adds a take of as much as there is room for, if any.
  void take(redis::Pipeline& pipeline, const store::Store& store, const Load& load);

  // Adds the fetching of bodies of what was taken before, if any.
  void fetch(redis::Pipeline& pipeline, const store::Store& store);

  struct TakenNow {
    std::vector<DeliveryPtr> deliveries;
    std::int64_t now_us = 0;  // Redis' time
    Clock::time_point asked;
    std::vector<DeliveryPtr> foreign;  // of no id, so of no message: to be removed by their receipts
    std::size_t removed = 0;           // the same, removed already
    std::string foreign_id;            // one of these
  };
  std::optional<TakenNow> read_taken();
  Fetched read_fetched();
  void forget_answers();

  bool is_fetching() const { return !fetching_.empty(); }
  std::vector<DeliveryPtr> abandon_fetching() { return std::exchange(fetching_, {}); }

  // Tells what was handled since the last call.
  void handled(const std::vector<DeliveryPtr>& done);

 private:
  std::size_t free_workers(const Load& load) const;
  bool retry_waits() const { return retry_left_ > 0 && !poison_guard_.blocks_retry(); }
  store::TakeLimits limits(const Load& load) const;
  void count_share(const store::Taken& taken);

  const std::size_t workers_;
  const std::size_t most_prefetched_;
  const milliseconds lease_;
  PoisonGuard poison_guard_;

  bool more_ready_ = false;
  std::size_t retry_left_ = 0;
  std::size_t since_retry_ = 0;  // messages taken since retry had its share

  std::size_t prefetch_ = 0;
  std::size_t handled_lately_ = 0;
  Clock::time_point counting_since_;

  std::vector<DeliveryPtr> fetching_;  // taken; their bodies are to come
  double body_size_ = 32 * 1024;       // running average, begun high: the first fetches are careful

  // Of the pipeline under way.
  store::TakeLimits asked_;
  Clock::time_point asked_at_;
  std::optional<store::Answer<store::Taken>> taken_;
  std::optional<store::Answer<std::vector<std::optional<std::string>>>> bodies_;
};

}  // namespace delayqueue
