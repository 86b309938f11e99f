// What a server answered.
#pragma once

#include <delayqueue/error.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

struct redisReply;

namespace delayqueue::redis {

struct FreeReply {
  void operator()(redisReply* reply) const;
};
using ReplyPtr = std::unique_ptr<redisReply, FreeReply>;

// A view of an answer, or of a part of one; valid as long as its ReplyPtr. Reading it as something it is not throws
// ReplyError: whatever a server sends, nothing else can happen.
class Reply {
 public:
  explicit Reply(const redisReply* reply) : reply_(reply) {}

  bool is_nil() const;
  bool is_error() const;
  bool is_text() const;  // a string or a status

  std::string_view text() const;  // of a string, a status or an error; any bytes
  long long integer() const;      // of an integer, or of a string that is one
  std::size_t size() const;       // of an array
  Reply operator[](std::size_t i) const;

 private:
  const redisReply* reply_;
};

// Redis does not let this user in, or not do this. To ask again soon is no use, and may lock the account.
class AccessError : public ReplyError {
 public:
  using ReplyError::ReplyError;
};

// The server lacks a script, and this user may not send it one. Cured by a person, but also by the next start of another
// program: servers forget scripts whenever they restart.
class ScriptsMissing : public AccessError {
 public:
  using AccessError::AccessError;
};

// Whether the answer to EVAL says that this user may not call it, or that the server has it under no or another name.
bool is_refused_eval(std::string_view error);

// Whether an error says "not now": the same call may succeed later without anybody changing anything.
bool is_temporary(std::string_view error);

// Whether it is one for an AccessError.
bool is_refused_access(std::string_view error);

// The error, escaped, and what a person can do about it where that is known.
std::string with_advice(std::string_view error);

// The door from Redis' errors to C++'s: throws ConnectionError for temporary ones, else ReplyError or AccessError, with
// `where` and what to do where that is known. Does nothing if the reply is no error.
void throw_if_error(Reply reply, const std::string& where);

}  // namespace delayqueue::redis
