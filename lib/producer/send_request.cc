#include "producer/send_request.h"

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
