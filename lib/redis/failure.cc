#include "redis/failure.h"

#include "redis/reply.h"

#include <delayqueue/error.h>

#include <stdexcept>

namespace delayqueue::redis {

using Kind = Failure::Kind;

Failure in_doubt(Failure failure) {
  const bool is_other = failure.kind == Kind::setup || failure.kind == Kind::not_durable;
  if (failure.is_reply() || is_other) failure.kind = Kind::connection;
  return failure;
}

Failure current_failure() {
  try {
    throw;
  } catch (const SlotUnavailable& e) {
    return {Kind::slot_unavailable, e.what(), e.is_moving()};
  } catch (const NotDurable& e) {
    return {Kind::not_durable, e.what()};
  } catch (const ConnectionError& e) {
    return {Kind::connection, e.what()};
  } catch (const ScriptsMissing& e) {
    return {Kind::scripts_missing, e.what()};
  } catch (const AccessDenied& e) {
    return {Kind::access_denied, e.what()};
  } catch (const QueueFull& e) {
    return {Kind::queue_full, e.what()};
  } catch (const ReplyError& e) {
    return {Kind::reply, e.what()};
  } catch (const SetupError& e) {
    return {Kind::setup, e.what()};
  } catch (const std::invalid_argument& e) {
    return {Kind::invalid_argument, e.what()};
  } catch (...) {
    return {Kind::other, current_exception_text(), false, std::current_exception()};
  }
}

std::exception_ptr exception_of(const Failure& failure) {
  switch (failure.kind) {
    case Kind::slot_unavailable:
      return std::make_exception_ptr(SlotUnavailable(failure.text, failure.slot_moves));
    case Kind::connection:
      return std::make_exception_ptr(ConnectionError(failure.text));
    case Kind::not_durable:
      return std::make_exception_ptr(NotDurable(failure.text));
    case Kind::reply:
      return std::make_exception_ptr(ReplyError(failure.text));
    case Kind::queue_full:
      return std::make_exception_ptr(QueueFull(failure.text));
    case Kind::access_denied:
      return std::make_exception_ptr(AccessDenied(failure.text));
    case Kind::scripts_missing:
      return std::make_exception_ptr(ScriptsMissing(failure.text));
    case Kind::setup:
      return std::make_exception_ptr(SetupError(failure.text));
    case Kind::invalid_argument:
      return std::make_exception_ptr(std::invalid_argument(failure.text));
    case Kind::other:
      break;
  }
  return failure.exception;
}

void raise(const Failure& failure) { std::rethrow_exception(exception_of(failure)); }

std::exception_ptr error_of_send(const Failure& failure, std::vector<std::string> ids, bool not_sent) {
  if (failure.kind == Kind::queue_full) return std::make_exception_ptr(QueueFull(failure.text, std::move(ids)));
  if (!failure.is_connection()) return exception_of(failure);
  return std::make_exception_ptr(ConnectionError(failure.text, std::move(ids), not_sent));
}

}  // namespace delayqueue::redis
