// BodyFetcher: the deliveries of a lane that were taken and wait for their bodies. Used by the consumer's thread only.
#pragma once

#include "consumer/answer_times.h"
#include "consumer/in_flight_message.h"
#include "consumer/round_trip.h"
#include "store/moves.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

class BodyFetcher {
 public:
  using Bodies = std::vector<std::optional<std::string>>;

  // Deliveries whose bodies have arrived. First deliveries wait for any worker. Redelivered messages were taken for a
  // free worker and start at once, so that one that kills its process costs no other message a retry.
  struct Fetched {
    std::vector<InFlightPtr> first, redelivered, expired;
    std::string damaged_id{};  // of one of those whose headers cannot be read; they are delivered without
  };

  // `fetched` gets them. Counts each fetch in `answers`.
  BodyFetcher(AnswerTimes& answers, std::function<void(Fetched)> fetched)
      : answers_(answers), fetched_(std::move(fetched)) {}

  // `late`: the take that returned them had its answer late.
  void add(const std::vector<InFlightPtr>& taken, bool late);

  std::size_t size() const { return waiting_.size(); }
  bool has_redelivered() const;

  // Whether there are deliveries whose bodies nothing has requested. fetch() adds the request for them, or for as many
  // as one may fetch.
  bool has_to_fetch() const { return first_to_fetch() != waiting_.size(); }
  void fetch(RoundTrip& round_trip, const store::Store& store);

  // At most so many of the deliveries that were added as late since the last call, and whose bodies nothing has
  // requested. They are the caller's from now on.
  std::vector<InFlightPtr> abandon_late(std::size_t most);

  // All deliveries, which are the caller's from now on. Call it when no round trip is under way.
  std::vector<InFlightPtr> abandon() { return std::exchange(waiting_, {}); }

 private:
  // A request for the bodies of deliveries that follow each other in waiting_.
  struct Fetch {
    const InFlightMessage* first;
    std::size_t count;
  };

  std::size_t first_to_fetch() const;
  std::size_t end_fetch(const Fetch& fetch);
  void read_bodies(Bodies bodies, const Bodies& headers, std::size_t first, std::size_t most);

  AnswerTimes& answers_;
  const std::function<void(Fetched)> fetched_;
  std::vector<InFlightPtr> waiting_;
  std::size_t came_late_ = 0;     // messages, since the last abandon_late()
  double body_size_ = 32 * 1024;  // running average, with headers; begins high, so that the first fetches are small
};

}  // namespace delayqueue
