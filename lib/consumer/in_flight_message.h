// One message in flight: leased to this consumer, from the take until it is settled.
#pragma once

#include "consumer/message_contents.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace delayqueue {

struct InFlightMessage {
  enum class Stage { waiting, running, replaced, done };

  // What a take returns about one message.
  struct Taken {
    std::string id;
    std::shared_ptr<const std::string> queue;
    int attempt = 1;
    int retries_left = 0;
    std::int64_t receipt_us = 0;
  };

  InFlightMessage(Taken taken, Lease::Clock::time_point ends)
      : lease(std::make_shared<Lease>(ends)),
        message(MessageContents::make(std::move(taken.id), std::move(taken.queue), taken.attempt, taken.retries_left,
                                      lease)),
        receipt_us(taken.receipt_us) {}

  // The handler begins. The payload must be set.
  void begin() {
    started_.store(Lease::Clock::now().time_since_epoch().count(), std::memory_order_relaxed);
    stage_.store(Stage::running, std::memory_order_release);
  }

  // The handler has returned, or will not begin. False if its worker was replaced in the meantime and must end.
  bool end(Verdict said) {
    verdict = std::move(said);
    return stage_.exchange(Stage::done, std::memory_order_acq_rel) != Stage::replaced;
  }

  // Another worker replaces this delivery's. False if the handler does not run.
  bool replace_worker() {
    Stage from = Stage::running;
    return stage_.compare_exchange_strong(from, Stage::replaced, std::memory_order_acq_rel);
  }

  // No other worker could be started.
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

  const std::shared_ptr<Lease> lease;
  Message message;
  Verdict verdict = ack();  // the handler's, after it has returned

  // Of the consumer's thread only.
  std::int64_t receipt_us;  // the lease end as confirmed by Redis
  bool expired = false;     // the body was gone when the message was taken
  bool foreign = false;     // the id is not valid: another program wrote it
  bool settling = false;    // a request to settle it is under way
  bool in_doubt = false;    // the answer to a request to settle it never came
  bool refused = false;     // Redis refused to settle it

 private:
  std::atomic<Stage> stage_{Stage::waiting};
  std::atomic<Lease::Clock::rep> started_{0};
};

using InFlightPtr = std::shared_ptr<InFlightMessage>;

}  // namespace delayqueue
