#include "producer/send_request.h"

#include "redis/reply.h"

#include <stdexcept>
#include <string>
#include <utility>

namespace delayqueue {
namespace {

// In doubt: it is unknown whether the server executed the call.
bool is_in_doubt(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const ReplyError&) {
    return false;
  } catch (...) {
    return true;
  }
}

}  // namespace

std::exception_ptr copy_of(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const redis::SlotUnavailable& e) {
    return std::make_exception_ptr(redis::SlotUnavailable(e.what(), e.is_moving()));
  } catch (const ConnectionError& e) {
    return std::make_exception_ptr(ConnectionError(std::string(e.what())));
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

void SendRequest::fail(const std::exception_ptr& with) {
  if (error == nullptr || is_in_doubt(with)) error = with;
}

void SendRequest::check() const {
  if (error == nullptr) return;
  try {
    std::rethrow_exception(error);
  } catch (const ConnectionError& e) {
    std::vector<std::string> ids;
    ids.reserve(sent.size());
    for (const Sent& one : sent) ids.push_back(one.id);
    throw ConnectionError(e.what(), std::move(ids));
  }
}

}  // namespace delayqueue
