#include "redis/reply.h"

#include "redis/escaped.h"

#include <delayqueue/error.h>

#include <hiredis/hiredis.h>

#include <array>
#include <charconv>
#include <stdexcept>
#include <string>
#include <utility>

namespace delayqueue::redis {
namespace {

[[noreturn]] void unexpected(const char* wanted, const redisReply* reply) {
  const int type = reply == nullptr ? 0 : reply->type;
  throw ReplyError(std::string("the server sent an unexpected answer: expected ") + wanted + ", got reply type " +
                   std::to_string(type));
}

bool starts_with(std::string_view text, std::string_view start) { return text.substr(0, start.size()) == start; }

bool has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// The inner error. Redis wraps that of EXEC: "EXECABORT Transaction discarded because of: OOM ...". Redis 6.2 wraps one
// within a script: "ERR Error running script (call to f_...): ...: -OOM command not ...".
std::string_view cause_of(std::string_view error) {
  constexpr std::string_view kDiscarded = "EXECABORT Transaction discarded because of: ";
  if (starts_with(error, kDiscarded)) return error.substr(kDiscarded.size());
  if (!starts_with(error, "ERR Error running script")) return error;
  const std::size_t at = error.find(": -");
  return at == std::string_view::npos ? error : error.substr(at + 3);
}

// What the user can do about an error that begins with `code`.
struct Advice {
  const char* code;
  const char* text;
};

constexpr const char* kIsCluster = "the server is a node of a Cluster; write redis+cluster:// in the URL";

constexpr Advice kAdvice[] = {
    {"NOAUTH", "give a password in the URL or in ClientOptions::password"},
    {"WRONGPASS", "check the user and password"},
    {"NOPERM", "grant this right to the user, see \"The smallest ACL rule\" in docs/operations.md"},
    {"OOM", "raise maxmemory, or free memory"},
    {"MISCONF", "the reason is in the server's log; free space on its disk or repair its folder"},
    {"NOREPLICAS", "connect replicas, or lower min-replicas-to-write"},
    {"READONLY", "the server is a replica; use its master, or wait if a failover is under way"},
    {"MASTERDOWN", "the server is a replica that lost its master; use the master, or wait until it is back"},
    {"LOADING", "the server has just been started; wait until it has read its data"},
    {"BUSY ", "a script has been running for too long; wait, or end it with SCRIPT KILL"},
    {"ERR max number of clients", "raise maxclients, or close connections that are not needed"},
    {"TRYAGAIN", "the queue's slot is moving to another node; wait until it has moved"},
    {"CLUSTERDOWN", "the Cluster lacks a master; wait until a replica has taken over"},
    {"MOVED", kIsCluster},
    {"ASK ", kIsCluster},
    {"CROSSSLOT",
     "the server is a node of a Cluster: write redis+cluster:// in the URL; or it is a proxy: set keys.hash_tag to "
     "on"},
    {"ERR This instance has cluster support disabled", "write redis:// in the URL"},
};

// Redis 7 and Valkey quote the name as 'NAME', Redis 6.2 as `NAME`.
bool is_unknown(std::string_view error, const std::string& command) {
  return has(error, "unknown command '" + command + "'") || has(error, "unknown command `" + command + "`");
}

// The second and third text are those of Redis 7.0 and 7.2 for a command within a script.
bool lacks_rights(std::string_view error) {
  return starts_with(error, "NOPERM") || has(error, "The user executing the script can't") ||
         has(error, "ACL failure in script");
}

}  // namespace

void FreeReply::operator()(redisReply* reply) const { freeReplyObject(reply); }

bool Reply::is_nil() const { return reply_ != nullptr && reply_->type == REDIS_REPLY_NIL; }
bool Reply::is_error() const { return reply_ != nullptr && reply_->type == REDIS_REPLY_ERROR; }

bool Reply::is_text() const {
  return reply_ != nullptr && (reply_->type == REDIS_REPLY_STRING || reply_->type == REDIS_REPLY_STATUS);
}

bool Reply::is_array() const { return reply_ != nullptr && reply_->type == REDIS_REPLY_ARRAY; }

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
  if (!is_array()) unexpected("an array", reply_);
  return reply_->elements;
}

Reply Reply::operator[](std::size_t i) const {
  if (i >= size()) unexpected("a longer array", reply_);
  return Reply(reply_->element[i]);
}

ReplyPtr take_element(ReplyPtr array, std::size_t i) { return ReplyPtr(std::exchange(array->element[i], nullptr)); }

bool is_temporary(std::string_view answer) {
  const std::string_view error = cause_of(answer);
  static constexpr std::array kCodes = {"LOADING",     "BUSY ",     "MASTERDOWN", "TRYAGAIN",
                                        "CLUSTERDOWN", "UNBLOCKED", "READONLY",   "ERR max number of clients"};
  for (const char* code : kCodes) {
    if (starts_with(error, code)) return true;
  }
  return has(error, "cannot be used with replica instances");  // WAIT, after the server became a replica
}

bool is_refused_access(std::string_view answer) {
  const std::string_view error = cause_of(answer);
  return starts_with(error, "NOAUTH") || starts_with(error, "WRONGPASS") || lacks_rights(error);
}

bool is_refused_eval(std::string_view error) {
  const bool refused = starts_with(error, "NOPERM") || starts_with(error, "ERR unknown command");
  return refused && (has(error, "'eval'") || has(error, "'EVAL'") || has(error, "`EVAL`"));
}

bool is_slot_unavailable(std::string_view error) {
  return starts_with(error, "TRYAGAIN") || starts_with(error, kNotServed);
}

std::string with_advice(std::string_view error) {
  std::string text = escaped(error);
  const std::string_view cause = lacks_rights(error) ? "NOPERM" : cause_of(error);
  for (const Advice& one : kAdvice) {
    if (starts_with(cause, one.code)) return text + "; " + one.text;
  }
  if (is_unknown(error, "SENTINEL")) return text + "; the server is no Sentinel: check the URL's hosts and ports";
  if (is_unknown(error, "CLUSTER")) return text + "; the server is no node of a Cluster: check the URL";
  if (has(error, "WRONGTYPE")) return text + "; something else uses a key of this queue";
  return text;
}

void throw_if_error(Reply reply, const std::string& where) {
  if (!reply.is_error()) return;
  const std::string_view error = reply.text();
  const std::string text = "redis at " + where + " answered: " + with_advice(error);
  if (is_slot_unavailable(error)) throw SlotUnavailable(text, starts_with(error, "TRYAGAIN"));
  if (is_temporary(error)) throw ConnectionError(text);
  if (is_refused_access(error)) throw AccessDenied(text);
  throw ReplyError(text);
}

std::exception_ptr copy_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const SlotUnavailable& e) {
    return std::make_exception_ptr(SlotUnavailable(e.what(), e.is_moving()));
  } catch (const NotDurable& e) {
    return std::make_exception_ptr(NotDurable(e.what()));
  } catch (const ConnectionError& e) {
    return std::make_exception_ptr(ConnectionError(std::string(e.what())));
  } catch (const ScriptsMissing& e) {
    return std::make_exception_ptr(ScriptsMissing(std::string(e.what())));
  } catch (const AccessDenied& e) {
    return std::make_exception_ptr(AccessDenied(std::string(e.what())));
  } catch (const ReplyError& e) {
    return std::make_exception_ptr(ReplyError(std::string(e.what())));
  } catch (const SetupError& e) {
    return std::make_exception_ptr(SetupError(std::string(e.what())));
  } catch (const std::invalid_argument& e) {
    return std::make_exception_ptr(std::invalid_argument(std::string(e.what())));
  } catch (...) {
    return error;
  }
}

}  // namespace delayqueue::redis
