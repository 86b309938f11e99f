// With the documented ACL rules a user of a queue runs the library's scripts and no others, so that no user stops the
// server.
#include "support/test.h"

#include "store/scripts.h"
#include "support/acl.h"

namespace {

using test::Guarded;
using test::Words;

constexpr auto kAtOnce = 2s;  // less than the duration of an endless loop

Redis client(const Guarded& guarded, const std::string& role) {
  return {guarded.server.socket(), {kAtOnce, {"orders-" + role, "secret"}}};
}

TEST_CASE("EVAL: no user with the documented rules can run or load a script that is not the library's") {
  Guarded guarded;
  const std::string endless = "while true do end";
  for (const std::string role : {"producer", "consumer", "inspector", "dqctl", "all", "loader"}) {
    CAPTURE(role);
    Redis hostile = client(guarded, role);
    for (const Words& attack : {Words{"EVAL", endless, "0"}, Words{"EVAL_RO", endless, "0"},
                                Words{"FUNCTION", "LOAD", "#!lua name=x\nredis.register_function('x', function() end)"},
                                Words{"FCALL", "x", "0"}, Words{"SCRIPT", "FLUSH"}, Words{"DEBUG", "SLEEP", "5"},
                                Words{"CONFIG", "SET", "save", ""}, Words{"SHUTDOWN", "NOSAVE"}}) {
      CAPTURE(attack[0]);
      const test::Reply reply = hostile.cmd(attack);
      const bool refused = reply.error() && (reply.text.rfind("NOPERM", 0) == 0 || reply.text.rfind("ERR", 0) == 0);
      CHECK_MESSAGE(refused, reply.text);
    }
    if (role != "loader") CHECK(hostile.cmd({"SCRIPT", "LOAD", endless}).text.rfind("NOPERM", 0) == 0);
    CHECK(client(guarded, "producer").cmd({"EXISTS", "dp:orders:ready"}) == 0);  // the server still answers
  }
}

TEST_CASE("EVAL: the user that may load scripts can run none") {
  Guarded guarded;
  Redis loader = client(guarded, "loader");
  const std::string name = loader.cmd({"SCRIPT", "LOAD", "return 1"}).text;
  CHECK(loader.cmd({"EVALSHA", name, "0"}).text.rfind("NOPERM", 0) == 0);
}

// Passes as many keys as the script reads, all of the queue, and a number for every argument.
TEST_CASE("EVAL: no arguments make a script of the library run for long") {
  Guarded guarded;
  Redis hostile = client(guarded, "all");
  for (const std::string number : {"inf", "-inf", "nan", "1e308", "-1e308", "9007199254740993", "0", "-1", ""}) {
    // Lease ends that the sum of seconds and a fraction cannot exceed.
    for (const char* end : {"inf", "-inf", "1e302", "9007199254.740993", "0"}) {
      guarded.admin.cmd({"ZADD", "dp:orders:unack", end, std::string("held-") + end});
    }
    for (const delayqueue::redis::Script* script : delayqueue::store::scripts::all()) {
      for (const std::size_t arguments : {4U, 6U, 9U}) {
        Words words = {"EVALSHA", std::string(script->sha1), "12"};
        for (const char* key : {"ready", "retry", "unack", "pending", "dead", "retry:cnt", "attempts", "garbage",
                                "paused", "stats", "watch", "msg:01932e4f-8c1a-7bd0-9f60-0c7b2a1d9e55"}) {
          words.push_back(std::string("dp:orders:") + key);
        }
        for (std::size_t i = 0; i < arguments; ++i) words.push_back(number);
        guarded.admin.cmd({"RPUSH", "dp:orders:ready", "01932e4f-8c1a-7bd0-9f60-0c7b2a1d9e55"});
        CAPTURE(script->name);
        CAPTURE(number);
        CAPTURE(arguments);
        try {
          hostile.cmd(words);  // an error is a valid answer
        } catch (const std::exception& e) {
          FAIL(std::string(e.what()));
        }
      }
    }
  }
}

}  // namespace
