// The number of the stored format is checked at each connection.
#include "support/test.h"

namespace delayqueue {
namespace {

using test::redis;

void set_format(const Queue& queue, const std::string& format) {
  redis().cmd({"HSET", queue.base + ":settings", "format", format});
}

TEST_CASE("format: a queue without a format, or with format 1, is used; nothing writes the field") {
  Queue queue;
  queue.send("x");
  CHECK(redis().cmd({"EXISTS", queue.base + ":settings"}) == 0);
  set_format(queue, "1");
  Producer(queue.url, queue.name).send("y");
  CHECK(Inspector(queue.url, queue.name).counts().ready == 2);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  CHECK(ledger.settles(2));
}

TEST_CASE("format: a queue with another format is refused with its number, and is not changed") {
  for (const char* format : {"2", "", "1.0", "a\x1b[2J"}) {
    CAPTURE(std::string(format));
    Queue queue;
    set_format(queue, format);
    const auto before = queue.kept();
    Ledger ledger;
    const auto consumer = queue.consumer(ledger.watch());
    for (const std::string& error :
         {thrown([&] { queue.send("x"); }), thrown([&] { static_cast<void>(queue.inspector.counts()); }),
          thrown([&] { consumer->start(); })}) {
      CAPTURE(error);
      CHECK(error.rfind("ReplyError: ", 0) == 0);
      CHECK(has(error, queue.base + ":settings"));
      CHECK(has(error, "reads format 1"));
      CHECK(error.find('\x1b') == std::string::npos);
    }
    CHECK(queue.kept() == before);
    redis().cmd({"DEL", queue.base + ":settings"});
    CHECK(queue.send("x") != "");
  }
}

TEST_CASE("format: each new connection checks it again") {
  Queue queue;
  queue.send("x");
  set_format(queue, "2");
  queue.send("y");  // over the connection that it has
  REQUIRE(test::cut_connections("delayqueue") >= 1);
  CHECK(has(thrown([&] { queue.send("z"); }), "format \"2\""));
  redis().cmd({"DEL", queue.base + ":settings"});
  CHECK(queue.send("z") != "");
}

}  // namespace
}  // namespace delayqueue
