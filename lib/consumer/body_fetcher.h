// BodyFetcher: the deliveries of a lane that were taken and wait for their bodies. Used by the consumer's thread only.
//
// Bodies are fetched together, on the connection of the server, as long as they arrive. When such a fetch fails, or is
// slow, the size of a body is read before it: small ones are fetched together again, and each large one alone, on a
// separate connection (LoneFetch), so that no other message waits for it. A lone fetch that fails is a failed
// delivery: it spends a retry, because another attempt may fail as well.
#pragma once

#include "consumer/answer_times.h"
#include "consumer/delivery.h"
#include "consumer/lone_fetch.h"
#include "consumer/plan.h"
#include "consumer/round_trip.h"
#include "queue/endpoint.h"
#include "store/moves.h"

#include <delayqueue/events.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

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
    std::string damaged_id{};  // of one of those whose headers cannot be read; they are delivered without
  };

  struct Listener {
    std::function<void(Fetched)> fetched;
    // The body could not be fetched, for this reason.
    std::function<void(const InFlightPtr&, std::string reason)> failed;
    std::function<void(Severity, const std::string& text)> log;
  };

  // Counts each fetch in `answers`. `longest`: of a lone fetch.
  BodyFetcher(Endpoint& endpoint, const store::Store& store, AnswerTimes& answers, LargeBodies& large,
              BackgroundCalls& calls, milliseconds longest, Listener listener)
      : endpoint_(endpoint),
        store_(store),
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
  bool has_to_fetch() const { return first_to_fetch() != waiting_.size() || has_single_to_fetch(); }
  void fetch(RoundTrip& round_trip);

  // Passes on what lone fetches have fetched, and begins others if `works`: whether Redis answers.
  void advance_lone(bool works);
  // Ends all lone fetches, and waits for their threads.
  void end_lone();
  // When to call advance_lone() again; the maximum: when a lone fetch has ended, which wakes the consumer's thread.
  Clock::time_point lone_due() const;

  // At most so many of the deliveries that were added as late since the last call, and whose bodies nothing has
  // requested. They are the caller's from now on.
  std::vector<InFlightPtr> abandon_late(std::size_t most);

  // All deliveries, which are the caller's from now on. Call it when no round trip is under way.
  std::vector<InFlightPtr> abandon();

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
  static void set_contents(InFlightMessage& delivery, std::string body, const std::optional<std::string>* headers,
                           Fetched& fetched);

  // Those whose size is read first.
  bool is_small(const InFlightMessage& delivery) const;
  bool has_single_to_fetch() const;
  void request_sizes(RoundTrip& round_trip);
  void request_small(RoundTrip& round_trip);
  void pause_lone(const std::string& failure);
  void read_lone(LoneFetch& fetch);

  Endpoint& endpoint_;
  const store::Store& store_;
  AnswerTimes& answers_;
  LargeBodies& large_;
  BackgroundCalls& calls_;
  const milliseconds longest_;
  const Listener listener_;
  std::vector<InFlightPtr> waiting_;
  std::vector<InFlightPtr> single_;  // their sizes are read first
  std::list<LoneFetch> lone_;
  std::list<LoneFetch> abandoned_;         // cancelled; they end soon
  Clock::time_point lone_paused_until_{};  // after one failed without reading
  std::size_t most_together_ = 0;          // bytes of small bodies in one fetch; 0: as many as there may be
  bool may_have_redelivered_ = false;
  std::size_t came_late_ = 0;     // messages, since the last abandon_late()
  double body_size_ = 32 * 1024;  // running average, with headers; begins high, so that the first fetches are small
};

}  // namespace delayqueue
