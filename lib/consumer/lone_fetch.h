// LoneFetch: fetches one payload alone, in another thread and on a separate connection, so that no other message
// waits for its bytes. Used by the consumer's thread only, except for the call itself.
#pragma once

#include "consumer/background_call.h"
#include "consumer/delivery.h"
#include "queue/endpoint.h"
#include "store/moves.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace delayqueue {

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
  LoneFetch(InFlightPtr delivery, Endpoint& endpoint, const store::Store& store, BackgroundCalls& calls);
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

  static Result fetch(const std::string& id, bool with_headers, Endpoint& endpoint, const store::Store& store,
                      Link& link);

  const InFlightPtr delivery_;
  const std::shared_ptr<Link> link_ = std::make_shared<Link>();
  BackgroundCall<Result> call_;
};

}  // namespace delayqueue
