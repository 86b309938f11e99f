// What the calls of an Inspector share.
#pragma once

#include "queue/shared_connection.h"

#include <delayqueue/inspector.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace delayqueue {

inline bool is_list(State state) { return state == State::ready || state == State::retry; }

// Throws std::invalid_argument for unknown.
const std::string& key_of(const store::Keys& keys, State state);

class Inspector::Impl {
 public:
  Impl(const std::string& url, const std::string& queue, const InspectorOptions& options)
      : shared_connection_(url, queue, options.connection, options.queue, {}, RegisterQueue::looks) {}

  const store::Keys& keys() const { return shared_connection_.store().keys(); }
  const store::Store& store() const { return shared_connection_.store(); }
  SharedConnection& session() { return shared_connection_; }

  void add_bodies(std::vector<MessageInfo>& messages, std::size_t bytes);

  // Asks for at most `step` ids at a time: `ask(pipeline, ids)` adds one request. The answers in order. Several requests
  // share a round trip, no more than 200 ids; between two of those other threads have their turn.
  template <class Ask>
  auto in_steps(const std::vector<std::string>& ids, std::size_t step, Ask ask) {
    using Answer = std::invoke_result_t<Ask, redis::Pipeline&, const std::vector<std::string>&>;
    std::vector<decltype(std::declval<Answer>().get())> results;
    for (std::size_t next = 0; next < ids.size();) {
      shared_connection_.with_connection([&](redis::Connection& connection) {
        redis::Pipeline pipeline(connection);
        std::vector<Answer> answers;
        const std::size_t end = std::min(ids.size(), next + store::kBatch);
        while (next < end) {
          const auto from = ids.begin() + static_cast<std::ptrdiff_t>(next);
          const std::size_t most = std::min(step, end - next);
          answers.push_back(ask(pipeline, std::vector<std::string>(from, from + static_cast<std::ptrdiff_t>(most))));
          next += most;
        }
        pipeline.run();
        for (const Answer& answer : answers) results.push_back(answer.get());
      });
    }
    return results;
  }

  // The same for moves that answer one character an id. Throws ReplyError if there are not as many.
  template <class Ask>
  std::string outcomes(const std::vector<std::string>& ids, std::size_t step, Ask ask) {
    std::string all;
    for (const std::string& some : in_steps(ids, step, ask)) all += some;
    if (all.size() != ids.size()) throw ReplyError("the server answered for another number of messages");
    return all;
  }

  void wake();
  void collect(const std::vector<std::string>& garbage);
  void collect_all();
  // Removes ids that are no messages from the end of a list where takes begin. How many places are free by it.
  std::uint64_t remove_hints(const std::string& list);
  Remains remains();
  // Deletes the keys that are left of an empty queue. False: it is not empty, or has garbage.
  bool forget();
  // Whether a consumer waits to be woken.
  bool is_served();
  std::optional<Event> next_event(redis::Deadline deadline);

 private:
  redis::Connection& channel();

  SharedConnection shared_connection_;
  std::mutex channel_mutex_;  // guards channel_
  std::unique_ptr<redis::Connection> channel_;
};

}  // namespace delayqueue
