// What can go wrong, sorted by what the caller does next.
//
// Four kinds reach a caller. A ConnectionError says "do the same again". A ReplyError says "Redis refused; look at
// the text". A SetupError says "something on this machine must be changed first". A std::invalid_argument names the
// field that was wrong and its value; nothing was sent. Everything that
// is part of a queue's life (empty, unknown id, too late) is a value, never an error. No text holds a password.
#pragma once

#include <delayqueue/export.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {

class DELAYQUEUE_EXPORT Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The server could not be reached, or the link broke: unknown whether the call ran. Every call of this library may be
// repeated as it was. A send is repeated with the ids() given here in SendOptions::id or Draft::id: while the first
// is alive no second message is made.
class DELAYQUEUE_EXPORT ConnectionError : public Error {
 public:
  explicit ConnectionError(const std::string& what, std::vector<std::string> ids = {})
      : Error(what), ids_(std::move(ids)) {}

  // The ids of the messages whose sending is in doubt, in the order they were given; empty for all other calls.
  const std::vector<std::string>& ids() const { return ids_; }

 private:
  std::vector<std::string> ids_;
};

// Redis answered, and refused (or answered something that this library cannot read). The call did nothing; of a batch,
// other steps than the refused one may be sent.
class DELAYQUEUE_EXPORT ReplyError : public Error {
 public:
  using Error::Error;
};

// This machine is not set up for the call: an embedded server has no program, or its folder is open to other users.
// The text says what to change; repeating the call before that is of no use. The call did nothing.
class DELAYQUEUE_EXPORT SetupError : public Error {
 public:
  using Error::Error;
};

}  // namespace delayqueue
