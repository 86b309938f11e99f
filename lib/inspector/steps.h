// Calls for any number of ids, in bounded steps.
#pragma once

#include "queue/shared_connection.h"

#include <delayqueue/error.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace delayqueue {

// Calls `ask(pipeline, ids)`, which adds one request, for at most `step` ids at a time, and returns the answers in
// order. One round trip carries at most 200 ids; other threads can use the connection between two round trips.
template <class Ask>
auto in_steps(SharedConnection& shared_connection, const std::vector<std::string>& ids, std::size_t step, Ask ask) {
  using Answer = std::invoke_result_t<Ask, redis::Pipeline&, const std::vector<std::string>&>;
  std::vector<decltype(std::declval<Answer>().get())> results;
  for (std::size_t next = 0; next < ids.size();) {
    shared_connection.with_connection([&](redis::Connection& connection) {
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

// The text of a ReplyError: a move returned `outcomes` of `messages`.
inline std::string unexpected_count(std::size_t outcomes, std::size_t messages) {
  return "the server answered for " + std::to_string(outcomes) + " messages; expected " + std::to_string(messages);
}

// As in_steps, for moves that return one character per id. Throws ReplyError if the number differs.
template <class Ask>
std::string outcomes_in_steps(SharedConnection& shared_connection, const std::vector<std::string>& ids,
                              std::size_t step, Ask ask) {
  std::string all;
  for (const std::string& some : in_steps(shared_connection, ids, step, ask)) all += some;
  if (all.size() != ids.size()) throw ReplyError(unexpected_count(all.size(), ids.size()));
  return all;
}

// Whether a request failed because another program has written a key of another type.
inline bool is_wrong_type(const redis::Pipeline& pipeline, std::size_t request) {
  try {
    pipeline.reply(request);
    return false;
  } catch (const ReplyError& e) {
    if (std::string_view(e.what()).find("WRONGTYPE") == std::string_view::npos) throw;
    return true;
  }
}

}  // namespace delayqueue
