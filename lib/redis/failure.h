// Failure: the error of a call as a value. Inside the library results are values; exceptions are thrown where a user
// called it.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace delayqueue::redis {

// One kind for each exception that callers of the library tell apart, and for those of reply.h.
struct Failure {
  enum class Kind {
    connection,        // ConnectionError
    slot_unavailable,  // SlotUnavailable, which is a ConnectionError
    not_durable,       // NotDurable, which is a ConnectionError
    reply,             // ReplyError
    queue_full,        // QueueFull, which is a ReplyError
    access_denied,     // AccessDenied, which is a ReplyError
    scripts_missing,   // ScriptsMissing, which is an AccessDenied
    setup,             // SetupError
    invalid_argument,  // std::invalid_argument
    other,             // any other exception, such as std::bad_alloc
  };

  Kind kind = Kind::other;
  std::string text{};
  bool slot_moves = false;         // see SlotUnavailable::is_moving()
  std::exception_ptr exception{};  // of Kind::other

  bool is_connection() const {
    return kind == Kind::connection || kind == Kind::slot_unavailable || kind == Kind::not_durable;
  }
  bool is_access_denied() const { return kind == Kind::access_denied || kind == Kind::scripts_missing; }
  bool is_reply() const {
    return kind == Kind::reply || kind == Kind::queue_full || is_access_denied();
  }  // Redis refused the call
};

// The same failure as one that leaves the result in doubt.
Failure in_doubt(Failure failure);

// The exception that is being handled.
Failure current_failure();

// A new exception object, so that each of several threads with the same failure gets one.
std::exception_ptr exception_of(const Failure& failure);
[[noreturn]] void raise(const Failure& failure);

// The same for a send. A ConnectionError and a QueueFull have the ids of its messages; not_sent: see ConnectionError.
std::exception_ptr error_of_send(const Failure& failure, std::vector<std::string> ids, bool not_sent);

// Calls the function. Returns the exception that it threw, if it did.
template <class Call>
std::optional<Failure> attempt(Call&& call) {
  try {
    std::forward<Call>(call)();
    return std::nullopt;
  } catch (...) {
    return current_failure();
  }
}

}  // namespace delayqueue::redis
