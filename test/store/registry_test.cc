#include "support/test.h"

#include "store/record.h"
#include "store/registry.h"
#include "support/command_times.h"
#include "support/model_moves.h"

namespace delayqueue::store {
namespace {

using test::redis;
using Strings = std::vector<std::string>;

const std::string kMe = "0197f3a4-5b6c-7d8e-9f01-000000000001";
const std::string kOther = "0197f3a4-5b6c-7d8e-9f01-000000000002";
// Long enough for a hash that Redis does not keep as a list.
constexpr char kLines[] = "host=web-1\npid=7\nversion=0.1.0\nqueues=1\nqueue=orders\nbusy=0\nconcurrency=1\n";

// The registry of a queue on a real server.
class RegistryOnServer {
 private:
  template <class Ask>
  auto run(Ask ask) {
    Pipeline pipeline(connection_);
    const auto answer = ask(pipeline);
    pipeline.run();
    return answer.get();
  }

 public:
  bool write(const std::string& consumer, milliseconds valid = 60s) {
    return run([&](Pipeline& pipeline) { return register_consumer(pipeline, keys_, consumer, kLines, valid); });
  }
  bool remove(const std::string& consumer) {
    return run([&](Pipeline& pipeline) { return unregister_consumer(pipeline, keys_, consumer); });
  }
  Strings names() {
    return run([&](Pipeline& pipeline) { return consumer_names(pipeline, keys_); });
  }
  std::size_t length(const std::string& consumer) {
    return run([&](Pipeline& pipeline) { return entry_length(pipeline, keys_, consumer); });
  }
  std::vector<std::optional<std::string>> values(const Strings& consumers) {
    return run([&](Pipeline& pipeline) { return entries(pipeline, keys_, consumers); });
  }

  // Writes an entry as if the consumer had written it for an end `ends_in` from now.
  void put(const std::string& consumer, milliseconds ends_in) {
    const long long now = test::redis_time_us();
    put_value(consumer, std::to_string(now + ends_in.count() * 1000) + ' ' + std::to_string(now) + '\n' + kLines);
  }
  void put_value(const std::string& consumer, const std::string& value) {
    redis().cmd({"HSET", key(), consumer, value});
  }

  bool has_entry(const std::string& consumer) { return redis().cmd({"HEXISTS", key(), consumer}) == 1; }
  long long size() { return redis().cmd({"HLEN", key()}).integer; }
  const std::string& key() const { return keys_.consumers; }

 private:
  const Keys keys_ = make_keys(test::fresh_queue(), {});
  redis::Connection connection_ = test::model::connect();
};

ConsumerEntry full_entry() {
  ConsumerEntry entry;
  entry.name = "orders %25\nservice";
  entry.host = "web-1";
  entry.pid = 4711;
  entry.version = "1.2.3";
  entry.queues = {"orders", "my queue:eu\x01=", "\xe6\x97\xa5"};
  entry.queue_count = 30;
  entry.busy = 3;
  entry.concurrency = 8;
  entry.in_flight = 12;
  entry.running = {{kMe, 90s}, {kOther, 0ms}, {kMe, 12s, 60'000'000}};
  return entry;
}

std::optional<ConsumerEntry> read_lines(const std::string& lines) { return entry_of("2000 1000\n" + lines); }

TEST_CASE("registry: an entry is read as it was written, with any bytes in its names") {
  const ConsumerEntry entry = full_entry();
  const std::string lines = lines_of(entry);
  CHECK(lines.find('\x01') == std::string::npos);
  const auto found = read_lines(lines);
  REQUIRE(found);
  CHECK(found->ends_us == 2000);
  CHECK(found->seen_us == 1000);
  CHECK(found->name == entry.name);
  CHECK(found->host == entry.host);
  CHECK(found->pid == entry.pid);
  CHECK(found->version == entry.version);
  CHECK(found->queues == entry.queues);
  CHECK(found->queue_count == entry.queue_count);
  CHECK(found->busy == entry.busy);
  CHECK(found->concurrency == entry.concurrency);
  CHECK(found->in_flight == entry.in_flight);
  REQUIRE(found->running.size() == 3);
  CHECK(found->running[0].id == kMe);
  CHECK(found->running[0].running == 90s);
  CHECK(found->running[1].id == kOther);
  CHECK_FALSE(found->running[1].fetching);
  CHECK(found->running[2].running == 12s);
  CHECK(found->running[2].fetching == 60'000'000);
}

TEST_CASE("registry: an entry is bounded: long names and lists are cut, at whole characters") {
  ConsumerEntry entry = full_entry();
  std::string wide;
  for (int i = 0; i < 100; ++i) wide += "\xe6\x97\xa5";
  entry.name = wide;
  entry.host = std::string(1000, 'h');
  entry.queues.assign(1000, std::string(1000, '\n'));
  entry.running.assign(1000, {kMe, 1s});
  const std::string lines = lines_of(entry);
  CHECK(lines.size() < 8'000);
  const auto found = read_lines(lines);
  REQUIRE(found);
  CHECK(found->name == wide.substr(0, 99));
  CHECK(found->host == std::string(100, 'h'));
  CHECK(found->queues == Strings(20, std::string(100, '\n')));
  CHECK(found->running.size() == 5);
}

TEST_CASE("registry: an entry that no consumer can have written is refused as a whole") {
  CHECK(read_lines(kLines));
  CHECK(read_lines(std::string(kLines) + "of a later version=any\n"));
  for (const char* line : {"no equals sign",
                           "name=%",
                           "name=%2",
                           "name=%zz",
                           "name=a\x1b",
                           "name=a\r",
                           "busy=",
                           "busy=-1",
                           "busy=x",
                           "busy=1e3",
                           "concurrency=99999999999999999999",
                           "in_flight= 1",
                           "fetching=0197f3a4-5b6c-7d8e-9f01-000000000001 1",
                           "fetching=0197f3a4-5b6c-7d8e-9f01-000000000001 1 -1",
                           "running=",
                           "running=x 1",
                           "running=0197f3a4-5b6c-7d8e-9f01-000000000001",
                           "running=0197f3a4-5b6c-7d8e-9f01-000000000001 ",
                           "running=0197f3a4-5b6c-7d8e-9f01-000000000001 -1",
                           "running=0197F3A4-5B6C-7D8E-9F01-000000000001 1",
                           "pid=0",
                           "host="}) {
    CAPTURE(std::string(line));
    CHECK_FALSE(read_lines(std::string(kLines) + line + "\n"));
  }
  CHECK_FALSE(read_lines("pid=7\n"));
  CHECK_FALSE(read_lines("host=web\n"));
  CHECK_FALSE(read_lines(kLines + std::string("name=") + std::string(101, 'x') + "\n"));
  std::string queues = kLines, running = kLines;
  for (int i = 0; i < 21; ++i) queues += "queue=q\n";
  for (int i = 0; i < 6; ++i) running += "running=" + kMe + " 1\n";
  CHECK_FALSE(read_lines(queues));
  CHECK_FALSE(read_lines(running));
  CHECK_FALSE(read_lines(kLines + std::string("later=") + std::string(20'000, 'x')));
  for (const char* times : {"", " ", "1", "1 ", " 1", "x 1", "1 x", "-1 1", "1 -1", "1 1 ", "9999999999999999 1",
                            "99999999999999999999999 1"}) {
    CAPTURE(std::string(times));
    CHECK_FALSE(entry_of(times + std::string("\n") + kLines));
  }
}

TEST_CASE("registry: register_consumer writes the entry with its end and its time, by the clock of Redis") {
  RegistryOnServer registry;
  const long long before = test::redis_time_us();
  CHECK(registry.write(kMe, 90s));
  CHECK((registry.names() == Strings{kMe}));
  const auto values = registry.values({kMe, kOther});
  REQUIRE(values.size() == 2);
  CHECK_FALSE(values[1]);
  REQUIRE(values[0]);
  CHECK(registry.length(kMe) == values[0]->size());
  CHECK(registry.length(kOther) == 0);
  const auto entry = entry_of(*values[0]);
  REQUIRE(entry);
  CHECK(entry->host == "web-1");
  CHECK(entry->seen_us >= before);
  CHECK(entry->seen_us <= test::redis_time_us());
  CHECK(entry->ends_us - entry->seen_us == 90'000'000);
}

TEST_CASE("registry: register_consumer removes entries of others that have ended, and no others") {
  RegistryOnServer registry;
  registry.put(kOther, -1ms);
  registry.put("long ended", -24h);
  registry.put("lives", 1s);
  registry.put("lives long", 24h);
  registry.put("clock was set back", 25h);
  registry.put_value("garbage", "no time");
  registry.put_value("empty", "");
  registry.put_value("digits", std::string(400, '9') + " 1");
  CHECK(registry.write(kMe));
  CHECK(registry.size() == 3);
  CHECK(registry.has_entry(kMe));
  CHECK(registry.has_entry("lives"));
  CHECK(registry.has_entry("lives long"));
}

TEST_CASE("registry: a consumer whose own entry has ended, as when its process was stopped, writes it again") {
  RegistryOnServer registry;
  registry.put(kMe, -1s);
  CHECK(registry.write(kMe));
  CHECK(registry.has_entry(kMe));
}

TEST_CASE("registry: the calls of one consumer remove all entries that have ended, some in each call") {
  RegistryOnServer registry;
  for (int i = 0; i < 500; ++i) registry.put("ended " + std::to_string(i), -1s);
  int calls = 0;
  while (registry.size() > 1 && calls < 500) {
    const long long before = registry.size();
    CHECK(registry.write(kMe));
    ++calls;
    CHECK(before - registry.size() <= 10);
  }
  CHECK(registry.size() == 1);
}

TEST_CASE("registry: values that are longer than those of any consumer are removed unread; the others stay") {
  RegistryOnServer registry;
  const std::string valid = std::to_string(test::redis_time_us() + 3'600'000'000) + " 1\n";
  for (int i = 0; i < 40; ++i) registry.put_value("huge " + std::to_string(i), valid + std::string(1'000'000, 'x'));
  registry.put_value("a byte too long", valid + std::string(16'385 - valid.size(), 'x'));
  registry.put_value("as long as may be", valid + std::string(16'384 - valid.size(), 'x'));
  registry.put("lives", 1h);
  redis().cmd({"CONFIG", "RESETSTAT"});
  for (int i = 0; i < 300 && registry.size() > 3; ++i) CHECK(registry.write(kMe));
  CHECK(registry.size() == 3);
  CHECK(registry.has_entry(kMe));
  CHECK(registry.has_entry("lives"));
  CHECK(registry.has_entry("as long as may be"));
  // Only values of the entries that stay were read, at most both in each call.
  CHECK(test::calls_of("hget") <= 2 * test::calls_of("hrandfield"));
  for (const char* reader : {"hscan", "hmget", "hgetall", "hvals"}) CHECK(test::calls_of(reader) == 0);
}

TEST_CASE("registry: a consumer whose own value is huge writes it again, also in a full registry, or removes it") {
  RegistryOnServer registry;
  const std::string huge(8'000'000, 'x');
  registry.put_value(kMe, huge);
  const std::string fill = "for i = 2, 10000 do redis.call('HSET', KEYS[1], i, ARGV[1]) end";
  redis().cmd({"EVAL", fill, "1", registry.key(), std::to_string(test::redis_time_us() + 3'600'000'000) + " 1\n"});
  redis().cmd({"CONFIG", "RESETSTAT"});
  CHECK(registry.write(kMe));
  CHECK(registry.length(kMe) < 1000);
  CHECK(test::calls_of("hget") <= 10);
  registry.put_value(kMe, huge);
  CHECK(registry.remove(kMe));
  CHECK_FALSE(registry.has_entry(kMe));
}

TEST_CASE("registry: entries with names that are longer than any id are removed") {
  RegistryOnServer registry;
  registry.put(std::string(1'000'000, 'x'), 1h);
  registry.put(std::string(201, 'x'), 1h);
  registry.put(std::string(200, 'x'), 1h);
  for (int i = 0; i < 100 && registry.size() > 2; ++i) CHECK(registry.write(kMe));
  CHECK(registry.has_entry(std::string(200, 'x')));
  CHECK(registry.size() == 2);
}

TEST_CASE("registry: its key expires with its last entry, and a shorter entry does not shorten that") {
  RegistryOnServer registry;
  registry.write(kOther, 10min);
  registry.write(kMe, 60s);
  const long long left = redis().cmd({"PTTL", registry.key()}).integer;
  CHECK(left > 590'000);
  CHECK(left <= 600'000);
  registry.write(kMe, 20min);
  CHECK(redis().cmd({"PTTL", registry.key()}).integer > 1'190'000);
  registry.write(kMe, 48h);  // at most a day
  CHECK(redis().cmd({"PTTL", registry.key()}).integer <= 86'400'000);
  redis().cmd({"PERSIST", registry.key()});
  registry.write(kMe, 60s);
  CHECK(redis().cmd({"PTTL", registry.key()}).integer > 0);
}

TEST_CASE("registry: unregister_consumer removes the entry, and the last one leaves no key") {
  RegistryOnServer registry;
  registry.write(kMe);
  registry.write(kOther);
  CHECK(registry.remove(kMe));
  CHECK_FALSE(registry.has_entry(kMe));
  CHECK(registry.has_entry(kOther));
  CHECK(registry.remove(kMe));
  CHECK(registry.remove(kOther));
  CHECK(redis().cmd({"EXISTS", registry.key()}) == 0);
}

TEST_CASE("registry: with ten thousand entries a further one is not written; those that are there go on") {
  RegistryOnServer registry;
  registry.write(kMe);
  const std::string fill = "for i = 2, 10000 do redis.call('HSET', KEYS[1], i, ARGV[1]) end";
  const std::string value = std::to_string(test::redis_time_us() + 3'600'000'000) + " 1\n" + kLines;
  redis().cmd({"EVAL", fill, "1", registry.key(), value});
  CHECK(registry.size() == 10'000);
  CHECK_FALSE(registry.write(kOther));
  CHECK_FALSE(registry.has_entry(kOther));
  CHECK(registry.write(kMe));
  CHECK(registry.remove(kMe));
  CHECK(registry.write(kOther));
  CHECK(registry.size() == 10'000);
}

TEST_CASE("registry: a key of another type is refused, and stays as it was") {
  RegistryOnServer registry;
  redis().cmd({"SET", registry.key(), "of another program"});
  CHECK(has(test::thrown([&] { registry.write(kMe); }), "WRONGTYPE"));
  CHECK(has(test::thrown([&] { registry.remove(kMe); }), "WRONGTYPE"));
  CHECK(has(test::thrown([&] { registry.names(); }), "WRONGTYPE"));
  CHECK(redis().cmd({"GET", registry.key()}) == "of another program");
}

TEST_CASE("registry: entries are written and removed when memory is full, as verdicts are") {
  RegistryOnServer registry;
  REQUIRE(redis().cmd({"CONFIG", "SET", "maxmemory", "1"}) == "OK");
  CHECK(test::thrown([&] { CHECK(registry.write(kMe)); }) == "nothing");
  CHECK(registry.has_entry(kMe));
  CHECK(test::thrown([&] { registry.remove(kMe); }) == "nothing");
  CHECK_FALSE(registry.has_entry(kMe));
  REQUIRE(redis().cmd({"CONFIG", "SET", "maxmemory", "0"}) == "OK");
}

TEST_CASE("registry: with a thousand consumers a call stays short, whether their entries have ended or not") {
  RegistryOnServer registry;
  for (const milliseconds ends_in : {1h, -1h}) {
    for (int i = 0; i < 1000; ++i) registry.put(std::to_string(i), ends_in);
    redis().cmd({"CONFIG", "RESETSTAT"});
    for (int i = 0; i < 200; ++i) CHECK(registry.write(kMe));
    const test::CommandTimes times = test::command_times(redis());
    MESSAGE(times);
    CHECK(times.bounded());
  }
  CHECK(registry.size() < 1001);
}

}  // namespace
}  // namespace delayqueue::store
