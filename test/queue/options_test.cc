#include "support/test.h"

namespace delayqueue {
namespace {

constexpr char kUrl[] = "redis://127.0.0.1:1";  // never reached: options are validated before anything is sent

template <class Options>
struct Bad {
  std::string field;
  std::string value;
  std::function<void(Options&)> set;
};

const std::vector<Bad<ClientOptions>> bad_connections = {
    {"connect_timeout", "0 ms", [](auto& o) { o.connect_timeout = 0ms; }},
    {"connect_timeout", "-5 ms", [](auto& o) { o.connect_timeout = -5ms; }},
    {"command_timeout", "0 ms", [](auto& o) { o.command_timeout = 0ms; }},
    {"command_timeout", "-1 ms", [](auto& o) { o.command_timeout = -1ms; }},
    {"client_name", "two words", [](auto& o) { o.client_name = "two words"; }},
    {"client_name", "line\\x0afeed", [](auto& o) { o.client_name = "line\nfeed"; }},
    {"keys.prefix", "empty", [](auto& o) { o.keys.prefix.clear(); }},
    {"keys.prefix", "a}b",
     [](auto& o) {
       o.keys.prefix = "a}b";
       o.keys.hash_tag = HashTag::on;
     }},
};

template <class Options, class Make>
void check_values_refused(const std::vector<Bad<Options>>& rows, Make make) {
  for (const auto& row : rows) {
    CAPTURE(row.field);
    CAPTURE(row.value);
    Options options;
    row.set(options);
    const std::string error = thrown([&] { make(options); });
    CAPTURE(error);
    CHECK(has(error, "invalid_argument: " + row.field));
    CHECK(has(error, row.value));
  }
}

TEST_CASE("options: a queue named like a partition is refused with its name") {
  for (const std::string name : {"orders#1.83", "#0.0"}) {
    for (const std::string& error : {thrown([&] { Producer(kUrl, name); }), thrown([&] { Inspector(kUrl, name); }),
                                     thrown([&] { QueueAdmin(kUrl, name); }),
                                     thrown([&] { Consumer(kUrl, name, [](const Message&) { return ack(); }); })}) {
      CHECK(error == "invalid_argument: queue: \"" + name +
                         "\"; expected a name that does not end in #<number>.<number>, as those of partitions do");
    }
  }
  CHECK(thrown([] { Producer(kUrl, "orders#1"); }) == "nothing");
}

// A name that is refused, and why.
const std::vector<std::pair<std::string, std::string>> bad_names = {
    {"", "empty; expected a name"},
    {std::string(256, 'n'), "of 256 bytes; expected a name of at most 255 bytes"},
    {std::string(157'973, 'n'), "of 157973 bytes; expected a name of at most 255 bytes"},
    {"orders\n", "\"orders\\x0a\"; expected a name without control characters; its byte 7 is one"},
    {std::string("mails\0", 6), "\"mails\\x00\"; expected a name without control characters; its byte 6 is one"},
    {"a\x7f", "its byte 2 is one"},
    {"\xc3\xa4\xc2\x85", "its byte 3 is one"},
    {"\x1b[2J", "its byte 1 is one"},
    {"raw\xff", "\"raw\\xff\"; expected a name in UTF-8; its byte 4 is no part of a character"},
    {"\xc3", "its byte 1 is no part of a character"},
    {"\xed\xa0\x80", "its byte 1 is no part of a character"},
    {"\xc0\xaf", "its byte 1 is no part of a character"},
    {"\xf4\x90\x80\x80", "its byte 1 is no part of a character"},
};

TEST_CASE("options: a Producer and a Consumer take names of 1 to 255 bytes of UTF-8 without control characters") {
  const Handler handler = [](const Message&) { return ack(); };
  for (const auto& bad : bad_names) {
    const std::string& name = bad.first;
    const std::string& why = bad.second;
    CAPTURE(name);
    const std::string error = thrown([&] { Producer(kUrl, name); });
    CHECK(has(error, "invalid_argument: queue: "));
    CHECK(has(error, why));
    CHECK(error.size() < 400);
    CHECK(thrown([&] { Consumer(kUrl, name, handler); }) == error);
    CHECK(thrown([&] { static_cast<void>(QueueName(name)); }) == error);
    CHECK(thrown([&] { Producer(kUrl, QueueName::of_existing(name)); }) == error);
    CHECK(thrown([&] { Inspector(kUrl, name); }) == error);
    CHECK(has(thrown([&] { Consumer(kUrl, {{"orders", handler}, {name, handler}}); }), why));
    CHECK(has(thrown([&] { Consumer(kUrl, QueueNames{"orders", name}, handler); }), why));
    ClientOptions options;
    options.keys.prefix = name;
    CHECK(has(thrown([&] { Producer({kUrl, options}, "q"); }), "invalid_argument: keys.prefix: "));
  }
  for (const std::string& name : {std::string(255, 'n'), std::string("a b"), std::string("\xc3\xa4\xf0\x9f\x98\x80"),
                                  std::string("a:b/c\"'{}*?#1")}) {
    CHECK(thrown([&] { Producer(kUrl, name); }) == "nothing");
    CHECK(thrown([&] { Consumer(kUrl, name, handler); }) == "nothing");
  }
}

TEST_CASE("options: the name of a queue that is a null pointer is refused") {
  const char* const none = nullptr;
  CHECK(thrown([&] { Producer(kUrl, none); }) == "invalid_argument: queue: null; expected a name");
  CHECK(thrown([&] { Consumer(kUrl, none, [](const Message&) { return ack(); }); }) ==
        "invalid_argument: queue: null; expected a name");
}

TEST_CASE("options: the names of several queues are those in braces, each one") {
  const auto read = [](const QueueNames& names) {
    std::string text;
    for (const QueueName& name : names) text += name.str() + ' ';
    return text;
  };
  const std::vector<std::string> several{"orders", "mails"};
  CHECK(read("orders") == "orders ");
  CHECK(read(several[1]) == "mails ");
  CHECK(read({"orders"}) == "orders ");
  CHECK(read({"orders", "mails"}) == "orders mails ");
  CHECK(read({{"orders", "mails"}}) == "orders mails ");
  CHECK(read({several[0], "sms"}) == "orders sms ");
  CHECK(read(several) == "orders mails ");
  CHECK(read({several}) == "orders mails ");
  CHECK(read({"orders", "mails", "sms"}) == "orders mails sms ");
  CHECK(read({}).empty());
  const auto handler = [](const Message&) { return ack(); };
  CHECK(thrown([&] { Consumer(kUrl, {}, handler); }) == "invalid_argument: queues: none; expected at least one");
  CHECK(has(thrown([&] { Consumer(kUrl, {"orders", "orders"}, handler); }), "queue \"orders\" twice"));
}

TEST_CASE("options: an Inspector and a QueueAdmin read queues with names that are refused now, and create none") {
  for (const auto& bad : bad_names) {
    const std::string& name = bad.first;
    const std::string& why = bad.second;
    if (name.empty()) continue;
    CAPTURE(name);
    const QueueName existing = QueueName::of_existing(name);
    CHECK(existing.str() == name);
    CHECK(thrown([&] { Inspector(kUrl, existing); }) == "nothing");
    QueueAdmin admin(kUrl, existing);
    CHECK(has(thrown([&] { static_cast<void>(admin.restore({})); }), why));
    CHECK(has(thrown([&] { admin.set_partitions(4); }), why));
  }
}

TEST_CASE("options: a Consumer refuses an invalid value with its name and value") {
  using O = ConsumerOptions;
  const std::vector<Bad<O>> rows = {
      {"concurrency", "0", [](O& o) { o.concurrency = 0; }},
      {"concurrency", "10001", [](O& o) { o.concurrency = 10'001; }},
      {"concurrency", "18446744073709551615", [](O& o) { o.concurrency = static_cast<std::size_t>(-1); }},
      {"tuning.threads", "3", [](O& o) { o.tuning.threads = 3; }},
      {"lease", "0 ms", [](O& o) { o.lease = 0ms; }},
      {"lease", "3 ms", [](O& o) { o.lease = 3ms; }},
      {"lease", "-1000 ms", [](O& o) { o.lease = -1s; }},
      {"tuning.poll_interval", "0 ms", [](O& o) { o.tuning.poll_interval = 0ms; }},
      {"tuning.poll_interval", "-1 ms", [](O& o) { o.tuning.poll_interval = -1ms; }},
      {"processing_timeout", "0 ms", [](O& o) { o.processing_timeout = 0ms; }},
      {"dead_retention", "-1 ms", [](O& o) { o.dead_retention = -1ms; }},
      {"dead_limit", "18446744073709551615", [](O& o) { o.dead_limit = static_cast<std::uint64_t>(-1); }},
      {"tuning.reconnect_grace", "-1 ms", [](O& o) { o.tuning.reconnect_grace = -1ms; }},
      {"tuning.prefetch", "1000001", [](O& o) { o.tuning.prefetch = 1'000'001; }},
      {"lease", "ms", [](O& o) { o.lease = milliseconds::max(); }},
      {"durability.replicas", "0", [](O& o) { o.durability = Durability::replicas(0); }},
      {"durability.replicas", "1001", [](O& o) { o.durability = Durability::replicas(1001); }},
      {"durability.timeout", "0 ms", [](O& o) { o.durability = Durability::disk(0ms); }},
      {"durability.timeout", "10001 ms", [](O& o) { o.durability = Durability::disk(10'001ms); }},
  };
  const auto make = [](const O& options) {
    Consumer(
        kUrl, "q", [](const Message&) { return ack(); }, options);
  };
  check_values_refused(rows, make);
  const std::string none = "invalid_argument: handler: none; expected a function";
  CHECK(thrown([] { Consumer(kUrl, "q", std::function<Verdict(const Message&)>()); }) == none);
  CHECK(thrown([] { Consumer(kUrl, "q", static_cast<Verdict (*)(const Message&)>(nullptr)); }) == none);
  CHECK(has(thrown([] { Consumer(kUrl, "", [](const Message&) { return ack(); }); }), "invalid_argument: queue"));
}

TEST_CASE("options: with a handler of a Delivery, up to a million deliveries and 10,000 threads") {
  const auto refusal = [](std::size_t concurrency, std::size_t threads) {
    ConsumerOptions options;
    options.concurrency = concurrency;
    options.tuning.threads = threads;
    return thrown([&] {
      Consumer(
          kUrl, "q", [](Delivery) {}, options);
    });
  };
  CHECK(refusal(1'000'000, 10'000) == "nothing");
  CHECK(refusal(1, 2) == "nothing");
  CHECK(has(refusal(1'000'001, 0), "concurrency: 1000001; expected 1 to 1000000"));
  CHECK(has(refusal(1, 10'001), "tuning.threads: 10001; expected 0 to 10000"));
  CHECK(has(thrown([] { Consumer(kUrl, "q", std::function<void(Delivery)>()); }), "invalid_argument: handler"));
}

TEST_CASE("options: a Producer refuses an invalid value with its name and value") {
  using O = ProducerOptions;
  const std::vector<Bad<O>> rows = {
      {"retries", "-1", [](O& o) { o.retries = -1; }},
      {"tuning.busy_wait", "-1 us", [](O& o) { o.tuning.busy_wait = -1us; }},
      {"tuning.busy_wait", "1001 us", [](O& o) { o.tuning.busy_wait = 1001us; }},
      {"max_payload", "536870913", [](O& o) { o.max_payload = 512ULL * 1024 * 1024 + 1; }},
  };
  const auto make = [](const O& options) { Producer(kUrl, "q", options); };
  check_values_refused(rows, make);
  CHECK(has(thrown([] { Producer(kUrl, ""); }), "invalid_argument: queue"));
}

TEST_CASE("options: a Client refuses an invalid value with its name and value") {
  check_values_refused(bad_connections, [&](const ClientOptions& options) { Client(kUrl, options); });
  const Client client(kUrl);
  KeyOptions keys;
  keys.prefix.clear();
  CHECK(has(thrown([&] { static_cast<void>(client.with_keys(keys)); }), "invalid_argument: keys.prefix: empty"));
}

TEST_CASE("options: an Inspector and a QueueAdmin refuse an empty name") {
  CHECK(has(thrown([] { Inspector(kUrl, ""); }), "invalid_argument: queue"));
  CHECK(has(thrown([] { QueueAdmin(kUrl, ""); }), "invalid_argument: queue"));
}

TEST_CASE("options: each class refuses a malformed URL, without its password in the error") {
  const std::string urls[] = {"",
                              "nonsense",
                              "http://h",
                              "redis://h:0",
                              "redis://h:99999",
                              "redis://h/x",
                              "redis://:hunter2@h:port",
                              "unix://",
                              "redis://user:hunter2@h/-1"};
  for (const std::string& url : urls) {
    CAPTURE(url);
    const std::string errors[] = {
        thrown([&] { Producer(url, "q"); }),
        thrown([&] { Consumer(url, "q", [](const Message&) { return ack(); }); }),
        thrown([&] { Inspector(url, "q"); }),
        thrown([&] { QueueAdmin(url, "q"); }),
    };
    for (const std::string& error : errors) {
      CAPTURE(error);
      CHECK(has(error, "invalid_argument: "));
      CHECK(!has(error, "hunter2"));
    }
  }
}

TEST_CASE("options: a client certificate without its key is refused by the first call, before anything is sent") {
  ClientOptions connection;
  connection.tls.cert_file = "/some/cert.pem";
  const Client client("rediss://127.0.0.1:1", connection);
  Producer producer(client, "q");
  CHECK(has(thrown([&] { producer.send("x"); }), "invalid_argument: tls.key_file"));
  Consumer consumer(client, "q", [](const Message&) { return ack(); });
  CHECK(has(thrown([&] { consumer.start(); }), "invalid_argument: tls.key_file"));
}

TEST_CASE("options: Sentinel options are refused where there is no Sentinel, and TLS options where it has no TLS") {
  const auto refusal = [](const std::string& url, const SentinelOptions& sentinel) {
    ClientOptions options;
    options.sentinel = sentinel;
    return thrown([&] { Inspector({url, options}, "q"); });
  };
  SentinelOptions user, password, encrypted, tls, plain;
  user.user = "u";
  password.password = "hunter2";
  encrypted.encrypted = false;
  tls.tls = TlsOptions{};
  plain.tls = TlsOptions{};
  plain.encrypted = false;
  const std::pair<std::string, SentinelOptions> rows[] = {
      {"user", user}, {"password", password}, {"encrypted", encrypted}, {"tls", tls}};
  for (const auto& [field, sentinel] : rows) {
    for (const char* url :
         {"redis://h", "rediss://h", "unix:/s", "embedded:", "redis+cluster://a", "rediss+cluster://a"}) {
      CAPTURE(url);
      const std::string error = refusal(url, sentinel);
      CHECK(has(error, "invalid_argument: sentinel." + field + ": set, but "));
      CHECK(has(error, "expected redis+sentinel://"));
      CHECK(!has(error, "hunter2"));
    }
  }
  const std::string without = "has Sentinels without encryption";
  CHECK(has(refusal("redis+sentinel://a/m", tls), "invalid_argument: sentinel.tls: set, but "));
  CHECK(has(refusal("redis+sentinel://a/m", tls), without));
  CHECK(has(refusal("rediss+sentinel://a/m", plain), without));
  plain.encrypted = true;
  CHECK(!has(refusal("redis+sentinel://a/m", plain), without));
  CHECK(!has(refusal("rediss+sentinel://a/m", tls), "invalid_argument: sentinel"));
  CHECK(!has(refusal("redis+sentinel://a/m", password), "invalid_argument: sentinel"));
}

TEST_CASE("options: the defaults are the documented ones") {
  const ConsumerOptions consumer;
  CHECK(consumer.concurrency == ConsumerOptions::hardware_concurrency());
  CHECK(ConsumerOptions::hardware_concurrency() >= 1);
  CHECK(consumer.lease == 30s);
  CHECK(consumer.tuning.poll_interval == 1s);
  CHECK(consumer.processing_timeout == 30min);
  CHECK(consumer.dead_retention == 7 * 24h);
  CHECK(consumer.dead_limit == 0);
  CHECK(consumer.tuning.prefetch == 1000);
  CHECK(consumer.durability.kind() == Durability::Kind::none);
  CHECK(!KeyOptions().go.report_events);
  CHECK(consumer.backoff(1) > 799ms);
  CHECK(consumer.backoff(1) <= 1s);
  CHECK(consumer.backoff(1000) > 479s);
  CHECK(consumer.backoff(1000) <= 10min);
  CHECK(Durability::replicas(2).kind() == Durability::Kind::replicas);
  CHECK(Durability::replicas(2).replica_count() == 2);
  CHECK(Durability::replicas(2).timeout() == 1s);
  CHECK(Durability::disk().kind() == Durability::Kind::disk);
  CHECK(Durability::disk().timeout() == 2s);
  const ClientOptions client_options;
  ProducerOptions producer;
  CHECK(producer.retries == 3);
  CHECK(producer.max_payload == 1024 * 1024);
  CHECK(producer.tuning.busy_wait == 60us);
  CHECK(client_options.keys.prefix == "dp");
  CHECK(client_options.connect_timeout == 2s);
  CHECK(client_options.command_timeout == 3s);
  const SendOptions send;
  CHECK(send.delay == 0ms);
  CHECK(!send.at);
  CHECK(!send.ttl);
  CHECK(ListOptions().limit == 20);
  CHECK(!PauseOptions().duration);
  CHECK(BuryOptions().held == HeldMessages::skip);
  CHECK(RedriveOptions().retries == 3);
}

TEST_CASE("backoff: fixed returns the same delay for every attempt") {
  const Backoff backoff = Backoff::fixed(250ms);
  for (const int attempt : {1, 2, 7, 1000}) CHECK(backoff(attempt) == 250ms);
  CHECK(Backoff::fixed(0ms)(1) == 0ms);
  CHECK(has(thrown([] { Backoff::fixed(-1ms); }), "invalid_argument: Backoff::fixed: wait: -1 ms"));
}

TEST_CASE("backoff: exponential doubles up to its limit") {
  const Backoff backoff = Backoff::exponential(100ms, 1s, 0);
  const milliseconds expected[] = {100ms, 200ms, 400ms, 800ms, 1000ms, 1000ms};
  for (int attempt = 1; attempt <= 6; ++attempt) CHECK(backoff(attempt) == expected[attempt - 1]);
  for (const int attempt : {63, 64, 65, 1000, std::numeric_limits<int>::max()}) CHECK(backoff(attempt) == 1000ms);
  for (const int attempt : {0, -1}) CHECK(backoff(attempt) == 100ms);
  CHECK(Backoff::exponential(5ms, 5ms, 0)(9) == 5ms);
}

TEST_CASE("backoff: jitter shortens the delay by a random part up to its limit") {
  const Backoff backoff = Backoff::exponential(1000ms, 10min, 0.5);
  std::set<milliseconds> seen;
  for (int i = 0; i < 200; ++i) {
    const milliseconds wait = backoff(2);
    CHECK(wait >= 1000ms);
    CHECK(wait <= 2000ms);
    seen.insert(wait);
  }
  CHECK(seen.size() > 20);
  const Backoff whole = Backoff::exponential(1000ms, 10min, 1);
  for (int i = 0; i < 200; ++i) CHECK(whole(1) >= 0ms);
}

TEST_CASE("backoff: any function of the number of the failed delivery is one") {
  const auto squared = [](int attempt) { return milliseconds(attempt * attempt); };
  auto options = with(&ConsumerOptions::backoff, squared);
  CHECK(options.backoff(3) == 9ms);
  options.backoff = Backoff::fixed(5ms);
  CHECK(options.backoff(3) == 5ms);
}

TEST_CASE("backoff: an invalid value throws with its name and value") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(has(thrown([] { Backoff::exponential(0ms, 1s); }), "invalid_argument: Backoff::exponential: first: 0 ms"));
  CHECK(has(thrown([] { Backoff::exponential(-1ms, 1s); }), "invalid_argument: Backoff::exponential: first: -1 ms"));
  CHECK(has(thrown([] { Backoff::exponential(2s, 1s); }), "invalid_argument: Backoff::exponential: most: 1000 ms"));
  CHECK(
      has(thrown([] { Backoff::exponential(1s, 2s, -0.1); }), "invalid_argument: Backoff::exponential: jitter: -0.1"));
  CHECK(has(thrown([] { Backoff::exponential(1s, 2s, 1.5); }), "invalid_argument: Backoff::exponential: jitter: 1.5"));
  CHECK(has(thrown([nan] { Backoff::exponential(1s, 2s, nan); }), "invalid_argument: Backoff::exponential: jitter: "));
}

}  // namespace
}  // namespace delayqueue
