// The number of partitions of a queue, as operators read and set it.
#include "support/test.h"

#include "store/keys.h"

namespace delayqueue {
namespace {

using test::redis;

std::string text_of(const Layout& layout) {
  return std::to_string(layout.partitions) + " of " + std::to_string(layout.top);
}

std::string settings(const Queue& queue, unsigned partition) {
  return store::make_keys(queue.name, {}, partition).settings;
}

void put_message(const Queue& queue, unsigned partition) {
  redis().cmd({"LPUSH", store::make_keys(queue.name, {}, partition).ready, "00000000-0000-7000-8000-000000000000"});
}

TEST_CASE("partitions: a queue has one; another number is set, and read by other programs; top stays") {
  Queue queue;
  queue.send("x");
  CHECK(text_of(queue.inspector.layout()) == "1 of 1");
  CHECK(text_of(queue.admin.set_partitions(8)) == "8 of 8");
  CHECK(text_of(queue.inspector.layout()) == "8 of 8");
  CHECK(text_of(queue.admin.set_partitions(2)) == "2 of 8");
  CHECK(text_of(Inspector(queue.url, queue.name).layout()) == "2 of 8");
  CHECK(queue.inspector.counts().ready == 1);
}

TEST_CASE("partitions: reading the layout changes nothing") {
  Queue queue;
  queue.admin.set_partitions(8);
  redis().cmd({"DEL", settings(queue, 0)});
  CHECK(text_of(queue.inspector.layout()) == "8 of 8");
  CHECK(redis().cmd({"EXISTS", settings(queue, 0)}) == 0);
}

TEST_CASE("partitions: another number than a power of two up to 256 is refused with its value") {
  Queue queue;
  for (const unsigned wrong : {0U, 3U, 512U}) {
    CHECK(thrown([&] { queue.admin.set_partitions(wrong); }) ==
          "invalid_argument: partitions: " + std::to_string(wrong) + "; expected a power of two from 1 to 256");
  }
  ClientOptions options;
  options.keys.go.bodies_under_dp = true;
  QueueAdmin admin({queue.url, options}, queue.name);
  CHECK(has(thrown([&] { admin.set_partitions(2); }), "keys.go.bodies_under_dp"));
  CHECK(text_of(queue.inspector.layout()) == "1 of 1");
}

TEST_CASE("partitions: the keys of another program in a new partition are refused with their name") {
  Queue queue;
  put_message(queue, 5);
  const std::string error = thrown([&] { queue.admin.set_partitions(8); });
  CHECK(has(error, "invalid_argument: partitions: 8, but " + store::make_keys(queue.name, {}, 5).base));
  CHECK(text_of(queue.inspector.layout()) == "1 of 1");
  CHECK(text_of(queue.admin.set_partitions(4)) == "4 of 4");
  redis().cmd({"HSET", settings(queue, 5), "top", "6"});  // as the error says
  CHECK(text_of(queue.admin.set_partitions(4)) == "4 of 6");
  CHECK(text_of(queue.admin.set_partitions(8)) == "8 of 8");
}

TEST_CASE("partitions: those that both copies of the layout have lost are found when a number is set") {
  Queue queue;
  put_message(queue, 20);
  redis().cmd({"HSET", settings(queue, 20), "generation", "1000", "partitions", "32", "top", "64"});
  CHECK(text_of(queue.inspector.layout()) == "1 of 1");
  CHECK(text_of(queue.admin.set_partitions(4)) == "4 of 64");
}

}  // namespace
}  // namespace delayqueue
