// Errors as values: what a call threw, and what is thrown again where a user called.
#include "support/test.h"

#include <typeinfo>

#include "redis/failure.h"
#include "redis/reply.h"

namespace delayqueue::redis {
namespace {

template <class E>
Failure failure_of(const E& thrown) {
  const auto failure = attempt([&] { throw thrown; });
  REQUIRE(failure);
  return *failure;
}

// Whether it is raised as exactly this type, with the same text.
template <class E>
bool comes_back(const E& thrown) {
  try {
    raise(failure_of(thrown));
  } catch (const std::exception& e) {
    return typeid(e) == typeid(E) && std::string(e.what()) == thrown.what();
  }
}

TEST_CASE("failures: each exception comes back with its type and its text") {
  CHECK(comes_back(ConnectionError("a")));
  CHECK(comes_back(SlotUnavailable("b", true)));
  CHECK(comes_back(ReplyError("c")));
  CHECK(comes_back(AccessDenied("d")));
  CHECK(comes_back(ScriptsMissing("e")));
  CHECK(comes_back(SetupError("f")));
  CHECK(comes_back(std::invalid_argument("g")));
  CHECK(comes_back(std::bad_alloc()));
  CHECK(comes_back(std::logic_error("h")));
  CHECK_FALSE(attempt([] {}));
}

TEST_CASE("failures: an exception that is no std::exception comes back, and the text describes it") {
  const Failure failure = failure_of(7);
  CHECK(failure.text == "7 (an int, no std::exception)");
  CHECK_THROWS_AS(raise(failure), int);
}

TEST_CASE("failures: whether the call may have been executed, was refused, or lacked a right") {
  CHECK(failure_of(ConnectionError("")).is_connection());
  CHECK(failure_of(SlotUnavailable("")).is_connection());
  CHECK_FALSE(failure_of(ReplyError("")).is_connection());
  CHECK(failure_of(ReplyError("")).is_reply());
  CHECK(failure_of(ScriptsMissing("")).is_reply());
  CHECK(failure_of(ScriptsMissing("")).is_access_denied());
  CHECK(failure_of(AccessDenied("")).is_access_denied());
  CHECK_FALSE(failure_of(ReplyError("")).is_access_denied());
  CHECK_FALSE(failure_of(SetupError("")).is_reply());
  CHECK(failure_of(SlotUnavailable("", true)).slot_moves);
  CHECK_FALSE(failure_of(SlotUnavailable("")).slot_moves);
}

TEST_CASE("failures: each one raised is an object apart") {
  const Failure failure = failure_of(ConnectionError("a"));
  const bool is_shared = exception_of(failure) == exception_of(failure);
  CHECK_FALSE(is_shared);
}

TEST_CASE("failures: of a send, a connection error has the ids of its messages, and whether it was not sent") {
  for (const Failure& failure : {failure_of(ConnectionError("a")), failure_of(SlotUnavailable("a"))}) {
    for (const bool not_sent : {false, true}) {
      try {
        std::rethrow_exception(error_of_send(failure, {"x", "y"}, not_sent));
      } catch (const ConnectionError& e) {
        CHECK(e.ids() == std::vector<std::string>{"x", "y"});
        CHECK(e.not_sent() == not_sent);
        CHECK(e.what() == std::string("a"));
      }
    }
  }
  CHECK_THROWS_AS(std::rethrow_exception(error_of_send(failure_of(AccessDenied("a")), {"x"}, false)), AccessDenied);
}

}  // namespace
}  // namespace delayqueue::redis
