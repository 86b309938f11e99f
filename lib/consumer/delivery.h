// One delivery in a consumer's workers: from the moment it entered unack until it is settled.
#pragma once

#include "consumer/lease.h"

#include <delayqueue/message.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace delayqueue {

struct Delivery {
  enum class Stage { waiting, running, replaced, done };

  Delivery(std::string id, int attempt, std::int64_t receipt, Lease::Clock::time_point ends)
      : lease(std::make_shared<Lease>(ends)), receipt_us(receipt) {
    message.id = std::move(id);
    message.attempt = attempt;
    message.lease = lease;
  }

  // The handler begins. The payload is set by then.
  void begin() {
    started_.store(Lease::Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    stage_.store(Stage::running, std::memory_order_release);
  }

  // The handler ended, or need not begin. False if its worker was replaced meanwhile and is one too many now.
  bool end(Verdict said) {
    verdict = std::move(said);
    return stage_.exchange(Stage::done, std::memory_order_acq_rel) != Stage::replaced;
  }

  // Another worker takes the place of this one's. False if the handler does not run (any more).
  bool replace_worker() {
    Stage from = Stage::running;
    return stage_.compare_exchange_strong(from, Stage::replaced, std::memory_order_acq_rel);
  }

  // There is none to take its place.
  void keep_worker() {
    Stage from = Stage::replaced;
    stage_.compare_exchange_strong(from, Stage::running, std::memory_order_acq_rel);
  }

  bool runs_longer_than(std::chrono::milliseconds most) const {
    const Stage stage = stage_.load(std::memory_order_acquire);
    if (stage != Stage::running && stage != Stage::replaced) return false;
    const Lease::Clock::duration began(started_.load(std::memory_order_relaxed));
    return Lease::Clock::now().time_since_epoch() - began >= most;
  }

  Message message;
  const std::shared_ptr<Lease> lease;
  Verdict verdict{true};  // the handler's; read when it came back

  // Of the consumer's thread only.
  std::int64_t receipt_us;  // the lease end as confirmed by Redis
  bool expired = false;     // its body was gone when it was taken
  bool foreign = false;     // its id is none
  bool settling = false;    // its settle is under way
  bool in_doubt = false;    // a settle was sent whose answer never came
  bool refused = false;     // a settle was answered by an error

 private:
  std::atomic<Stage> stage_{Stage::waiting};
  std::atomic<Lease::Clock::rep> started_{0};
};

using DeliveryPtr = std::shared_ptr<Delivery>;

}  // namespace delayqueue
