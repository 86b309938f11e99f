// What a GroupCommit sends in one write: script calls, each with steps of several requests that have the same terms.
#pragma once

#include "producer/send_request.h"
#include "queue/write_concern.h"
#include "redis/pipeline.h"
#include "store/layout.h"
#include "store/moves.h"

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace delayqueue {

// Consecutive messages of a request, which one script call sends: all of them or, if it fails, none.
struct SendStep {
  SendRequest* request;
  std::size_t begin, end;
  std::size_t bytes;

  std::size_t messages() const { return end - begin; }
  void clear_ids() const;
};

// The first messages of the request that are in no batch yet. There must be some.
SendStep next_step(SendRequest& request);

struct ScriptCall {
  const store::SendTerms* terms;
  std::vector<SendStep> steps{};
  std::size_t messages = 0;
  std::size_t bytes = 0;
  std::optional<redis::Answer<store::Outcomes>> answer{};
  std::optional<redis::Answer<bool>> is_first{};  // see Store::is_first
  std::optional<bool> bodies_first{};             // of the requests
  bool stores_bodies_first = false;               // see Store::stores_bodies_first

  std::vector<std::string> ids() const;

  bool fits(const SendStep& step) const;
  void add(const SendStep& step);

  // One outcome for each message. Throws the error with which Redis answered, or ReplyError if it answered for another
  // number of messages.
  store::Outcomes outcomes() const;
};

struct SendBatch {
  std::vector<ScriptCall> calls{};
  std::size_t messages = 0;
  std::size_t bytes = 0;
  std::optional<redis::Pipeline> pipeline{};
  redis::Clock::time_point sent_at{};
  std::optional<redis::Answer<store::Layout>> layout{};
  std::optional<redis::Answer<std::optional<std::string>>> marker{};
  WriteConcern::Asked confirmation{};

  // Adds the step to this script call or a later one. Returns which one it is; nothing if there is no room. A message
  // that is larger than a call may be gets a batch for itself, because the server may refuse it by closing the
  // connection.
  std::optional<std::size_t> add(const SendStep& step, std::size_t first_call);

  bool has_only_new() const;  // no message can exist already

  // Adds the script calls to the pipeline.
  void add_requests(const store::Store& store);
};

}  // namespace delayqueue
