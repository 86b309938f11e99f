// Producers of a queue with several partitions.
#include "support/test.h"

#include "store/keys.h"
#include "store/record.h"
#include "support/answers.h"
#include "support/proxy.h"

namespace delayqueue {
namespace {

using test::named;

// An id of another program; of version 4, so that no partition can be read from it by chance.
const std::string kForeign = "12345678-abcd-4ef0-8123-456789abcdef";

// A queue whose partitions are on one server.
class Spread {
 public:
  explicit Spread(unsigned partitions, const std::string& url = test::server().url(), Redis& on = test::redis())
      : queue(url), on_(on) {
    if (partitions > 1) queue.admin.set_partitions(partitions);
  }

  store::Keys keys(unsigned partition) const { return store::make_keys(queue.name, {}, partition); }
  std::uint16_t crc() const { return store::name_crc(queue.name, "dp"); }
  std::string id_for(unsigned partition) const {
    return store::new_ids(1, {crc(), static_cast<std::uint8_t>(partition)}).front();
  }

  // The partition that an id names; of other ids 0.
  unsigned named_by(const std::string& id) const { return store::partition_of(id, crc()).value_or(0); }

  // The payload of a message in this partition; "(nil)" if there is none.
  std::string payload(unsigned partition, const std::string& id) const {
    const test::Reply reply = on_.cmd({"GET", keys(partition).bodies + id});
    return reply.nil() ? "(nil)" : reply.text;
  }

  std::uint64_t ready(unsigned partition) const {
    return static_cast<std::uint64_t>(on_.cmd({"LLEN", keys(partition).ready}).integer);
  }
  std::vector<std::uint64_t> ready_of_all(unsigned partitions) const {
    std::vector<std::uint64_t> all;
    for (unsigned partition = 0; partition < partitions; ++partition) all.push_back(ready(partition));
    return all;
  }

  // Whether each message is in the partition that its id names, with its number as payload.
  bool are_in_place(const std::vector<Sent>& sent) const {
    for (std::size_t i = 0; i < sent.size(); ++i) {
      if (!sent[i].created() || payload(named_by(sent[i].id), sent[i].id) != std::to_string(i)) return false;
    }
    return true;
  }

  Queue queue;

 private:
  Redis& on_;
};

TEST_CASE("partitions: ids of the library carry their partition, and messages are spread evenly over all of them") {
  Spread spread(8);
  std::vector<Sent> sent;
  std::set<unsigned> named;
  for (int i = 0; i < 64; ++i) {
    sent.push_back(spread.queue.producer.send(std::to_string(i)));
    named.insert(spread.named_by(sent.back().id));
  }
  CHECK(named.size() == 8);
  CHECK(spread.are_in_place(sent));
  CHECK(spread.ready_of_all(8) == std::vector<std::uint64_t>(8, 8));
  CHECK(spread.ready(8) == 0);
}

TEST_CASE("partitions: a batch goes on to the next partition after 200 messages, and its results keep their order") {
  Spread spread(8);
  const std::vector<Sent> sent = spread.queue.producer.send_batch(numbers(8 * 200));
  REQUIRE(sent.size() == 8 * 200);
  CHECK(spread.are_in_place(sent));
  CHECK(spread.ready_of_all(8) == std::vector<std::uint64_t>(8, 200));
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (spread.named_by(sent[i].id) != spread.named_by(sent[i - i % 200].id)) FAIL(i);
  }
}

TEST_CASE("partitions: a step of a batch has at most 256 KiB, and a larger message is one alone") {
  Spread spread(4);
  const std::string half(128 * 1024, 'h');
  const std::vector<Sent> sent = spread.queue.producer.send_batch({half, half, "x", half + half + half, "y"});
  for (const Sent& one : sent) CHECK(spread.payload(spread.named_by(one.id), one.id) != "(nil)");
  CHECK(spread.named_by(sent[0].id) == spread.named_by(sent[1].id));
}

TEST_CASE("partitions: all other ids live in partition 0, so that a repeated send makes no second message") {
  Spread spread(1);
  const std::string other_queue = store::new_ids(1, {store::name_crc("other", "dp"), 0}).front();
  const std::vector<std::string> ids = {kForeign, other_queue, "00000000-0000-0000-0000-000000000000"};
  Producer stale(spread.queue.url, spread.queue.name);
  for (const std::string& id : ids) CHECK(stale.send("first", named(id, 1h)).created());
  for (const unsigned partitions : {4U, 32U, 2U, 1U}) {
    spread.queue.admin.set_partitions(partitions);
    Producer fresh(spread.queue.url, spread.queue.name);
    for (Producer* producer : {&stale, &fresh, &spread.queue.producer}) {
      for (const std::string& id : ids) CHECK(!producer->send("second", named(id)).created());
    }
  }
  for (const std::string& id : ids) CHECK(spread.payload(0, id) == "first");
  CHECK(spread.queue.inspector.counts().totals.sent == ids.size());
  CHECK(spread.ready_of_all(32) == std::vector<std::uint64_t>(32, 0));
}

TEST_CASE("partitions: own ids that several programs send at once are stored once while the number changes") {
  constexpr std::size_t kIds = 200, kLayouts = 12;
  Spread spread(1);
  std::atomic<std::size_t> layouts{0}, created{0};
  std::atomic<int> ready{0};
  const auto send_all = [&] {
    ++ready;
    while (ready < 4) std::this_thread::yield();
    do {
      // A new Producer reads the layout again, so that the senders differ in what they know.
      for (std::size_t first = 0; first < kIds; first += 20) {
        Producer producer(spread.queue.url, spread.queue.name);
        for (std::size_t i = first; i < first + 20; ++i) {
          const std::string id = "12345678-abcd-4ef0-8123-" + std::to_string(100'000'000'000 + i);
          if (producer.send("x", named(id)).created()) ++created;
        }
      }
    } while (layouts < kLayouts);
  };
  std::vector<std::thread> senders;
  for (int i = 0; i < 4; ++i) senders.emplace_back(send_all);
  while (ready < 4) std::this_thread::yield();
  for (; layouts < kLayouts; ++layouts) {
    constexpr unsigned kCycle[] = {4, 32, 2, 1};
    spread.queue.admin.set_partitions(kCycle[layouts % 4]);
  }
  for (std::thread& sender : senders) sender.join();
  CHECK(created == kIds);
  CHECK(spread.queue.inspector.counts().totals.sent == kIds);
  std::vector<std::uint64_t> expected(32, 0);
  expected[0] = kIds;
  CHECK(spread.ready_of_all(32) == expected);
}

TEST_CASE("partitions: a send that is repeated with an id of the library goes to the partition that the id names") {
  Spread spread(1);
  Producer stale(spread.queue.url, spread.queue.name);
  stale.send("knows no partitions");
  spread.queue.admin.set_partitions(8);
  std::vector<Sent> sent;
  for (int i = 0; i < 16; ++i) sent.push_back(spread.queue.producer.send(std::to_string(i)));
  const auto before = spread.ready_of_all(8);
  for (const unsigned partitions : {8U, 1U}) {
    spread.queue.admin.set_partitions(partitions);
    Producer fresh(spread.queue.url, spread.queue.name);
    for (Producer* producer : {&stale, &fresh, &spread.queue.producer}) {
      std::vector<OutgoingMessage> again;
      for (const Sent& one : sent) {
        CHECK(!producer->send("again", named(one.id)).created());
        again.push_back({"again", named(one.id)});
      }
      for (const Sent& one : producer->send_batch(again)) CHECK(!one.created());
    }
  }
  CHECK(spread.ready_of_all(8) == before);
  CHECK(spread.are_in_place(sent));
  // An id whose first send was never executed is sent where it would have been.
  const std::string lost = spread.id_for(5);
  CHECK(stale.send("x", named(lost)).created());
  CHECK(spread.payload(5, lost) == "x");
}

TEST_CASE("partitions: calls by id go to the partition that the id names, also of clients that know fewer partitions") {
  Spread spread(1);
  Producer stale(spread.queue.url, spread.queue.name);
  stale.send("knows no partitions");
  Producer silent(spread.queue.url, spread.queue.name);  // has read nothing
  spread.queue.admin.set_partitions(16);
  Producer sender(spread.queue.url, spread.queue.name);
  std::vector<std::string> ids;
  for (int i = 0; i < 32; ++i) ids.push_back(sender.send("x", delayed(1h)).id);
  RescheduleOptions now;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Producer& producer = i % 2 == 0 ? stale : silent;
    CHECK(producer.reschedule(ids[i], now) == Outcome::done);
    CHECK(producer.cancel(ids[i]) == State::ready);
    CHECK(producer.cancel(ids[i]) == State::unknown);
    CHECK(producer.reschedule(ids[i], now) == Outcome::unknown);
  }
  CHECK(stale.cancel(spread.id_for(200)) == State::unknown);
  CHECK(stale.cancel(kForeign) == State::unknown);
  sender.send("x", named(kForeign));
  CHECK(stale.cancel(kForeign) == State::ready);
}

TEST_CASE("partitions: a partition has a copy of the layout before its first message; only 0 is in the set of queues") {
  Spread spread(8);
  spread.queue.producer.send_batch(numbers(8 * 200));
  for (unsigned partition = 0; partition < 8; ++partition) {
    CAPTURE(partition);
    const store::Keys keys = spread.keys(partition);
    CHECK(test::redis().cmd({"HMGET", keys.settings, "partitions", "top"}).strings() ==
          std::vector<std::string>{"8", "8"});
    CHECK(test::redis().cmd({"SISMEMBER", keys.queues, keys.base}) == (partition == 0 ? 1 : 0));
  }
}

TEST_CASE("partitions: producers in use follow a number that is raised or lowered, and lose nothing") {
  Spread spread(1);
  Producer& producer = spread.queue.producer;
  std::vector<Sent> sent;
  const auto send = [&] { sent.push_back(producer.send(std::to_string(sent.size()))); };
  send();
  for (const unsigned partitions : {4U, 32U}) {
    CAPTURE(partitions);
    spread.queue.admin.set_partitions(partitions);
    CHECK(eventually(
        [&] {
          send();
          return spread.named_by(sent.back().id) == partitions - 1;
        },
        kPatience));
  }
  spread.queue.admin.set_partitions(8);
  // The number is known when 32 sends in a row go to these partitions.
  std::size_t in_a_row = 0;
  CHECK(eventually(
      [&] {
        send();
        in_a_row = spread.named_by(sent.back().id) < 8 ? in_a_row + 1 : 0;
        return in_a_row == 32;
      },
      kPatience));
  CHECK(spread.are_in_place(sent));
  std::uint64_t ready = 0;
  for (const std::uint64_t one : spread.ready_of_all(32)) ready += one;
  CHECK(ready == sent.size());
}

TEST_CASE("partitions: threads that send at the same time use one partition, and share its script calls") {
  constexpr std::size_t kSenders = 40;
  PrivateServer own;
  Redis client(own.socket());
  test::FaultProxy proxy(own.socket());
  Spread spread(4, proxy.url(), client);
  Producer& producer = spread.queue.producer;
  for (int i = 0; i < 4; ++i) producer.send("uses each partition");
  const std::size_t before = test::calls_of("evalsha", client);
  std::atomic<std::size_t> begun{0}, created{0};
  std::vector<std::thread> senders;
  proxy.hold_replies(true);
  for (std::size_t i = 0; i < kSenders; ++i) {
    senders.emplace_back([&] {
      ++begun;
      if (producer.send("x").created()) ++created;
    });
  }
  CHECK(eventually([&] { return begun == kSenders; }, kPatience));
  std::this_thread::sleep_for(100ms);  // the last thread waits too; the checks hold without it
  proxy.hold_replies(false);
  for (std::thread& sender : senders) sender.join();
  CHECK(created == kSenders);
  CHECK(test::calls_of("evalsha", client) - before < kSenders / 2);  // usually two
}

TEST_CASE("partitions: threads with one Producer lose no message and get their own results") {
  Spread spread(8);
  std::vector<std::vector<std::string>> ids(8);
  std::vector<std::thread> threads;
  for (std::vector<std::string>& mine : ids) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        mine.push_back(spread.queue.producer.send("x").id);
        for (const Sent& one : spread.queue.producer.send_batch({"a", "b", "c"})) mine.push_back(one.id);
        mine.push_back(spread.queue.producer.send_async("y").get().id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> different;
  for (const auto& mine : ids) different.insert(mine.begin(), mine.end());
  CHECK(different.size() == 8 * 50 * 5);
  std::uint64_t ready = 0;
  for (const std::uint64_t one : spread.ready_of_all(8)) ready += one;
  CHECK(ready == 8 * 50 * 5);
}

TEST_CASE("partitions: a batch with ids of the caller, of the library and without ids stores each in its partition") {
  Spread spread(4);
  std::vector<OutgoingMessage> messages;
  for (int i = 0; i < 900; ++i) {
    OutgoingMessage message{std::to_string(i), {}};
    if (i % 3 == 1) message.options.id = "12345678-abcd-4ef0-8123-" + std::to_string(100'000'000'000 + i);
    if (i % 3 == 2) message.options.id = spread.id_for(static_cast<unsigned>(i) % 4);
    messages.push_back(message);
  }
  const std::vector<Sent> sent = spread.queue.producer.send_batch(messages);
  REQUIRE(sent.size() == messages.size());
  CHECK(spread.are_in_place(sent));
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (i % 3 != 0 && sent[i].id != messages[i].options.id) FAIL(i);
    messages[i].options.id = sent[i].id;
  }
  for (const Sent& one : spread.queue.producer.send_batch(messages)) CHECK(!one.created());
}

TEST_CASE("partitions: send_async spreads its messages") {
  Spread spread(4);
  std::vector<std::future<Sent>> futures;
  std::vector<Sent> sent;
  for (const std::string& payload : numbers(3000)) futures.push_back(spread.queue.producer.send_async(payload));
  for (std::future<Sent>& future : futures) sent.push_back(future.get());
  CHECK(spread.are_in_place(sent));
  for (const std::uint64_t one : spread.ready_of_all(4)) CHECK(one > 0);
  CHECK(spread.queue.producer.send_async("mine", named(kForeign)).get().id == kForeign);
  CHECK(spread.payload(0, kForeign) == "mine");
}

TEST_CASE("partitions: an id whose partition cannot be told fails its send, and no others that are sent with it") {
  PrivateServer own;
  Redis client(own.socket());
  for (const unsigned partitions : {1U, 4U}) {
    CAPTURE(partitions);
    test::FaultProxy proxy(own.socket());
    Spread spread(partitions, proxy.url(), client);
    Producer& producer = spread.queue.producer;
    for (unsigned i = 0; i < partitions; ++i) producer.send("uses each partition");
    const std::string settings = spread.keys(0).settings;
    client.cmd({"RENAME", settings, "settings of before"});
    client.cmd({"SET", settings, "in the way"});
    proxy.hold_replies(true);
    std::future<Sent> first = producer.send_async("first");
    std::this_thread::sleep_for(50ms);  // the next ones are sent together; the checks hold without it
    std::vector<std::future<Sent>> futures;
    const std::string beyond = spread.id_for(200);
    for (int i = 0; i < 8; ++i) futures.push_back(producer.send_async("x", i == 3 ? named(beyond) : SendOptions{}));
    proxy.hold_replies(false);
    CHECK(first.get().created());
    for (std::size_t i = 0; i < futures.size(); ++i) {
      CAPTURE(i);
      bool created = false;
      const std::string error = test::thrown([&] { created = futures[i].get().created(); });
      CHECK(created == (i != 3));
      CHECK((i == 3 ? error.rfind("ReplyError: ", 0) == 0 : error == "nothing"));
    }
    client.cmd({"DEL", settings});
    client.cmd({"RENAME", "settings of before", settings});
    CHECK(producer.send("x", named(beyond)).created());
  }
}

TEST_CASE("partitions: an error reply of one partition fails the sends to it, and no others") {
  Spread spread(4);
  test::redis().cmd({"SET", spread.keys(2).ready, "in the way"});
  int failed = 0;
  for (int i = 0; i < 8; ++i) {
    const std::string error = test::thrown([&] { spread.queue.producer.send("x"); });
    if (error != "nothing") CHECK(error.rfind("ReplyError: ", 0) == 0);
    failed += error == "nothing" ? 0 : 1;
  }
  CHECK(failed == 2);
  CHECK(test::thrown([&] { spread.queue.producer.send_batch(numbers(800)); }).rfind("ReplyError: ", 0) == 0);
}

TEST_CASE("partitions: a message that is due, or first in its partition, wakes consumers, who wait in partition 0") {
  Spread spread(4);
  const auto marker = [&](unsigned partition) {
    const test::Reply score = test::redis().cmd({"ZSCORE", spread.keys(0).wakes, std::to_string(partition)});
    return score.nil() ? -1.0 : std::stod(score.text);
  };
  const auto send = [&](unsigned partition, milliseconds delay) {
    const std::string id = spread.id_for(partition);
    spread.queue.producer.send("x", named(id, delay));
    return id;
  };
  send(3, 2h);  // now Redis knows the script: a call that has to load it always wakes at once
  const std::string later = send(2, 2h);
  const double first = marker(2);
  CHECK(first > 0);
  send(2, 3h);
  CHECK(marker(2) == first);
  send(2, 1h);
  CHECK(marker(2) < first);
  test::redis().cmd({"ZREM", spread.keys(0).wakes, "2"});
  CHECK(spread.queue.producer.reschedule(later, {}) == Outcome::done);
  CHECK(marker(2) == 0);
  send(2, 1h);
  CHECK(marker(2) == 0);

  for (int i = 0; i < 8; ++i) spread.queue.producer.send("due now");
  for (unsigned partition = 1; partition < 4; ++partition) {
    CHECK(marker(partition) == 0);
    CHECK(test::redis().cmd({"EXISTS", spread.keys(partition).wake}) == 0);
    CHECK(test::redis().cmd({"EXISTS", spread.keys(partition).wakes}) == 0);
  }
  CHECK(marker(0) == -1);
  CHECK(test::redis().cmd({"EXISTS", spread.keys(0).wake}) == 1);
}

TEST_CASE("partitions: a move whose script the server has lost wakes consumers, too") {
  PrivateServer own;
  Redis client(own.socket());
  Spread spread(2, own.url(), client);
  Producer& producer = spread.queue.producer;
  const std::string id = spread.id_for(1);
  for (int i = 0; i < 2; ++i) producer.send("connects to both partitions");
  const auto wakes_after = [&](const std::function<void()>& call) {
    client.cmd({"DEL", spread.keys(0).wakes});
    client.cmd({"SCRIPT", "FLUSH"});
    call();
    CHECK(client.cmd({"EXISTS", spread.keys(1).wake}) == 0);
    return client.cmd({"ZCARD", spread.keys(0).wakes}).integer;
  };
  CHECK(wakes_after([&] { producer.send("x", named(id, 1h)); }) == 1);
  CHECK(wakes_after([&] { CHECK(producer.reschedule(id, {}) == Outcome::done); }) == 1);
  // Two sends with new ids: one of them to partition 1.
  CHECK(wakes_after([&] { producer.send("x"); }) + wakes_after([&] { producer.send("x"); }) == 1);
}

TEST_CASE("partitions: threads that send at the same time wake consumers for each partition") {
  Spread spread(8);
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 50; ++n) spread.queue.producer.send("x");
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(test::redis().cmd({"ZCARD", spread.keys(0).wakes}) == 7);
}

TEST_CASE("partitions: a send that cannot wake consumers is stored all the same") {
  PrivateServer own = test::server_with({"--user", "ann", "on", ">pw", "~*", "&*", "+@all", "-zpopmin"});
  Redis client(own.socket());
  Spread spread(2, own.url(), client);
  ClientOptions options;
  options.user = "ann";
  options.password = "pw";
  Producer producer({own.url(), options}, spread.queue.name);
  for (int i = 0; i < 4; ++i) CHECK(producer.send("x").created());
  CHECK(spread.ready_of_all(2) == std::vector<std::uint64_t>{2, 2});
  CHECK(client.cmd({"EXISTS", spread.keys(1).wake}) == 1);
  const std::string id = producer.send("x", named(spread.id_for(1), 1h)).id;
  CHECK(producer.reschedule(id, {}) == Outcome::done);

  client.cmd({"SET", spread.keys(0).wakes, "in the way"});
  client.cmd({"ACL", "SETUSER", "ann", "+zpopmin"});
  for (int i = 0; i < 4; ++i) CHECK(producer.send("x").created());
}

TEST_CASE("partitions: while no other server is known, a failed send is tried in no other partition") {
  std::optional<PrivateServer> own(std::in_place);
  const std::string url = own->url();
  QueueAdmin(url, "orders").set_partitions(4);
  Producer producer(url, "orders");
  CHECK(producer.send("x").created());
  own.reset();
  for (int i = 0; i < 4; ++i) CHECK_THROWS_AS(producer.send("x"), ConnectionError);
  CHECK(producer.metrics().moved == 0);
}

TEST_CASE("partitions: one that the user has no right to is left out with a warning, and its messages go elsewhere") {
  PrivateServer own = test::server_with({"--user", "ann", "on", ">pw", "~dp:orders:*", "&*", "+@all"});
  Redis client(own.socket());
  QueueAdmin(own.url(), "orders").set_partitions(4);
  test::Lines lines;
  ClientOptions client_options;
  ProducerOptions options;
  client_options.user = "ann";
  client_options.password = "pw";
  options.logger = lines.logger();
  Producer producer({own.url(), client_options}, "orders", options);
  const auto partition = [&] {
    return store::partition_of(producer.send("x").id, store::name_crc("orders", "dp")).value_or(0);
  };
  for (int i = 0; i < 12; ++i) CHECK(partition() == 0);
  CHECK(client.cmd({"LLEN", "dp:orders:ready"}) == 12);
  CHECK(producer.metrics().moved == 3);  // one for each of the others
  CHECK(lines.count(Severity::warning, "NOPERM") == 1);
  CHECK(lines.count(Severity::warning, "docs/operations.md") == 1);

  client.cmd({"ACL", "SETUSER", "ann", "~{dp:orders#*"});
  std::set<unsigned> used;
  CHECK(eventually(
      [&] {
        used.insert(partition());
        return used.size() == 4;
      },
      kPatience));

  // A right that is lost while the partitions are in use.
  client.cmd({"ACL", "SETUSER", "ann", "resetkeys", "~dp:orders:*"});
  for (int i = 0; i < 12; ++i) CHECK(partition() == 0);
}

TEST_CASE("partitions: a message that a script may have stored before a right was missing is sent nowhere else") {
  PrivateServer own = test::server_with({"--user", "ann", "on", ">pw", "~*", "&*", "+@all", "-set"});
  Redis client(own.socket());
  Spread spread(4, own.url(), client);
  ClientOptions options;
  options.user = "ann";
  options.password = "pw";
  Producer producer({own.url(), options}, spread.queue.name);
  SendOptions expires;
  expires.ttl = 1h;  // the script then stores the body last, by SET
  for (int i = 0; i < 4; ++i) {
    CHECK(test::thrown([&] { producer.send("x", expires); }).rfind("ReplyError: ", 0) == 0);
  }
  CHECK(spread.ready_of_all(4) == std::vector<std::uint64_t>(4, 1));
  CHECK(producer.metrics().moved == 0);
  for (int i = 0; i < 4; ++i) CHECK(producer.send("y").created());
  CHECK(spread.ready_of_all(4) == std::vector<std::uint64_t>(4, 2));  // no partition is left out
}

TEST_CASE("partitions: a queue with bodies under dp: has one, and a Producer with this option uses no other") {
  Spread spread(4);
  ClientOptions options;
  options.keys.go.bodies_under_dp = true;
  Producer producer({spread.queue.url, options}, spread.queue.name);
  for (int i = 0; i < 8; ++i) CHECK(producer.send("x").created());
  CHECK(spread.ready_of_all(4) == std::vector<std::uint64_t>{8, 0, 0, 0});
  CHECK(producer.cancel(spread.id_for(3)) == State::unknown);
}

TEST_CASE("partitions: a queue without partitions needs one round trip for a send, as before") {
  PrivateServer own;
  Redis client(own.socket());
  Queue queue(own.url());
  queue.send("connects, and loads the script");
  const auto reads = [&] { return std::stoll(test::info("stats", "total_reads_processed", client)); };
  const std::size_t calls = test::calls_of("evalsha", client);
  const long long before = reads();
  for (int i = 0; i < 100; ++i) queue.send("x");
  CHECK(reads() - before <= 110);
  CHECK(test::calls_of("evalsha", client) - calls == 100);
}

TEST_CASE("partitions: an embedded server has them, too") {
  const std::string name = test::fresh_queue();
  QueueAdmin("embedded:", name).set_partitions(4);
  Producer producer("embedded:", name);
  std::set<unsigned> named;
  for (int i = 0; i < 8; ++i) {
    const std::string id = producer.send("x").id;
    named.insert(store::partition_of(id, store::name_crc(name, "dp")).value_or(0));
    CHECK(producer.cancel(id) == State::ready);
  }
  CHECK(named.size() == 4);
}

}  // namespace
}  // namespace delayqueue
