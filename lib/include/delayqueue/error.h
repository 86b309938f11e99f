// The exceptions of this library: one type for each reaction of the caller.
//
//   ConnectionError        repeat the call later; a send with the ids of the error
//   ReplyError             Redis refused the call; the text contains the reason
//   AccessDenied           a ReplyError: change the password or the permissions first
//   QueueFull              a ReplyError: send later, or drop the message
//   SetupError             change something on this machine first, or raise a limit of this process
//   std::invalid_argument  correct the argument or option that the text names, with its value; nothing was sent
//   std::logic_error       a mistake in the program: the object was moved from, belongs to the parent of a fork, was
//                          started twice or after its stop, or two consumers run with StopSignals. Also the base of
//                          std::invalid_argument: catch that first
//
// The standard library throws std::bad_alloc when memory is used up.
//
// Ordinary results (an empty queue, an unknown id, a verdict that came too late) are return values, never exceptions.
// No error text contains a password.
#pragma once

#include <delayqueue/version.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {

// Base of all exceptions of this library except std::invalid_argument and std::logic_error.
class DELAYQUEUE_EXPORT Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Redis did not confirm the call: the server could not be reached, the connection broke, Redis cannot serve the call
// now, the write was not confirmed as durable in time, or this process had no file descriptor or thread left for a
// connection. Unless not_sent() is true, it is unknown whether the call was executed. A Producer throws it after it has
// repeated what may be repeated: see ProducerOptions::send_timeout.
//
// Repeat a send with SendOptions::id (of an OutgoingMessage: in its options) set to the id from ids(): while the first
// message is in the queue, this creates no second one (with a unique key it may replace again). Three calls act again
// when they are repeated: a send without that id, extend(), and purge() with a limit. A repeated lock() returns false
// if the first call got the lock. All others return the present state: a repeated cancel(), for example, may return
// unknown.
class DELAYQUEUE_EXPORT ConnectionError : public Error {
 public:
  explicit ConnectionError(const std::string& what, std::vector<std::string> ids = {}, bool not_sent = false)
      : Error(what), ids_(std::move(ids)), not_sent_(not_sent) {}

  // The ids of all messages of the send, in the order of the messages; empty for all other calls.
  const std::vector<std::string>& ids() const { return ids_; }

  // True: this send has stored nothing, because no server has received any of its messages, or every server has
  // answered that it cannot serve them now. False: some of them may be stored; also for all calls that are no send.
  bool not_sent() const { return not_sent_; }

 private:
  std::vector<std::string> ids_;
  bool not_sent_;
};

// Redis refused the call, or sent a reply that this library cannot read. The refused call changed nothing. In a call of
// several steps (a batch) this holds for the refused step; other steps may have been executed.
class DELAYQUEUE_EXPORT ReplyError : public Error {
 public:
  using Error::Error;
};

// Redis refused the login, or the user lacks a permission, or the scripts that it may not send are not loaded; the text
// says which. Do not retry soon: that may lock the account.
class DELAYQUEUE_EXPORT AccessDenied : public ReplyError {
 public:
  using ReplyError::ReplyError;
};

// The queue, or the partition that the messages were for, has as many messages as QueueLimits::length allows. Nothing
// of the step was stored; of a batch, other steps may be stored. So repeat a batch as after a ConnectionError: with the
// ids from ids().
class DELAYQUEUE_EXPORT QueueFull : public ReplyError {
 public:
  explicit QueueFull(const std::string& what, std::vector<std::string> ids = {})
      : ReplyError(what), ids_(std::move(ids)) {}

  // The ids of all messages of the send, in the order of the messages.
  const std::vector<std::string>& ids() const { return ids_; }

 private:
  std::vector<std::string> ids_;
};

// This machine is not set up for the call: it has no server program for an embedded URL, other users can enter the
// folder, another process has it, or the system refuses this process a thread, a file descriptor or random bytes that
// an object of the library needs. The text names the change that is needed; a retry fails until then. The call changed
// nothing. In a call of several steps (a batch) this holds for the step that failed; other steps may have been
// executed.
class DELAYQUEUE_EXPORT SetupError : public Error {
 public:
  using Error::Error;
};

// The text of the exception that is being handled, as the reason of a nack has it: what(), or for an exception that is
// no std::exception its type, and its value if that is a text or a number. For blocks of catch (...).
DELAYQUEUE_EXPORT std::string current_exception_text();

}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
