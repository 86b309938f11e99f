// The limit of the length of a queue, which senders keep.
#include "support/test.h"

namespace delayqueue {
namespace {

QueueLimits length_limit(std::uint64_t length) {
  QueueLimits limits;
  limits.length = length;
  return limits;
}

void set(Queue& queue, QueueLimits limits) {
  limits.generation = queue.inspector.limits().generation;
  REQUIRE(queue.admin.set_limits(limits));
}

std::size_t messages(Queue& queue) {
  const Counts counts = queue.inspector.counts();
  return counts.pending + counts.ready + counts.unack + counts.retry;
}

// A Producer that has not read the limits before they were set.
Producer new_producer(const Queue& queue) { return {Client(test::server().url()), queue.name}; }

std::string full_error(const std::function<void()>& send) {
  try {
    send();
  } catch (const QueueFull& e) {
    return e.what();
  }
  return "";
}

TEST_CASE("length R4: a send beyond the limit stores nothing and throws QueueFull") {
  Queue queue;
  set(queue, length_limit(3));
  Producer producer = new_producer(queue);
  const std::string first = producer.send("x").id;
  producer.send("x", delayed(1h));
  producer.send(std::string(300'000, 'x'));
  const std::string error = full_error([&] { producer.send("x"); });
  CHECK(has(error, queue.name));
  CHECK(has(error, "the limit of its length, 3 messages"));
  CHECK(!full_error([&] { producer.send("x", delayed(1h)); }).empty());
  CHECK(!full_error([&] { producer.send(std::string(300'000, 'x')); }).empty());
  CHECK(!full_error([&] { producer.send_async("x").get(); }).empty());
  CHECK(messages(queue) == 3);
  CHECK(test::redis().cmd({"KEYS", queue.base + ":staged:*"}).array.empty());
  CHECK(test::redis().cmd({"KEYS", queue.base + ":msg:*"}).array.size() == 3);
  CHECK(producer.cancel(first) == State::ready);
  CHECK(producer.send("x").created());
  CHECK(queue.admin.bury(queue.inspector.list(State::pending).messages.front().id).front() == Outcome::done);
  CHECK(producer.send("x").created());  // dead letters do not count
  CHECK(!full_error([&] { producer.send("x"); }).empty());
}

TEST_CASE("length R4: a batch that does not fit is stored up to whole steps") {
  Queue queue;
  set(queue, length_limit(500));
  Producer producer = new_producer(queue);
  std::vector<std::string> ids;
  try {
    producer.send_batch(numbers(1050));  // its last step would fit
  } catch (const QueueFull& e) {
    ids = e.ids();
  }
  REQUIRE(ids.size() == 1050);
  CHECK(messages(queue) == 400);
  for (std::size_t i = 0; i < 400; ++i) CHECK(queue.state(ids[i]) == State::ready);
  SendOptions again;
  again.id = ids.front();
  CHECK(producer.send("0", again).result == SendResult::existed);
  producer.send_batch(numbers(100));
  CHECK(!full_error([&] { producer.send("x"); }).empty());
  CHECK(messages(queue) == 500);
}

TEST_CASE("length R4: a message that exists needs no room") {
  Queue queue;
  set(queue, length_limit(2));
  Producer producer = new_producer(queue);
  SendOptions own, keyed;
  own.id = kId;
  keyed.unique.key = "k";
  CHECK(producer.send("x", own).created());
  CHECK(producer.send("x", keyed).created());
  CHECK(producer.send("x", own).result == SendResult::existed);
  CHECK(producer.send("x", keyed).result == SendResult::kept);
  keyed.unique.on_conflict = OnConflict::replace;
  CHECK(producer.send("y", keyed).result == SendResult::replaced);
  keyed.unique.key = "other";
  CHECK(!full_error([&] { producer.send("y", keyed); }).empty());
  CHECK(messages(queue) == 2);
}

TEST_CASE("length R4: threads and Producers together never exceed the limit, and fill the queue") {
  Queue queue;
  set(queue, length_limit(1000));
  std::vector<std::thread> threads;
  std::atomic<int> created{0}, refused{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      Producer producer = new_producer(queue);
      for (int i = 0; i < 200; ++i) {
        const std::size_t count = t % 2 == 0 ? 1 : 3;
        if (full_error([&] { producer.send_batch(numbers(count)); }).empty()) {
          created += static_cast<int>(count);
        } else {
          ++refused;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(refused > 0);
  CHECK(created == 1000);
  CHECK(messages(queue) == 1000);
}

TEST_CASE("length R4: a sender that is connected obeys a new limit beside a later send, and its removal") {
  Queue queue;
  Producer producer = new_producer(queue);
  producer.send("x");
  set(queue, length_limit(1));
  CHECK(eventually([&] { return !full_error([&] { producer.send("x"); }).empty(); }, kPatience));
  set(queue, {});
  CHECK(eventually([&] { return full_error([&] { producer.send("x"); }).empty(); }, kPatience));
}

TEST_CASE("length R4: a sender that has paused refuses nothing by a limit that was removed or raised") {
  Queue queue;
  set(queue, length_limit(1));
  Producer producer = new_producer(queue);
  producer.send("x");
  CHECK(!full_error([&] { producer.send("x"); }).empty());
  for (const auto& next : {length_limit(5), QueueLimits()}) {
    set(queue, next);
    std::this_thread::sleep_for(2100ms);  // it reads the limit at most every 2 s
    CHECK(full_error([&] { producer.send("x"); }).empty());
  }
}

TEST_CASE("length R29: each partition has its share") {
  Queue queue;
  queue.admin.set_partitions(4);
  set(queue, length_limit(10));
  QueueLimits few = length_limit(3);
  few.generation = queue.inspector.limits().generation;
  CHECK(thrown([&] { static_cast<void>(queue.admin.set_limits(few)); }) ==
        "invalid_argument: length: 3, but the queue has had 4 partitions, which divide the limit among them; "
        "expected at least 4");
  Producer producer = new_producer(queue);
  std::size_t created = 0;
  for (int i = 0; i < 100; ++i) created += full_error([&] { producer.send("x"); }).empty() ? 1 : 0;
  CHECK(created <= 10);
  CHECK(created >= 2);
  CHECK(messages(queue) == created);
}

}  // namespace
}  // namespace delayqueue
