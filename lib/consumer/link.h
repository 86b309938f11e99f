// What the lanes of a consumer use to reach a server: round trips, and calls in other threads. Used by the consumer's
// thread only.
#pragma once

#include "os/interrupt.h"
#include "os/resources.h"
#include "redis/failure.h"
#include "redis/pipeline.h"
#include "store/scripts.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

namespace delayqueue {

// ---- Round trips ----------------------------------------------------------------------------------------------------

// The purpose of a round trip: to settle, to take, or both. `settle`: verdicts, lease renewals, wake-ups, maintenance
// and events. `take`: bodies of messages taken before, the moves of messages that are due, and the take.
//
// At most one round trip that settles is under way, and at most kMostTakes that take: while one is on its way, Redis
// works on another, and the consumer on the answers of a third. Those that settle and those that take do not wait for
// each other. Within one that settles, renew runs before unack2retry, so that the consumer's own leases are not ended.
struct Purpose {
  bool settle = false;
  bool take = false;
};
inline constexpr Purpose kSettle{true, false};
inline constexpr Purpose kTake{false, true};
inline constexpr Purpose kSettleAndTake{true, true};

// Limit of round trips that take, under way on one connection. Several are needed to use a link whose round trip is
// long; with more, a message of another queue would wait longer.
inline constexpr std::size_t kMostTakes = 3;

// Limit of a round trip: it takes, fetches or settles at most this many times kBatch messages. With several
// batches, queues of different weight that all have messages can get their shares in one round trip.
inline constexpr std::size_t kMostBatches = 4;

// A take of so many messages is large: the fixed cost of its script call is small for each of them.
inline constexpr std::size_t kLargeTake = store::kBatch / 4;

// The requests of one lane in the round trips that are under way.
struct LaneRequests {
  std::size_t under_way = 0;                // shares of round trips
  bool finished = false;                    // since it was reset: a round trip that had some has finished
  bool moved = false;                       // since it was reset: another node of a Cluster owns the slot now
  std::optional<redis::Failure> refused{};  // since it was reset: the last error with which Redis refused one
};

class RoundTrip {
 public:
  RoundTrip(redis::Connection& connection, Purpose purpose) : pipeline_(connection), purpose_(purpose) {}
  ~RoundTrip() {
    for (Continuation& continuation : continuations_) {
      if (continuation.drop) continuation.drop();
    }
    for (const Share& share : shares_) --share.lane->under_way;
  }
  RoundTrip(const RoundTrip&) = delete;
  RoundTrip& operator=(const RoundTrip&) = delete;

  const Purpose& purpose() const { return purpose_; }

  // For adding requests.
  redis::Pipeline& pipeline() { return pipeline_; }

  // The requests that are added from now on, until the next call, belong to this lane, or to none (null): a refused one
  // fails that lane only.
  void add_for(LaneRequests* lane) {
    count_lane();
    lane_ = lane;
    first_of_lane_ = pipeline_.size();
  }

  // Registers what to do with the answer to a request: `finish` is called with the Answer, whose get() throws if Redis
  // refused the request. `drop` is called if this object is destroyed before that, or if `finish` throws an exception
  // that is no Error. Answers to other requests are ignored.
  template <class T, class Finish>
  void expect(const redis::Answer<T>& answer, Finish finish, std::function<void()> drop = nullptr) {
    continuations_.push_back({[answer, finish = std::move(finish)] { finish(answer); }, std::move(drop), lane_});
  }

  // Registers what to do after those answers that expect() was called for before. An Error is as one of theirs.
  void then(std::function<void()> finish) { continuations_.push_back({std::move(finish), nullptr, lane_}); }

  bool empty() const { return pipeline_.size() == 0; }
  void send() {
    count_lane();
    pipeline_.send();
  }

  // Waits for all answers. Throws ConnectionError if one of them does not arrive.
  void receive() { pipeline_.receive(); }

  // Reads the answers that have arrived, without waiting. Returns whether all have. See Pipeline::receive_arrived().
  bool receive_arrived() { return pipeline_.receive_arrived(); }

  // Calls each `finish`, in the order of expect(). Call it when all answers have arrived. If some throw an Error, the
  // others are still called. An Error of a lane's request is then in its LaneRequests; any other is thrown, the last
  // one. A ConnectionError is the lane's only if it is about its slot: any other means that this server can serve no
  // lane now. An exception that is no Error ends the calls: the remaining requests are dropped.
  void finish() {
    std::optional<redis::Failure> refused;
    while (!continuations_.empty()) {
      const Continuation next = std::move(continuations_.front());
      continuations_.pop_front();
      try {
        next.finish();
      } catch (const Error&) {
        redis::Failure failure = redis::current_failure();
        const bool slot = failure.kind == redis::Failure::Kind::slot_unavailable;
        const bool of_lane = next.lane != nullptr && (slot || !failure.is_connection());
        if (of_lane && slot && !failure.slot_moves) next.lane->moved = true;  // this node does not know where to
        (of_lane ? next.lane->refused : refused) = std::move(failure);
      } catch (...) {
        if (next.drop) next.drop();
        throw;
      }
    }
    for (const Share& share : shares_) share.lane->finished = true;
    for (const std::size_t moved : pipeline_.moved()) {
      for (const Share& share : shares_) {
        if (moved >= share.begin && moved < share.end) share.lane->moved = true;
      }
    }
    if (refused) redis::raise(*refused);
  }

 private:
  struct Continuation {
    std::function<void()> finish, drop;
    LaneRequests* lane;
  };

  // Some requests of a lane; it may have several such shares.
  struct Share {
    LaneRequests* lane;
    std::size_t begin, end;
  };

  // Counts the requests of the lane whose requests were added last, if there were any.
  void count_lane() {
    if (lane_ == nullptr || pipeline_.size() == first_of_lane_) return;
    shares_.push_back({lane_, first_of_lane_, pipeline_.size()});
    ++lane_->under_way;
    first_of_lane_ = pipeline_.size();
  }

  redis::Pipeline pipeline_;
  const Purpose purpose_;
  std::deque<Continuation> continuations_;
  LaneRequests* lane_ = nullptr;
  std::size_t first_of_lane_ = 0;
  std::vector<Share> shares_;
};

// The round trips that are under way on one connection, in the order of their answers.
class RoundTrips {
 public:
  bool empty() const { return under_way_.empty(); }
  std::size_t count(bool Purpose::*purpose) const {
    const auto has_it = [&](const RoundTrip& round_trip) { return round_trip.purpose().*purpose; };
    return static_cast<std::size_t>(std::count_if(under_way_.begin(), under_way_.end(), has_it));
  }

  // Whether another one may be started: not after Redis refused a request of no lane, until the others have ended.
  bool may_start() const { return !refused_; }

  // Adds a round trip to be filled, which send() sends, or drops if it has no requests.
  RoundTrip& start(redis::Connection& connection, Purpose purpose) {
    return under_way_.emplace_back(connection, purpose);
  }
  void send() { under_way_.back().empty() ? under_way_.pop_back() : under_way_.back().send(); }

  // Finishes the oldest one, if all its answers have arrived; does not wait for them. If that throws an Error, the
  // others are finished, too, because their answers count all the same; then the Error is thrown. Throws
  // ConnectionError if answers are missing after the connection's due() time.
  struct Finished {
    bool one = false;     // without an Error
    bool resent = false;  // some requests ran after the others
  };
  Finished finish_arrived() {
    bool resent = false;
    while (!under_way_.empty() && under_way_.front().receive_arrived()) {
      resent = resent || under_way_.front().pipeline().resent();
      try {
        under_way_.front().finish();
      } catch (const Error&) {
        refused_ = redis::current_failure();
      }
      under_way_.pop_front();
      if (!refused_) return {true, resent};
    }
    if (under_way_.empty() && refused_) redis::raise(*std::exchange(refused_, std::nullopt));
    return {false, resent};
  }

  // Drops all.
  void clear() {
    under_way_.clear();
    refused_.reset();
  }

 private:
  std::deque<RoundTrip> under_way_;
  std::optional<redis::Failure> refused_;
};

// ---- Calls in other threads -----------------------------------------------------------------------------------------

// The background calls of a consumer.
struct BackgroundCalls {
  static constexpr std::size_t kMost = 4;  // at the same time

  std::function<void()> wake{};         // called in the thread of a call when that has ended
  std::atomic<std::size_t> running{0};  // a call that has ended does not count, also before finish()
};

// Used by the consumer's thread only, except for the call itself. A call that is under way when the consumer stops is
// interrupted.
template <class Result>
class BackgroundCall {
 public:
  explicit BackgroundCall(BackgroundCalls& calls) : calls_(calls) {}
  ~BackgroundCall() { wait(); }
  BackgroundCall(const BackgroundCall&) = delete;
  BackgroundCall& operator=(const BackgroundCall&) = delete;

  // `most`: with this call, of all that run.
  bool may_start(std::size_t most = BackgroundCalls::kMost) const { return !is_started() && calls_.running < most; }

  // Throws SetupError.
  void start(std::function<Result()> call) {
    std::packaged_task<Result()> task([call = std::move(call), interrupt = Interrupt::current()] {
      std::optional<Interrupt::Scope> until;
      if (interrupt != nullptr) until.emplace(*interrupt);
      return call();
    });
    std::future<Result> result = task.get_future();
    thread_ = start_thread("a connection", [task = std::move(task), &calls = calls_]() mutable {
      task();
      --calls.running;
      calls.wake();
    });
    ++calls_.running;  // perhaps after its end; only this thread reads it
    result_ = std::move(result);
  }

  bool is_started() const { return result_.valid(); }
  bool has_ended() const {
    return is_started() && result_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  // Whether a thread has to end first: that of this call; or any, if BackgroundCalls::kMost run.
  bool is_waiting() const { return is_started() ? !has_ended() : !may_start(); }

  // Waits for the end of the call. Returns its result, or throws what it threw.
  Result finish() {
    wait();
    return result_.get();
  }

  void wait() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  BackgroundCalls& calls_;
  std::thread thread_;
  std::future<Result> result_;
};

}  // namespace delayqueue
