#include "row_error.h"

#include <delayqueue/error.h>

namespace dqctl {

std::optional<RowError> read_row(Context& context, const std::function<void()>& read) {
  try {
    read();
    return std::nullopt;
  } catch (const delayqueue::ConnectionError& error) {
    context.use_short_timeouts(true);
    return RowError{error.what(), Exit::failed, true};
  } catch (const delayqueue::ReplyError& error) {
    return RowError{advised(error.what()), Exit::failed};
  } catch (const Failure& error) {
    return RowError{error.what(), error.code()};
  } catch (const std::invalid_argument& error) {  // not a valid queue name
    return RowError{error.what(), Exit::usage};
  }
}

std::string advised(const std::string& refusal) {
  for (const char* word : {"NOAUTH", "WRONGPASS", "invalid username-password", "invalid password"}) {
    if (refusal.find(word) == std::string::npos) continue;
    return refusal + "; dqctl takes the password from DELAYQUEUE_PASSWORD or a --password-file, the user from --user";
  }
  if (refusal.find("WRONGTYPE") != std::string::npos) {
    return refusal + "; dqctl doctor QUEUE shows which";
  }
  return refusal;
}

void RowErrors::add(const std::optional<RowError>& error) {
  ++rows_;
  if (error && failed_++ == 0) first_ = error->code;
}

Exit RowErrors::code() const { return failed_ == 0 ? Exit::done : failed_ < rows_ ? Exit::partly : first_; }

}  // namespace dqctl
