// The exceptions of this library, sorted by what the caller does next.
//
// ConnectionError: repeat the call. ReplyError: Redis refused; the text says why. SetupError: change something on this
// machine first. std::invalid_argument: correct the argument or option that the text names, with its value; nothing was
// sent. std::logic_error: the object was moved from, belongs to the parent of a fork, or was started twice.
//
// Ordinary results (an empty queue, an unknown id, a verdict that came too late) are values, never exceptions. No text
// holds a password.
#pragma once

#include <delayqueue/export.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

// Base of the three below.
class DELAYQUEUE_EXPORT Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The server could not be reached, the connection broke, Redis cannot serve the call now, or the write was not as
// durable as asked for in time: unknown whether the call was executed. Every call of this library may be repeated as it
// was. Repeat a send with ids() in SendOptions::id (of a Draft: in its options): no second message is made while the
// first is in the queue.
class DELAYQUEUE_EXPORT ConnectionError : public Error {
 public:
  explicit ConnectionError(const std::string& what, std::vector<std::string> ids = {})
      : Error(what), ids_(std::move(ids)) {}

  // The ids of all messages of the send, in the order in which they were given; empty for all other calls.
  const std::vector<std::string>& ids() const { return ids_; }

 private:
  std::vector<std::string> ids_;
};

// Redis refused, or sent an answer that this library cannot read. The refused call did nothing; of a call that goes in
// steps (a batch), other steps than the refused one may be done.
class DELAYQUEUE_EXPORT ReplyError : public Error {
 public:
  using Error::Error;
};

// This machine is not set up for the call: no server program for an embedded URL, or a folder that other users can
// enter. The text says what to change; until then a retry fails, too. The call did nothing.
class DELAYQUEUE_EXPORT SetupError : public Error {
 public:
  using Error::Error;
};

}  // namespace delayqueue
