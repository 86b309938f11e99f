#include "consumer/lone_fetch.h"

#include "redis/connection.h"

#include <delayqueue/error.h>

#include <exception>
#include <new>
#include <utility>

namespace delayqueue {

LoneFetch::LoneFetch(InFlightPtr delivery, Endpoint& endpoint, const store::Store& store, BackgroundCalls& calls)
    : delivery_(std::move(delivery)), call_(calls) {
  call_.start([id = delivery_->message.id(), with_headers = delivery_->may_have_headers, &endpoint, &store,
               link = link_] { return fetch(id, with_headers, endpoint, store, *link); });
}

void LoneFetch::cancel() {
  const std::lock_guard lock(link_->mutex);
  link_->cancelled = true;
  if (link_->handle != nullptr) link_->handle->shut_down();
}

LoneFetch::Result LoneFetch::fetch(const std::string& id, bool with_headers, Endpoint& endpoint,
                                   const store::Store& store, Link& link) {
  Result result;
  bool reads = false;
  Clock::time_point begun = Clock::now();
  try {
    const std::unique_ptr<redis::Connection> connection = endpoint.connect_to_master();
    {
      const std::lock_guard lock(link.mutex);
      if (link.cancelled) throw ConnectionError("the fetch was cancelled");
      link.handle = connection->shutdown_handle();
    }
    redis::Pipeline pipeline(*connection);
    using Stored = redis::Answer<std::vector<std::optional<std::string>>>;
    std::vector<Stored> answers;
    if (with_headers) answers.push_back(store.headers(pipeline, {id}));
    answers.push_back(store.bodies(pipeline, {id}));
    reads = true;
    begun = Clock::now();
    pipeline.run();
    reads = false;  // what fails from here on is an answer of Redis
    if (with_headers) result.headers = std::move(answers.front().get().at(0));
    result.body = std::move(answers.back().get().at(0));
  } catch (const std::bad_alloc&) {
    result.failure = "out of memory";
    result.counts = true;
  } catch (const std::exception& e) {
    result.failure = e.what();
    if (result.failure.empty()) result.failure = "an error without a text";
    result.counts = reads;
  }
  result.took = Clock::now() - begun;
  return result;
}

}  // namespace delayqueue
