// A million messages: no call takes longer on Redis than with few messages.
#include "support/test.h"

#include "support/command_times.h"

namespace delayqueue {
namespace {

constexpr std::size_t kMillion = 1'000'000;

// Makes ten thousand pending messages due, beginning at the rank `from`.
void make_due(Redis& client, const std::string& pending, std::size_t from) {
  static const std::string script = R"lua(
    local flat = redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[1] + 9999, 'WITHSCORES')
    for i = 1, #flat, 2 do redis.call('ZADD', KEYS[1], flat[i + 1] - 1e9, flat[i]) end
    return 'OK')lua";
  const auto reply = client.cmd({"EVAL", script, "1", pending, std::to_string(from)});
  REQUIRE(reply == "OK");
}

// Repeats the work until the script calls of one round were bounded. Returns false if none was.
bool bounded(Redis& client, const std::string& what, int rounds, const std::function<void()>& work) {
  for (int round = 0; round < rounds; ++round) {
    client.cmd({"CONFIG", "RESETSTAT"});
    work();
    const test::CommandTimes times = test::command_times(client);
    MESSAGE(what, ": ", times);
    if (times.bounded()) return true;
  }
  return false;
}

TEST_CASE("with a million pending and due messages, counts, cancel and a consumer's moves stay bounded") {
  PrivateServerOptions options;
  options.arguments = {"--appendonly", "no", "--save", ""};
  PrivateServer own(options);
  test::Queue queue(own.url());
  Redis client(own.socket());
  std::vector<std::string> some;  // every hundredth id
  const auto later = delayed(1h);
  for (std::size_t sent = 0; sent < kMillion; sent += 50'000) {
    const auto batch = queue.producer.send_batch(std::vector<std::string>(50'000, "x"), later);
    for (std::size_t i = 0; i < batch.size(); i += 100) some.push_back(batch[i].id);
  }
  CHECK(queue.inspector.counts().pending == kMillion);
  for (std::size_t from = 0; from < kMillion; from += 10'000) make_due(client, queue.base + ":pending", from);
  CHECK(queue.inspector.counts().due == kMillion);

  std::size_t next = 0, cancelled = 0, wrong = 0;
  CHECK(bounded(client, "counts, cancel, reschedule, list, find", 8, [&] {
    for (int i = 0; i < 500; ++i, ++next) {
      const Counts counts = queue.inspector.counts();
      if (counts.pending != kMillion - cancelled || counts.due + next < kMillion) ++wrong;
      if (queue.inspector.find(some[next])->state != State::pending) ++wrong;
      if (i % 2 == 0 && queue.producer.cancel(some[next]) != State::pending) ++wrong;
      if (i % 2 == 0) ++cancelled;
      const auto when = with(&RescheduleOptions::delay, 2h);
      if (i % 2 == 1 && queue.producer.reschedule(some[next], when) != Outcome::done) ++wrong;
      if (i % 50 == 0 && queue.inspector.list(State::pending).size() != 20) ++wrong;
    }
  }));
  CHECK(wrong == 0);

  std::size_t purged = 0;
  CHECK(bounded(client, "purge", 8, [&] {
    purged += queue.admin.purge(State::pending, with(&PurgeOptions::limit, 20'000));
    if (purged % 20'000 != 0) ++wrong;
  }));
  CHECK(wrong == 0);

  std::atomic<std::size_t> handled{0};
  const auto consumer = queue.consumer(
      [&](const Message&) {
        ++handled;
        return ack();
      },
      test::quick(2));
  consumer->start();
  CHECK(bounded(client, "a consumer", 30, [&] {
    const std::size_t goal = handled + 20'000;
    CHECK(test::eventually([&] { return handled >= goal; }, test::kPatience));
  }));
  CHECK(consumer->stop(test::kPatience));
  const Counts counts = queue.inspector.counts();
  CHECK(counts.pending + counts.ready + handled == kMillion - cancelled - purged);
}

}  // namespace
}  // namespace delayqueue
