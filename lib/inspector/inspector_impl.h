// The implementation behind Inspector: one shared connection, and steps that several calls use.
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

// The text of a ReplyError: a move returned `outcomes` of `messages`.
inline std::string unexpected_count(std::size_t outcomes, std::size_t messages) {
  return "the server answered for " + std::to_string(outcomes) + " messages; expected " + std::to_string(messages);
}

// Throws std::invalid_argument for State::unknown.
const std::string& key_of(const store::Keys& keys, State state);

class Inspector::Impl {
 public:
  Impl(const std::string& url, const std::string& queue, const InspectorOptions& options)
      : shared_connection_(url, queue, options.connection, options.queue, {}, RegisterQueue::if_exists) {}

  const store::Keys& keys() const { return shared_connection_.store().keys(); }
  const store::Store& store() const { return shared_connection_.store(); }
  SharedConnection& shared_connection() { return shared_connection_; }

  // Adds size, TTL and the first `bytes` of the payload to each message that has a body.
  void add_bodies(std::vector<MessageInfo>& messages, std::size_t bytes);

  // Calls `ask(pipeline, ids)`, which adds one request, for at most `step` ids at a time, and returns the answers in
  // order. One round trip carries at most 200 ids; other threads can use the connection between two round trips.
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

  // As in_steps, for moves that return one character per id. Throws ReplyError if the number differs.
  template <class Ask>
  std::string outcomes(const std::vector<std::string>& ids, std::size_t step, Ask ask) {
    std::string all;
    for (const std::string& some : in_steps(ids, step, ask)) all += some;
    if (all.size() != ids.size()) throw ReplyError(unexpected_count(all.size(), ids.size()));
    return all;
  }

  // Wakes an idle consumer.
  void wake();
  // Deletes what is left of finished messages, those of `garbage` or all.
  void collect(const std::vector<std::string>& garbage);
  void collect_all();
  // Removes ids without a message from the right end of a list, where ready2unack begins. Returns how many.
  std::uint64_t remove_hints(const std::string& list);
  Remains remains();
  // Deletes the remaining keys of an empty queue. False: nothing was deleted, since messages or garbage are left.
  bool forget();
  // Whether an idle consumer takes the wake-up marker.
  bool is_served();
  std::optional<Event> next_event(redis::Deadline deadline);

 private:
  redis::Connection& channel();

  SharedConnection shared_connection_;
  std::mutex channel_mutex_;  // guards channel_
  std::unique_ptr<redis::Connection> channel_;
};

}  // namespace delayqueue
