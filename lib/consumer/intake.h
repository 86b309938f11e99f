// Intake: what a lane moves, takes and fetches, and what the answers show. plan() decides how much. Used by the
// consumer's thread only.
#pragma once

#include "consumer/delivery.h"
#include "consumer/link.h"
#include "consumer/plan.h"
#include "queue/endpoint.h"
#include "store/moves.h"

#include <delayqueue/client.h>
#include <delayqueue/log.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

// ---- AnswerTimes ----------------------------------------------------------------------------------------------------

// AnswerTimes: how long a server takes to answer the requests of a lane, and when an answer is late.
class AnswerTimes {
 public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  // A request was sent.
  void begin() {
    if (under_way_++ == 0) waits_since_ = Clock::now();
  }
  // A request has its answer, or is dropped.
  void end() {
    if (under_way_ > 0) --under_way_;
    waits_since_ = Clock::now();
  }

  // A take had its answer after this time. Returns whether that was late.
  bool measure(Clock::duration took) {
    const bool late = took >= patience();
    const Seconds seconds(took);
    usual_ = usual_.count() > 0 ? 0.9 * usual_ + 0.1 * seconds : seconds;
    shortest_ = shortest_.count() > 0 ? std::min(shortest_, seconds) : seconds;
    return late;
  }

  bool is_late() const { return under_way_ > 0 && Clock::now() - waits_since_ >= patience(); }
  // When the answers under way are late; nullopt: there are none, or they are late already.
  std::optional<Clock::time_point> late_at() const {
    return under_way_ > 0 && !is_late() ? std::optional(waits_since_ + patience()) : std::nullopt;
  }

  // A running average of the measured takes, and the shortest of them: about a round trip. 0: none was measured.
  Seconds usual() const { return usual_; }
  Seconds shortest() const { return shortest_; }

 private:
  // An answer is late after kUsualTimes times the usual time, but not before kShortestPatience, and in any case after
  // kLongestPatience.
  static constexpr int kUsualTimes = 4;
  static constexpr std::chrono::milliseconds kShortestPatience{50};
  static constexpr std::chrono::milliseconds kLongestPatience{500};

  Clock::duration patience() const {
    return std::clamp<Clock::duration>(std::chrono::duration_cast<Clock::duration>(kUsualTimes * usual_),
                                       kShortestPatience, kLongestPatience);
  }

  std::size_t under_way_ = 0;
  Clock::time_point waits_since_;  // when the first of them was sent, or the last answer arrived
  Seconds usual_{0};               // running average
  Seconds shortest_{0};
};

// ---- PrefetchSize ---------------------------------------------------------------------------------------------------

// PrefetchSize: how many messages a lane holds for its handlers. It follows the speed of the handlers: fast ones never
// wait for the network, slow ones leave messages to other consumers.
class PrefetchSize {
 public:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;

  explicit PrefetchSize(std::size_t most) : most_(static_cast<double>(most)) {}

  // Not a whole number: many partitions, each of which handles a message now and then, add up to some.
  double get() const { return size_; }

  // So many handlers have returned since the last call. `take`: how long a take usually lasts.
  void handled(std::size_t returned, Seconds take) {
    handled_ += returned;
    const Clock::time_point now = Clock::now();
    const Seconds counted = now - counting_since_;
    const Seconds span = std::clamp<Seconds>(kRoundTripsToHandler * take, kSpan, kLongestSpan);
    if (counted < span / 2) return;
    const double in_span = static_cast<double>(handled_) * (span / counted);
    size_ = std::max(std::min(in_span, most_), size_ / 2);
    handled_ = 0;
    counting_since_ = now;
  }

 private:
  // It is the number of messages handled in a span: kSpan, or kRoundTripsToHandler takes if they last longer, at most
  // kLongestSpan.
  static constexpr std::chrono::milliseconds kSpan{10};
  static constexpr std::chrono::milliseconds kLongestSpan{100};
  static constexpr int kRoundTripsToHandler = 4;

  const double most_;
  double size_ = 0;
  std::size_t handled_ = 0;  // since counting_since_
  Clock::time_point counting_since_;
};

// ---- Timers ---------------------------------------------------------------------------------------------------------

// When a lane has to look for due messages, for ended leases and for overrunning handlers.
class Timers {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;

  Timers(milliseconds poll_interval, milliseconds reconnect_grace, milliseconds processing_timeout, milliseconds lease)
      : poll_interval_(poll_interval),
        grace_(reconnect_grace),
        processing_timeout_(processing_timeout),
        outage_(lease / 2) {}

  // A new connection: everything is due. During the grace, leases that ended are left alone: their owners may have lost
  // the same server, and need time to renew them. The grace is time with a connection: links that are shorter than it
  // add up. It begins again only after an outage in which leases may have ended that are renewed in time; and a few
  // times at most before ended leases are taken back, or with such links no ended lease would ever be taken back.
  void connected(Time now) {
    const bool is_outage = !answered_ || now - *answered_ >= outage_;
    if (is_outage && graces_ < kMostGraces) {
      grace_left_ = grace_;
      ++graces_;
    }
    grace_end_ = now + grace_left_;
    connected_ = true;
    answered_ = now;
    all_due();
  }

  // The server has answered an unack2retry.
  void reclaimed(Time now) {
    answered_ = now;
    if (!reclaims_only_backoffs(now)) graces_ = 0;
  }

  // The connection was lost.
  void disconnected(Time now) {
    if (std::exchange(connected_, false)) grace_left_ = std::max(grace_end_ - now, Clock::duration::zero());
  }

  void all_due() { promote_ = reclaim_ = Time(); }

  milliseconds poll_interval() const { return poll_interval_; }

  // Changes the poll_interval. A shorter one holds at once.
  void poll_every(milliseconds interval) {
    if (interval == poll_interval_) return;
    poll_interval_ = interval;
    const Time latest = Clock::now() + interval;
    promote_by(latest);
    reclaim_by(latest);
  }

  // pending2ready or pending2unack: at the latest a poll_interval after the last time; and always while the last one
  // moved a full batch, because more messages may be due.
  bool promote_is_due(Time now) const { return now >= promote_; }
  bool more_are_due() const { return more_due_; }
  void set_more_due(bool more) { more_due_ = more; }
  void promoting(Time now) { promote_ = now + poll_interval_; }
  void promote_now() { promote_ = Time(); }
  void promote_by(Time time) { promote_ = std::min(promote_, time); }

  // unack2retry: at the latest a poll_interval after the last time, and at the end of the grace.
  bool reclaim_is_due(Time now) const { return now >= reclaim_; }
  bool reclaims_only_backoffs(Time now) const { return now < grace_end_; }
  void reclaiming(Time now) {
    reclaim_ = now + poll_interval_;
    if (reclaims_only_backoffs(now)) reclaim_by(grace_end_);
  }
  void reclaim_by(Time time) { reclaim_ = std::min(reclaim_, time); }

  // Handlers that run longer than the processing timeout are noticed at most a tenth of it late.
  bool overrun_is_due(Time now) const { return now >= overrun_; }
  void checking_overrun(Time now) { overrun_ = now + std::max(processing_timeout_ / 10, milliseconds(1)); }
  Time next_overrun_check() const { return overrun_; }

  Time next() const { return more_due_ ? Time() : std::min(promote_, reclaim_); }

 private:
  static constexpr int kMostGraces = 3;

  milliseconds poll_interval_;
  const milliseconds grace_;
  const milliseconds processing_timeout_;
  const Clock::duration outage_;   // without an answer; leases are renewed when a third of them has passed
  Clock::duration grace_left_{0};  // while there is no connection
  int graces_ = 0;                 // that began since ended leases were taken back
  std::optional<Time> answered_;
  bool connected_ = false;
  Time promote_, reclaim_, grace_end_, overrun_;
  bool more_due_ = false;
};

// ---- PoisonGuard ----------------------------------------------------------------------------------------------------

// Retries possible poison messages one at a time.
//
// A message whose last delivery ended with its lease may have killed its process. Delivered together with others, it
// would cost all of them a retry each time. So a consumer runs one such message at a time, of all its queues, until it
// has run for a lease: a message that kills its process at once has done so by then. Other messages in retry do not
// wait behind possible poison messages for long: the guard scans retry for them.

// The possible poison messages that run in one consumer. The guards of its queues share it.
class PoisonRuns {
 public:
  // Whether another one may run beside those that run already: each has run for a lease of its queue.
  bool may_add() const;
  // And no take of another guard may return one.
  bool may_add(const void* guard) const { return (expected_by_ == nullptr || expected_by_ == guard) && may_add(); }

  // `lease`: of its queue.
  void add(const InFlightPtr& delivery, milliseconds lease) { running_.push_back({delivery, lease}); }

  // These were handled, or will not be.
  void remove(const std::vector<InFlightPtr>& done);

  // A take of this guard may return one, until expect_none().
  void expect_one(const void* guard) { expected_by_ = guard; }
  bool expects_one(const void* guard) const { return expected_by_ == guard; }
  void expect_none(const void* guard) {
    if (expected_by_ == guard) expected_by_ = nullptr;
  }

 private:
  struct Running {
    InFlightPtr delivery;
    milliseconds lease;
  };

  std::vector<Running> running_;
  const void* expected_by_ = nullptr;
};

class PoisonGuard {
 public:
  using Clock = std::chrono::steady_clock;

  PoisonGuard(milliseconds lease, PoisonRuns& runs) : lease_(lease), runs_(runs) {}
  ~PoisonGuard() { runs_.expect_none(this); }
  PoisonGuard(const PoisonGuard&) = delete;
  PoisonGuard& operator=(const PoisonGuard&) = delete;

  // Whether another possible poison message may run beside those that run already.
  bool may_take() const { return runs_.may_add(this); }

  // Whether retry has nothing to take, as far as is known: all in it may be poison, and one runs.
  bool blocks_retry() const { return rescan_at_ && !may_take() && Clock::now() < *rescan_at_; }

  // When to scan for other messages, if there is no other reason for a step.
  Clock::time_point rescan_due() const {
    return may_hide_others_ && blocks_retry() ? *rescan_at_ : Clock::time_point::max();
  }

  // Writes what plan() has to know of it.
  void describe(planning::LaneView& view) const;

  // A take with these limits was sent. Until it is answered or dropped, no other guard takes possible poison.
  void sent(const store::TakeLimits& limits) {
    if (limits.retry_max > 0 && limits.poison_max > 0) runs_.expect_one(this);
  }
  void ended() { runs_.expect_none(this); }

  // Reads the answer to a take from retry; `deliveries` are its messages.
  void read(const store::TakeLimits& limits, const store::Taken& taken, const std::vector<InFlightPtr>& deliveries);

  // Messages came into retry: they may be behind possible poison messages.
  void retry_grew() { may_hide_others_ = true; }

  // These were handled, or will not be.
  void remove(const std::vector<InFlightPtr>& done) { runs_.remove(done); }

 private:
  const milliseconds lease_;
  PoisonRuns& runs_;
  bool owed_ = false;                           // the last take met possible poison, and was to take none
  bool may_hide_others_ = false;                // retry may hold other messages than those met
  bool scanning_ = false;                       // takes pass over possible poison, a part of it each
  std::size_t left_ = 0;                        // to pass over
  std::optional<Clock::time_point> rescan_at_;  // unset: no possible poison was met
};

// ---- LoneFetch ------------------------------------------------------------------------------------------------------

// LoneFetch: fetches one payload alone, in another thread and on a separate connection, so that no other message waits
// for its bytes. Used by the consumer's thread only, except for the call itself.
class LoneFetch {
 public:
  using Clock = std::chrono::steady_clock;

  struct Result {
    std::optional<std::string> body{};     // unset: it is gone, or the fetch failed
    std::optional<std::string> headers{};  // packed
    std::string failure{};                 // why it failed; empty: it did not
    bool counts = false;                   // it failed while the payload was read: that is a failed delivery
    Clock::duration took{};                // to read it
  };

  // Begins to fetch the payload of this delivery. The endpoint and the store must outlive this object. Throws
  // SetupError.
  LoneFetch(InFlightPtr delivery, Endpoint& endpoint, const store::Moves& moves, BackgroundCalls& calls);
  ~LoneFetch() { cancel(); }
  LoneFetch(const LoneFetch&) = delete;
  LoneFetch& operator=(const LoneFetch&) = delete;

  const InFlightPtr& delivery() const { return delivery_; }
  bool has_ended() const { return call_.has_ended(); }
  Result finish() { return call_.finish(); }

  // Ends it soon, if it is not too late.
  void cancel();

 private:
  // The connection, once there is one.
  struct Link {
    std::mutex mutex;  // guards the rest
    bool cancelled = false;
    std::shared_ptr<redis::ShutdownHandle> handle;
  };

  static Result fetch(const std::string& id, bool with_headers, Endpoint& endpoint, const store::Moves& moves,
                      Link& link);

  const InFlightPtr delivery_;
  const std::shared_ptr<Link> link_ = std::make_shared<Link>();
  BackgroundCall<Result> call_;
};

// ---- BodyFetcher ----------------------------------------------------------------------------------------------------

// BodyFetcher: the deliveries of a lane that were taken and wait for their bodies. An occurrence of a schedule that
// must not overlap waits here, too, until Redis has answered that no earlier one is alive.
//
// Bodies are fetched together, on the connection of the server, as long as they arrive. When such a fetch fails, or is
// slow, the size of a body is read before it: small ones are fetched together again, and each large one alone, on a
// separate connection (LoneFetch), so that no other message waits for it; so is one whose size cannot be read, and one
// that was lost with an answer in which there was no other. A lone fetch that fails is a failed delivery: it spends a
// retry, because another attempt may fail as well.

// Whether large bodies of a queue arrive slowly, or not at all. All its partitions share it.
struct LargeBodies {
  using Clock = std::chrono::steady_clock;

  bool are_slow() const { return can_size && Clock::now() < until; }
  void were_slow() { until = Clock::now() + kFor; }

  // Whether to log another warning: one a minute.
  bool warns() {
    const Clock::time_point now = Clock::now();
    if (now < warns_at) return false;
    warns_at = now + std::chrono::minutes(1);
    return true;
  }

  static constexpr std::chrono::minutes kFor{10};
  Clock::time_point until{}, warns_at{};
  bool can_size = true;  // false: this user may not read sizes, so only payloads that have failed are fetched alone
};

class BodyFetcher {
 public:
  using Clock = std::chrono::steady_clock;
  using Bodies = std::vector<std::optional<std::string>>;

  // Deliveries whose bodies have arrived. First deliveries wait for any worker. Redelivered messages were taken for a
  // free worker and start at once, so that one that kills its process costs no other message a retry.
  struct Fetched {
    std::vector<InFlightPtr> first, redelivered, expired;
    std::vector<InFlightPtr> skipped, waits{};  // occurrences that may not begin, since another one is alive
    std::string damaged_id{};  // of one of those whose headers cannot be read; they are delivered without
  };

  struct Listener {
    std::function<void(Fetched)> fetched;
    // The body could not be fetched, for this reason.
    std::function<void(const InFlightPtr&, std::string reason)> failed;
    std::function<void(Severity, const std::string& text)> log;
  };

  // Counts each fetch in `answers`. `longest`: of a lone fetch.
  BodyFetcher(Endpoint& endpoint, const store::Moves& moves, AnswerTimes& answers, LargeBodies& large,
              BackgroundCalls& calls, milliseconds longest, Listener listener)
      : endpoint_(endpoint),
        moves_(moves),
        answers_(answers),
        large_(large),
        calls_(calls),
        longest_(longest),
        listener_(std::move(listener)) {}

  // `late`: the take that returned them had its answer late.
  void add(const std::vector<InFlightPtr>& taken, bool late);

  // Writes what plan() has to know of it. Lone fetches are not in it: they keep no place from others.
  void describe(planning::LaneView& view);

  // Whether there are deliveries whose bodies, or sizes, nothing has requested. fetch() adds the requests for them, or
  // for as many as one round trip may fetch.
  bool has_to_fetch() const {
    return first_to_fetch() != waiting_.size() || has_maybe_large_to_fetch() || has_to_begin();
  }
  void fetch(RoundTrip& round_trip);

  // Passes on what lone fetches have fetched, and begins others if `works`: whether Redis answers.
  void advance_lone(bool works);
  // Ends all lone fetches, and waits for their threads.
  void end_lone();
  // When to call advance_lone() again; the maximum: when a lone fetch has ended, which wakes the consumer's thread.
  Clock::time_point lone_due() const;

  // At most so many of the deliveries that were added as late since the last call, and whose bodies nothing has
  // requested. They are the caller's from now on.
  std::vector<InFlightPtr> dequeue_late(std::size_t most);

  // All deliveries, which are the caller's from now on. Call it when no round trip is under way.
  std::vector<InFlightPtr> dequeue_all();

 private:
  // A request for the bodies of deliveries that follow each other in waiting_.
  struct Fetch {
    const InFlightMessage* first;
    std::size_t count;
  };

  bool has_redelivered() const;
  std::size_t first_to_fetch() const;
  std::size_t unrequested_last() const;
  void request(RoundTrip& round_trip, std::size_t first, const std::vector<std::string>& ids, bool with_headers);
  void note_slow(const Bodies& bodies, Clock::duration took);
  std::size_t end_fetch(const Fetch& fetch);
  void drop(const Fetch& fetch);
  void read_bodies(Bodies bodies, const Bodies& headers, std::size_t first, std::size_t most);
  static void set_contents(InFlightMessage& delivery, std::string&& body, const std::optional<std::string>* headers,
                           Fetched& fetched);

  // Occurrences of schedules that do not overlap.
  void pass_on(Fetched fetched);
  bool has_to_begin() const;
  void request_begins(RoundTrip& round_trip);
  void read_begun(const InFlightPtr& delivery, const store::Answer<store::Begun>& answer);

  // Those whose size is read first.
  bool is_small(const InFlightMessage& delivery) const;
  bool has_maybe_large_to_fetch() const;
  void request_sizes(RoundTrip& round_trip);
  void request_small(RoundTrip& round_trip);
  void pause_lone(const std::string& failure);
  void read_lone(LoneFetch& fetch);

  Endpoint& endpoint_;
  const store::Moves& moves_;
  AnswerTimes& answers_;
  LargeBodies& large_;
  BackgroundCalls& calls_;
  const milliseconds longest_;
  const Listener listener_;
  std::vector<InFlightPtr> waiting_;
  std::vector<InFlightPtr> maybe_large_;  // their sizes are read first
  std::vector<InFlightPtr> beginning_;    // they have their bodies, and wait for the answer whether they may begin
  bool begin_has_failed_ = false;         // the last time
  std::list<LoneFetch> lone_;
  std::list<LoneFetch> cancelled_;         // they end soon
  Clock::time_point lone_paused_until_{};  // after one failed without reading
  std::size_t most_together_ = 0;          // bytes of small bodies in one fetch; 0: as many as there may be
  bool may_have_redelivered_ = false;
  std::size_t came_late_ = 0;     // messages, since the last dequeue_late()
  double body_size_ = 32 * 1024;  // running average, with headers; begins high, so that the first fetches are small
};

// ---- Taker ----------------------------------------------------------------------------------------------------------

// Taker: takes messages for a lane as plan() says, and keeps what the takes have shown.
class Taker {
 public:
  using Clock = std::chrono::steady_clock;

  // What one take returned.
  struct Taken {
    std::vector<InFlightPtr> deliveries{};
    std::int64_t now_us = 0;  // Redis' time
    Clock::time_point sent_at{};
    std::vector<InFlightPtr> foreign{};  // their ids are not valid: the Settler removes them from unack
    std::size_t removed = 0;             // number of further foreign ids, which are removed already
    std::string foreign_id{};            // one of all these
  };

  struct Listener {
    // Before `taken`, if one request did both. `more`: it moved as many as it was asked for.
    std::function<void(const store::Promoted&, bool more)> promoted;
    std::function<void(const Taken&)> taken;
  };

  // `consumer`: its name. `queue`, `lane`: their numbers, among those of the consumer. `handled`: see
  // ServedQueue::handled_since_retry. Counts each take in `answers`, and gives what it returns to `bodies`.
  Taker(const std::string& queue_name, const std::string& consumer, std::size_t queue, std::size_t lane,
        milliseconds lease, std::size_t& handled, AnswerTimes& answers, BodyFetcher& bodies, PoisonRuns& poison_runs,
        Listener listener)
      : queue_name_(std::make_shared<const std::string>(queue_name)),
        consumer_(consumer),
        queue_(queue),
        lane_(lane),
        lease_(lease),
        handled_(handled),
        answers_(answers),
        bodies_(bodies),
        listener_(std::move(listener)),
        poison_guard_(lease, poison_runs) {}

  // Writes what plan() has to know of it.
  void describe(planning::LaneView& view);

  bool more_ready() const { return more_ready_; }

  // Whether the queue has limits, as far as is known.
  bool is_paced() const { return paced_; }
  // When to plan again, because the limits have kept the last plan from a take; the maximum: they have not. It may be
  // past: this time has come since that plan.
  Clock::time_point held_until() const { return was_held_ ? held_until_ : Clock::time_point::max(); }
  // Messages were settled: perhaps they have freed places that a take needed.
  void freed_places() {
    if (paced_ && !held_by_rate_) take_again();
  }
  // A marker has arrived: perhaps the limits allow to take more.
  void take_again() {
    held_until_ = {};
    again_at_ = Clock::now();
  }
  // Whether the queue has been found to have limits since the last call.
  bool finds_limits() { return std::exchange(places_are_new_, false); }
  // Whether others rely on this consumer to take the next token; and ends that, so that another is woken for it.
  bool watches() const { return watches_; }
  void leave_watch(RoundTrip& round_trip, const store::Moves& moves);
  void forget_watch() { watches_ = false; }  // the connection was lost

  // There may be so many more to take later.
  void expect_more(std::size_t messages) {
    expected_ = std::max(messages, more_ready_ ? expected_ : 0);
    more_ready_ = true;
    lists_empty_ = false;
  }

  // pending2ready has moved so many messages. A take in the same round trip answers later.
  void promoted(std::size_t moved) {
    promoted_ += moved;
    if (moved > 0) expect_more(moved);
  }

  // A producer or another consumer has put messages into ready.
  void ready_grew() { lists_empty_ = false; }

  // So many messages came into retry. They may be behind possible poison messages: then rescan_due() is when to look
  // for them.
  void retry_grew(std::size_t messages) {
    poison_guard_.retry_grew();
    retry_left_ += messages;
    lists_empty_ = false;
  }
  Clock::time_point rescan_due() const { return poison_guard_.rescan_due(); }

  // Adds these takes, if there are any. One that limits hold back is made again after `poll_interval`, or sooner.
  void take(RoundTrip& round_trip, const store::Moves& moves, const planning::Take& take, milliseconds poll_interval);

  // The same, of due messages from pending. If the lists are not empty, these only move the messages to ready, and a
  // take must follow.
  void take_due(RoundTrip& round_trip, const store::Moves& moves, const planning::Take& take, bool with_ids,
                const store::Watcher& watcher);

  // These deliveries have a verdict, or no handler gets them.
  void remove(const std::vector<InFlightPtr>& deliveries) { poison_guard_.remove(deliveries); }

 private:
  bool retry_waits() const { return retry_left_ > 0 && !poison_guard_.blocks_retry(); }
  void begin_take(const store::TakeLimits& limits);
  void end_take(const store::TakeLimits& limits);
  bool read_limits(const store::Taken& taken, bool paced, Clock::time_point sent_at, milliseconds poll_interval);
  void read_taken(const store::TakeLimits& limits, Clock::time_point sent_at, const store::Taken& taken,
                  std::size_t more);
  void count_share(const store::Taken& taken);

  const std::shared_ptr<const std::string> queue_name_;  // in every Message
  const std::string consumer_;
  const std::size_t queue_;
  const std::size_t lane_;
  const milliseconds lease_;
  std::size_t& handled_;
  AnswerTimes& answers_;
  BodyFetcher& bodies_;
  const Listener listener_;
  PoisonGuard poison_guard_;

  bool more_ready_ = false;
  std::size_t expected_ = 0;  // in ready, if there are more
  bool lists_empty_ = false;  // the last take returned nothing from ready and retry, except what was moved for it
  std::size_t promoted_ = 0;  // messages that pending2ready has moved since the last take
  std::size_t retry_left_ = 0;
  std::size_t since_retry_ = 0;     // messages taken since retry had its share
  std::size_t coming_ = 0;          // most messages that the takes under way return
  std::size_t coming_retries_ = 0;  // most of them from retry
  bool full_ = false;               // the last take returned all that it asked for
  bool paced_ = false;              // it takes with take_paced
  bool places_are_new_ = false;
  bool watches_ = false;
  Clock::time_point held_until_{};
  bool held_by_rate_ = false;     // the last take
  bool was_held_ = false;         // in the last plan
  Clock::time_point again_at_{};  // of the last take_again()
};

}  // namespace delayqueue
