#include "redis/reply.h"

#include <delayqueue/error.h>

#include <hiredis/hiredis.h>

#include <array>
#include <charconv>

namespace delayqueue::redis {
namespace {

[[noreturn]] void unexpected(const char* wanted, const redisReply* reply) {
  const int type = reply == nullptr ? 0 : reply->type;
  throw ReplyError(std::string("the server answered something unexpected: wanted ") + wanted + ", got reply type " +
                   std::to_string(type));
}

bool starts_with(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

// What a person can do about it, where the error alone does not say.
std::string advice(std::string_view error) {
  if (starts_with(error, "NOAUTH")) return "; give a password in the URL or in connection.password";
  if (starts_with(error, "WRONGPASS")) return "; check the user and password";
  if (starts_with(error, "NOPERM")) return "; the ACL rule of this user lacks it, see the README";
  if (starts_with(error, "WRONGTYPE")) return "; something else uses a key of this queue";
  if (starts_with(error, "MOVED") || starts_with(error, "ASK ") || starts_with(error, "CROSSSLOT")) {
    return "; this is a node of a Cluster: write redis+cluster:// in the URL";
  }
  if (error.find("cluster support disabled") != std::string_view::npos) return "; write redis:// in the URL";
  if (starts_with(error, "OOM")) return "; raise maxmemory or free some";
  if (error.find("WRONGTYPE") != std::string_view::npos) return "; something else uses a key of this queue";
  return "";
}

}  // namespace

void FreeReply::operator()(redisReply* reply) const { freeReplyObject(reply); }

bool Reply::is_nil() const { return reply_ != nullptr && reply_->type == REDIS_REPLY_NIL; }
bool Reply::is_error() const { return reply_ != nullptr && reply_->type == REDIS_REPLY_ERROR; }

bool Reply::is_text() const {
  return reply_ != nullptr && (reply_->type == REDIS_REPLY_STRING || reply_->type == REDIS_REPLY_STATUS);
}

std::string_view Reply::text() const {
  if (!is_text() && !is_error()) unexpected("a string", reply_);
  return {reply_->str, static_cast<std::size_t>(reply_->len)};
}

long long Reply::integer() const {
  if (reply_ != nullptr && reply_->type == REDIS_REPLY_INTEGER) return reply_->integer;
  if (!is_text()) unexpected("an integer", reply_);
  const std::string_view digits = text();
  long long value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) unexpected("an integer", reply_);
  return value;
}

std::size_t Reply::size() const {
  if (reply_ == nullptr || reply_->type != REDIS_REPLY_ARRAY) unexpected("an array", reply_);
  return reply_->elements;
}

Reply Reply::operator[](std::size_t i) const {
  if (i >= size()) unexpected("a longer array", reply_);
  return Reply(reply_->element[i]);
}

bool is_temporary(std::string_view error) {
  static constexpr std::array kCodes = {"LOADING",     "BUSY ",     "MASTERDOWN", "TRYAGAIN",
                                        "CLUSTERDOWN", "UNBLOCKED", "READONLY",   "ERR max number of clients"};
  for (const char* code : kCodes) {
    if (starts_with(error, code)) return true;
  }
  return false;
}

void throw_if_error(Reply reply, const std::string& where) {
  if (!reply.is_error()) return;
  const std::string_view error = reply.text();
  const std::string text = "redis at " + where + " answered: " + std::string(error) + advice(error);
  if (is_temporary(error)) throw ConnectionError(text);
  throw ReplyError(text);
}

}  // namespace delayqueue::redis
