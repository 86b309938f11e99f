// Answers of a server, and the exceptions for its errors.
#pragma once

#include <delayqueue/error.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <string>
#include <string_view>

struct redisReply;

namespace delayqueue::redis {

struct FreeReply {
  void operator()(redisReply* reply) const;
};
using ReplyPtr = std::unique_ptr<redisReply, FreeReply>;

// A view of an answer, or of an element of one; valid as long as its ReplyPtr. Reading it as a type that it does not
// have throws ReplyError, so an unexpected answer of a server can cause nothing worse.
class Reply {
 public:
  explicit Reply(const redisReply* reply) : reply_(reply) {}

  bool is_nil() const;
  bool is_error() const;
  bool is_text() const;  // a string or a status
  bool is_array() const;

  std::string_view text() const;  // a string, a status or an error; any bytes
  long long integer() const;      // an integer, or a string of digits
  std::size_t size() const;       // the number of elements of an array
  Reply operator[](std::size_t i) const;

 private:
  const redisReply* reply_;
};

// An element of an array, without the array. It must exist.
ReplyPtr take_element(ReplyPtr array, std::size_t i);

// The server lacks a script, and this user has no right to load it. An operator can load it, and so does any other
// program that has the right: servers lose their scripts at each restart.
class ScriptsMissing : public AccessDenied {
 public:
  using AccessDenied::AccessDenied;
};

// This node of a Cluster does not serve a slot now: it moves to another node, has moved, or no node has it. Requests
// for other slots succeed. Redis has not run the request.
class SlotUnavailable : public ConnectionError {
 public:
  explicit SlotUnavailable(const std::string& what, bool is_moving = false)
      : ConnectionError(what), is_moving_(is_moving) {}

  // It moves now: this node tells when another one has it.
  bool is_moving() const { return is_moving_; }

 private:
  bool is_moving_;
};

// The server has carried out the call, and the write did not become as durable as required in time.
class NotDurable : public ConnectionError {
 public:
  explicit NotDurable(const std::string& what) : ConnectionError(what) {}
};

// Whether an answer to EVAL means that the user may not call EVAL, or that the server disabled or renamed it.
bool is_refused_eval(std::string_view error);

// Whether the same request may succeed later without any change of configuration.
bool is_temporary(std::string_view error);

// Whether throw_if_error() throws AccessDenied for this error.
bool is_refused_access(std::string_view error);

// How the error of a node begins that does not know which node serves the slot.
inline constexpr std::string_view kNotServed = "CLUSTERDOWN Hash slot";

// Whether throw_if_error() throws SlotUnavailable for this error.
bool is_slot_unavailable(std::string_view error);

// The error text, escaped, followed by advice for known errors.
std::string with_advice(std::string_view error);

// Converts an error of Redis to an exception: ConnectionError if it is temporary (SlotUnavailable if it is about one
// slot), else AccessDenied or ReplyError. The text has `where` and advice for known errors. Does nothing if the reply
// is no error.
void throw_if_error(Reply reply, const std::string& where);

// A copy of an error: if several threads get the same error, each needs its own exception object and text.
std::exception_ptr copy_of(const std::exception_ptr& error);

}  // namespace delayqueue::redis
