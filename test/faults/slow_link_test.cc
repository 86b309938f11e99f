// A slow link, with payloads that take longer than the timeouts: requests that are slow succeed, silence does not.
#include "support/test.h"

#include "support/answers.h"
#include "support/local.h"
#include "support/proxy.h"
#include "support/tls_files.h"

namespace delayqueue {
namespace {

using Clock = std::chrono::steady_clock;
using test::FaultProxy;

constexpr std::size_t kRate = 250'000;  // bytes a second
constexpr milliseconds kSlowLinkTimeout{800};
const std::string kLarge(600'000, 'x');  // takes 2.4 s

// A server, with TLS or without, behind a proxy.
struct SlowLink {
  explicit SlowLink(bool tls)
      : server(tls ? test::server_with(test::serving(port)) : test::server_with({})),
        proxy(tls ? "127.0.0.1:" + std::to_string(port.number()) : server.socket()) {
    connection.command_timeout = kSlowLinkTimeout;
    if (tls) connection.tls.ca_file = test::TlsFiles::shared().ca;
    url = tls ? "rediss://" + proxy.address() : proxy.url();
  }

  // From now on `connection` is for a user with these rights. Call it for each server that it may lead to.
  void log_in_at(const PrivateServer& at, const std::string& rights) {
    test::Redis(at.socket()).cmd({"ACL", "SETUSER", "worker", "on", ">pw", "~*", "&*", "+@all", rights});
    connection.user = "worker";
    connection.password = "pw";
  }

  Client client() const { return {url, connection}; }

  const test::Port port;
  PrivateServer server;
  FaultProxy proxy;
  ClientOptions connection;
  std::string url;
};

TEST_CASE("slow link: a send takes as long as its bytes need, with TLS and without, one by one and as a batch") {
  for (const bool tls : {false, true}) {
    CAPTURE(tls);
    SlowLink link(tls);
    Producer producer(link.client(), "orders");
    producer.send("small");
    link.proxy.rate(kRate, kRate);
    const auto begun = Clock::now();
    CHECK(producer.send(kLarge).created());
    CHECK(Clock::now() - begun > kSlowLinkTimeout);
    const std::string part(kLarge.size() / 4, 'y');
    CHECK(producer.send_batch({part, part, part, part}).size() == 4);
    link.proxy.rate(0, 0);
    CHECK(Inspector(link.server.url(), "orders").counts().ready == 6);
  }
}

TEST_CASE("slow link: a payload of any size can be read, with TLS and without") {
  for (const bool tls : {false, true}) {
    CAPTURE(tls);
    SlowLink link(tls);
    Producer producer(link.server.url(), "orders");
    const std::string id = producer.send(kLarge).id;
    Inspector inspector(link.client(), "orders");
    link.proxy.rate(kRate, kRate);
    const auto begun = Clock::now();
    CHECK(inspector.find(id)->payload == kLarge);
    CHECK(Clock::now() - begun > kSlowLinkTimeout);
  }
}

TEST_CASE("slow link: silence in the middle of an answer ends the call, with what had arrived and for how long") {
  SlowLink link(false);
  const std::string id = Producer(link.server.url(), "orders").send(kLarge).id;
  Inspector inspector(link.client(), "orders");
  CHECK(inspector.counts().ready == 1);
  link.proxy.rate(kRate, kRate);
  std::thread silence([&] {
    std::this_thread::sleep_for(1s);
    link.proxy.black_hole(true);
  });
  std::string text;
  try {
    text = "no error, but " + inspector.find(id)->id;
  } catch (const ConnectionError& e) {
    text = e.what();
  }
  silence.join();
  CHECK_MESSAGE(has(text, "no answer from "), text);
  CHECK_MESSAGE(has(text, " bytes of it; it may be stopped, overloaded or unreachable"), text);
}

// ---- Consumers ------------------------------------------------------------------------------------------------------

ConsumerOptions consumer_options(test::Lines& lines) {
  ConsumerOptions options = test::quick(4);
  options.logger = lines.logger();
  return options;
}

// Payloads by their first bytes, in the order of their deliveries.
std::vector<std::string> starts(const Ledger& ledger) {
  std::vector<std::string> all;
  for (const std::string& payload : ledger.payloads()) all.push_back(payload.substr(0, 8));
  return all;
}

std::size_t place_of(const std::string& start, const Ledger& ledger) {
  const std::vector<std::string> all = starts(ledger);
  return static_cast<std::size_t>(std::find(all.begin(), all.end(), start) - all.begin());
}

bool all_first(const Ledger& ledger) {
  const auto entries = ledger.entries();
  return std::all_of(entries.begin(), entries.end(), [](const auto& one) { return one.message.attempt() == 1; });
}

TEST_CASE("slow link: a consumer handles large payloads, and small messages and another queue do not wait for them") {
  for (const bool tls : {false, true}) {
    CAPTURE(tls);
    SlowLink link(tls);
    Producer orders(link.server.url(), "orders"), mails(link.server.url(), "mails");
    orders.send(kLarge);
    orders.send("small");
    Ledger ledger, others;
    test::Lines lines;
    std::vector<Subscription> subscriptions{{"orders", ledger.watch()}, {"mails", others.watch()}};
    test::ConsumerPtr consumer(new Consumer(link.client(), std::move(subscriptions), consumer_options(lines)));
    consumer->start();
    link.proxy.rate(kRate, kRate);
    CHECK(ledger.settles(2));
    // From now on large payloads are known to be slow: nothing waits for them.
    orders.send_batch({kLarge, "after-1", "after-2"});
    for (int i = 0; i < 5; ++i) {
      mails.send("mail");
      std::this_thread::sleep_for(100ms);
    }
    CHECK(others.settles(5));
    CHECK(ledger.size() < 5);
    CHECK(ledger.settles(5));
    CHECK(place_of("after-1", ledger) < 4);
    CHECK(starts(ledger).back() == kLarge.substr(0, 8));
    CHECK(all_first(ledger));
    CHECK(consumer->metrics().stats.nacked == 0);
    CHECK(consumer->metrics().stats.connects == 1);
    CHECK(lines.count() == 0);
    CHECK(consumer->stop());
  }
}

TEST_CASE("slow link: leases are renewed while a large payload takes longer than they last") {
  SlowLink link(false);
  Producer producer(link.server.url(), "orders", with(&ProducerOptions::max_payload, 2'000'000));
  producer.send("held");
  Ledger ledger;
  test::Lines lines;
  ConsumerOptions options = consumer_options(lines);
  options.lease = 4s;
  Consumer consumer(link.client(), "orders", ledger.watch([](const Message& message) {
    if (message.payload() != "held") return ack();
    std::this_thread::sleep_for(9s);
    return test::ack_if(!message.lease_lost());
  }),
                    options);
  consumer.start();
  REQUIRE(ledger.reaches(1));
  link.proxy.rate(kRate, kRate);
  producer.send(std::string(1'500'000, 'x'));  // takes 6 s
  CHECK(ledger.settles(2));
  CHECK(consumer.stop());
  CHECK(consumer.metrics().stats.acked == 2);
  CHECK(all_first(ledger));
}

TEST_CASE("slow link: a payload above client-output-buffer-limit becomes a dead letter, and all others pass it") {
  SlowLink link(false);
  test::Redis admin(link.server.socket());
  Producer orders(link.server.url(), "orders"), mails(link.server.url(), "mails");
  const auto once = with(&SendOptions::retries, 1);
  orders.send("before");
  const std::string id = orders.send(kLarge, once).id;
  orders.send_batch({"after-1", "after-2"});
  mails.send("mail");
  test::set_config(admin, "client-output-buffer-limit", "normal 300000 0 0");
  Ledger ledger, others;
  test::Lines lines;
  std::vector<Subscription> subscriptions{{"orders", ledger.watch()}, {"mails", others.watch()}};
  test::ConsumerPtr consumer(new Consumer(link.client(), std::move(subscriptions), consumer_options(lines)));
  consumer->start();
  CHECK(ledger.settles(3));
  CHECK(others.settles(1));
  Inspector inspector(link.server.url(), "orders");
  CHECK(test::eventually([&] { return inspector.counts().dead == 1; }));
  const std::string reason = inspector.list(State::dead).messages.at(0).reason;
  CHECK_MESSAGE(has(reason, "payload of 600000 bytes could not be fetched: the server at "), reason);
  CHECK_MESSAGE(has(reason, "closed the connection"), reason);
  CHECK_MESSAGE(has(reason, "see client-output-buffer-limit"), reason);
  CHECK(inspector.counts().totals.nacked == 2);  // the first delivery, and one retry
  CHECK(consumer->metrics().stats.connects <= 3);
  CHECK(lines.find("payload of 600000 bytes") != "");
  CHECK(consumer->stop());
  CHECK(ledger.size() == 3);
  CHECK(all_first(ledger));
}

TEST_CASE("slow link: a payload that no connection lives long enough for becomes a dead letter") {
  SlowLink link(false);
  Producer producer(link.server.url(), "orders");
  producer.send(kLarge, with(&SendOptions::retries, 1));
  Ledger ledger;
  test::Lines lines;
  ConsumerOptions options = consumer_options(lines);
  options.lease = 2s;  // of what a take returns when the connection is closed
  Consumer consumer(link.client(), "orders", ledger.watch(), options);
  consumer.start();
  link.proxy.rate(kRate, kRate);
  Inspector inspector(link.server.url(), "orders");
  std::size_t sent = 0;
  const auto end = Clock::now() + test::kPatience;
  for (; inspector.counts().dead == 0 && Clock::now() < end; ++sent) {
    producer.send("small");
    std::this_thread::sleep_for(1200ms);
    link.proxy.cut();
  }
  const std::string reason = inspector.list(State::dead).messages.at(0).reason;
  CHECK_MESSAGE(has(reason, "payload of 600000 bytes could not be fetched: the server at "), reason);
  CHECK_MESSAGE(has(reason, "; see client-output-buffer-limit"), reason);
  CHECK(ledger.settles(sent));
  CHECK(consumer.stop());
}

TEST_CASE("slow link: every partition of a queue delivers its large payloads") {
  SlowLink link(false);
  QueueAdmin(link.server.url(), "orders").set_partitions(4);
  Producer producer(link.server.url(), "orders");
  for (int i = 0; i < 8; ++i) producer.send(kLarge.substr(0, 200'000));
  for (int i = 0; i < 20; ++i) producer.send("small");
  Ledger ledger;
  test::Lines lines;
  Consumer consumer(link.client(), "orders", ledger.watch(), consumer_options(lines));
  consumer.start();
  link.proxy.rate(kRate, kRate);
  CHECK(ledger.settles(28));
  CHECK_MESSAGE(all_first(ledger), lines.find(""));
  CHECK(consumer.stop());
}

TEST_CASE("slow link: a consumer that stops gives back a message whose payload is arriving") {
  SlowLink link(false);
  Producer producer(link.server.url(), "orders");
  producer.send(kLarge);
  Ledger ledger;
  test::Lines lines;
  Consumer consumer(link.client(), "orders", ledger.watch(), consumer_options(lines));
  consumer.start();
  link.proxy.rate(kRate, kRate);
  REQUIRE(ledger.settles(1));
  const std::string id = producer.send(kLarge).id;
  std::this_thread::sleep_for(700ms);
  const auto begun = Clock::now();
  CHECK(consumer.stop());
  CHECK(Clock::now() - begun < 2s);
  const auto message = Inspector(link.server.url(), "orders").find(id);
  REQUIRE(message);
  CHECK(message->state == State::ready);
  CHECK(message->retries == 3);
}

// A new connection may lead to another server: the address has failed over, or its name has.
TEST_CASE("slow link: a payload that another server lacks is not gone, with the right to STRLEN and without") {
  for (const std::string rights : {"+strlen", "-strlen"}) {
    CAPTURE(rights);
    SlowLink link(false);
    PrivateServer other;
    link.log_in_at(link.server, rights);
    link.log_in_at(other, rights);
    Producer producer(link.server.url(), "orders");
    Ledger ledger;
    test::Lines lines;
    Consumer consumer(link.client(), "orders", ledger.watch(), consumer_options(lines));
    consumer.start();
    link.proxy.rate(kRate, kRate);
    producer.send(kLarge);
    REQUIRE(ledger.settles(1));
    link.proxy.retarget(other.socket());
    producer.send(kLarge);
    CHECK(ledger.settles(2));
    CHECK(all_first(ledger));
    CHECK(consumer.stop());
    CHECK(consumer.metrics().stats.expired == 0);
  }
}

TEST_CASE("slow link: a user without the right to STRLEN gets large payloads, too") {
  SlowLink link(false);
  link.log_in_at(link.server, "-strlen");
  Producer producer(link.server.url(), "orders");
  Ledger ledger;
  test::Lines lines;
  Consumer consumer(link.client(), "orders", ledger.watch(), consumer_options(lines));
  consumer.start();
  link.proxy.rate(kRate, kRate);
  producer.send(kLarge);
  REQUIRE(ledger.settles(1));
  producer.send_batch({kLarge, "small"});
  CHECK(ledger.settles(3));
  CHECK(all_first(ledger));
  CHECK(consumer.stop());
}

TEST_CASE("slow link: the log has how long Redis was silent, from the last byte on, and for how long it failed") {
  struct Silence {
    std::string begins_with;  // a command with this text; empty: at any time
    Durability durability{};
    milliseconds poll_interval{20};
  };
  const std::vector<Silence> all = {
      {""},
      {"\r\nEVAL\r\n"},                                      // repeats a call whose script was not loaded
      {"\r\nWAIT\r\n", Durability::replicas(1, 50ms), 10s},  // over another connection than the takes
  };
  for (const Silence& one : all) {
    CAPTURE(one.begins_with);
    SlowLink link(false);
    Producer producer(link.server.url(), "orders");
    Ledger ledger;
    test::Lines lines;
    ConsumerOptions options = consumer_options(lines);
    options.durability = one.durability;
    options.tuning.poll_interval = one.poll_interval;
    Consumer consumer(link.client(), "orders", ledger.watch(), options);
    consumer.start();
    producer.send("small");
    REQUIRE(test::eventually([&] { return consumer.metrics().stats.acked == 1; }));
    if (one.begins_with.empty()) {
      link.proxy.black_hole(true);
    } else {
      link.proxy.black_hole_from(one.begins_with);
      test::Redis(link.server.socket()).cmd({"SCRIPT", "FLUSH"});
      producer.send("small");
    }
    REQUIRE_MESSAGE(test::eventually([&] { return lines.find("no answer from ") != ""; }), lines.text());
    link.proxy.black_hole(false);
    REQUIRE_MESSAGE(test::eventually([&] { return lines.find("Redis answers again at ", Severity::info) != ""; }),
                    lines.text());
    const auto ms_after = [](const std::string& line, const std::string& text) {
      const std::size_t at = line.find(text);
      return at == std::string::npos ? -1 : std::stol(line.substr(at + text.size()));
    };
    const std::string silence = lines.find("no answer from "),
                      end = lines.find("Redis answers again at ", Severity::info);
    CHECK_MESSAGE(ms_after(silence, " for ") >= kSlowLinkTimeout.count(), lines.text());
    CHECK_MESSAGE(ms_after(end, "it failed for ") >= kSlowLinkTimeout.count(), lines.text());
    CHECK(consumer.stop());
  }
}

}  // namespace
}  // namespace delayqueue
