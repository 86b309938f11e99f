// The messages of one send, and their results.
#pragma once

#include "store/moves.h"

#include <delayqueue/producer.h>

#include <cstddef>
#include <exception>
#include <optional>
#include <string_view>
#include <vector>

namespace delayqueue {

// A message that is not sent yet.
struct PendingMessage {
  std::string_view payload;
  const store::SendTerms* terms = nullptr;
  std::string_view headers{};  // packed

  std::size_t size() const { return payload.size() + headers.size(); }
};

// The messages of one send, and their results. A request is cut into atomic steps. The messages of a step have the same
// terms; a step has at most 200 messages and 256 KiB, unless a single message is larger. Steps of several requests may
// share a script call.
struct SendRequest {
  std::vector<PendingMessage> messages{};
  // One for each message. The caller sets the ids. GroupCommit clears those that must not be sent again; the caller
  // then sets others.
  std::vector<Sent> sent{};
  std::exception_ptr error{};  // of a failed step; later steps may not have been sent
  // See SendTerms::bodies_first. One script for all new messages: of two scripts, one that the server has not loaded
  // would run after the other, and change the order.
  std::optional<bool> bodies_first{};

  // How far a failed request has got.
  std::size_t written = 0;  // steps that a server may have run; 0: nothing of it was stored
  bool stored = false;      // the server has executed a step of it
  bool withdrawn = false;   // it did not wait for a server that does not answer: see Elsewhere

  // Sets `error`. Of two errors the one that leaves the result in doubt is kept, because it carries the ids.
  void fail(const std::exception_ptr& with);

  // Throws `error`, if there is one. A ConnectionError gets the ids of all messages.
  void check() const;

  // Of GroupCommit only.
  struct Sender* sender = nullptr;
  std::size_t loaded = 0;      // messages that were put into batches so far
  std::size_t unanswered = 0;  // steps in flight
};

}  // namespace delayqueue
