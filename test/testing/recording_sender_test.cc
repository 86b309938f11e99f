// RecordingSender: what code that sends is tested with, without Redis.
#include "support/test.h"

#include <delayqueue/testing.h>

#include "store/headers.h"

namespace delayqueue {
namespace {

using test::named;
using testing::RecordingSender;

using Strings = std::vector<std::string>;

Strings payloads_of(const RecordingSender& sender) {
  Strings payloads;
  for (const OutgoingMessage& message : sender.sent()) payloads.push_back(message.payload);
  return payloads;
}

SendOptions keyed(const std::string& key, OnConflict on_conflict = OnConflict::keep, milliseconds delay = 0ms) {
  SendOptions options;
  options.unique.key = key;
  options.unique.on_conflict = on_conflict;
  options.delay = delay;
  return options;
}

TEST_CASE("sandbox R45: RecordingSender refuses what a Producer refuses, with the same texts") {
  ProducerOptions options;
  options.max_payload = 10;
  Producer producer("unix:///no/server/here", "orders", options);
  RecordingSender recorder(options);

  const auto sent_with = [](const std::function<void(SendOptions&)>& change) {
    return [change](Sender& sender) {
      SendOptions bad;
      change(bad);
      static_cast<void>(sender.send("x", bad));
    };
  };
  const std::function<void(Sender&)> refused[] = {
      [](Sender& sender) { sender.send("12345678901"); },
      [](Sender& sender) {
        sender.send_batch({{"x", {}}, {"12345678901", {}}});
      },
      [](Sender& sender) {
        sender.send_batch({"x", "12345678901"});
      },
      [](Sender& sender) { static_cast<void>(sender.send_async("12345678901")); },
      [](Sender& sender) { sender.send_async("x", {}, SendCallback()); },
      [](Sender& sender) { sender.send_batch({"x"}, named(kId)); },
      [](Sender& sender) { sender.send_batch({"x"}, keyed("k\n")); },
      sent_with([](SendOptions& bad) { bad.delay = -1ms; }),
      sent_with([](SendOptions& bad) { bad.delay = 24h * 365 * 101; }),
      sent_with([](SendOptions& bad) { bad.at = std::chrono::system_clock::time_point(-1s); }),
      sent_with([](SendOptions& bad) {
        bad.delay = 1s;
        bad.at = std::chrono::system_clock::time_point(1s);
      }),
      sent_with([](SendOptions& bad) { bad.retries = -1; }),
      sent_with([](SendOptions& bad) { bad.ttl = 0ms; }),
      sent_with([](SendOptions& bad) { bad.id = "order 42"; }),
      sent_with([](SendOptions& bad) { bad.unique.key = std::string(129, 'k'); }),
      sent_with([](SendOptions& bad) { bad.unique.window = 1s; }),
      sent_with([](SendOptions& bad) { bad = keyed("k", OnConflict::replace), bad.unique.window = 1s; }),
      sent_with([](SendOptions& bad) { bad = keyed("k"), bad.unique.max_wait = 1s; }),
      sent_with([](SendOptions& bad) {
        bad.headers = *store::unpacked(
            "\x04"
            "dq-x\x01v");
      }),
      [](Sender& sender) { static_cast<void>(sender.cancel("order 42")); },
      [](Sender& sender) { static_cast<void>(sender.cancel("")); },
      [](Sender& sender) { static_cast<void>(sender.cancel(Key(""))); },
      [](Sender& sender) { static_cast<void>(sender.reschedule("order 42", {})); },
      [](Sender& sender) { static_cast<void>(sender.reschedule(Key(std::string(129, 'k')), {})); },
      [](Sender& sender) {
        static_cast<void>(sender.reschedule(kId, with(&RescheduleOptions::delay, milliseconds(-1))));
      },
  };
  for (const auto& call : refused) {
    CAPTURE(&call - refused);
    const std::string expected = thrown([&] { call(producer); });
    CHECK(expected.rfind("invalid_argument: ", 0) == 0);
    CHECK(thrown([&] { call(recorder); }) == expected);
  }
  CHECK(recorder.sent().empty());

  options.retries = -1;
  CHECK(thrown([&] { const RecordingSender bad(options); }) ==
        thrown([&] { const Producer bad("redis://localhost", "orders", options); }));
}

TEST_CASE("sandbox R45: RecordingSender makes UUIDv7 ids, and stores no second message with an id that it has") {
  RecordingSender sender;
  const Sent made = sender.send("a");
  CHECK(made.created());
  CHECK(make_message("", with(&MessageFields::id, made.id)).sent_at().has_value());
  std::string upper = kId;
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  CHECK(sender.send("b", named(upper)).result == SendResult::created);
  CHECK(sender.send("c", named(kId)).result == SendResult::existed);
  CHECK((payloads_of(sender) == Strings{"a", "b"}));
  CHECK(sender.sent()[0].options.id == made.id);
  CHECK(sender.sent()[1].options.id == kId);

  CHECK(sender.cancel(upper) == State::ready);
  CHECK(sender.cancel(kId) == State::unknown);
  CHECK(sender.send("d", named(kId, 1h)).created());
  CHECK((payloads_of(sender) == Strings{"a", "b", "d"}));
  CHECK(sender.cancel(kId) == State::pending);
  CHECK((sender.cancelled() == Strings{kId, kId}));
}

TEST_CASE("sandbox R45: RecordingSender records all options, and what a reschedule changes") {
  RecordingSender sender;
  SendOptions options;
  options.delay = 15min;
  options.retries = 5;
  options.ttl = 1h;
  options.headers = {{"tenant", "7"}};
  const std::string id = sender.send("order 42", options).id;
  const OutgoingMessage message = sender.sent().front();
  CHECK(message.payload == "order 42");
  CHECK(message.options.delay == 15min);
  CHECK(message.options.retries == 5);
  CHECK(message.options.ttl == 1h);
  CHECK(*message.options.headers.find("tenant") == "7");
  CHECK(sender.reschedule(id, with(&RescheduleOptions::delay, 20min)) == Outcome::done);
  CHECK(sender.sent().front().options.delay == 20min);
  CHECK(sender.reschedule(kId, {}) == Outcome::unknown);
}

TEST_CASE("sandbox R45: RecordingSender keeps one message with a unique key, as OnConflict says") {
  RecordingSender sender;
  const std::string first = sender.send("1", keyed("k", OnConflict::keep, 1min)).id;
  const Sent kept = sender.send("2", keyed("k"));
  CHECK((kept.id == first && kept.result == SendResult::kept));
  CHECK((payloads_of(sender) == Strings{"1"}));
  CHECK(sender.send("3", keyed("k", OnConflict::replace)).result == SendResult::replaced);
  CHECK((payloads_of(sender) == Strings{"3"}));
  CHECK(sender.sent().front().options.delay == 1min);
  CHECK(sender.send("4", keyed("k", OnConflict::postpone, 2min)).id == first);
  CHECK((payloads_of(sender) == Strings{"4"}));
  CHECK(sender.sent().front().options.delay == 2min);
  CHECK(sender.reschedule(Key("k"), {}) == Outcome::done);
  CHECK(sender.cancel(Key("k")) == State::ready);
  CHECK(sender.cancel(Key("k")) == State::unknown);
  CHECK(sender.send("5", keyed("k")).created());
}

TEST_CASE("sandbox R45: RecordingSender::fail_next() fails the next call only, with the ids of its messages") {
  RecordingSender sender;
  sender.fail_next(ConnectionError("Redis is away", {}, true));
  try {
    sender.send_batch({{"a", named(kId)}, {"b", {}}});
    FAIL("no error");
  } catch (const ConnectionError& e) {
    CHECK(e.what() == std::string("Redis is away"));
    CHECK(e.ids().size() == 2);
    CHECK(e.ids().front() == kId);
    CHECK(e.not_sent());
  }
  CHECK(sender.sent().empty());
  CHECK(sender.send("c").created());

  sender.fail_next(QueueFull("full"));
  sender.fail_next(std::runtime_error("the second call"));
  sender.fail_next(ConnectionError("the third call"));
  const AsyncSent full = [&] {
    std::promise<AsyncSent> result;
    sender.send_async("d", {}, [&](const AsyncSent& one) { result.set_value(one); });
    return result.get_future().get();
  }();
  CHECK_THROWS_AS(full.get(), QueueFull);
  CHECK(thrown([&] { static_cast<void>(sender.cancel(kId)); }).find("the second call") != std::string::npos);
  CHECK_THROWS_AS(static_cast<void>(sender.reschedule(kId, {})), ConnectionError);
  CHECK((payloads_of(sender) == Strings{"c"}));
}

TEST_CASE("sandbox R45: RecordingSender calls `done` in order, in another thread, and flush() waits for it") {
  Strings done;
  bool in_callback = true;
  {
    RecordingSender sender(with(&ProducerOptions::logger, no_log()));
    const auto caller = std::this_thread::get_id();
    for (const char* payload : {"a", "b", "c"}) {
      sender.send_async(payload, {}, [&, payload](const AsyncSent& result) {
        CHECK(std::this_thread::get_id() != caller);
        in_callback = in_callback && !sender.flush(1h);
        if (result) done.emplace_back(payload);
        throw std::runtime_error("logged");
      });
    }
    CHECK(sender.flush(kPatience));
    CHECK((done == Strings{"a", "b", "c"}));
    sender.send_async("d", {}, [&](const AsyncSent&) { done.emplace_back("d"); });
  }
  CHECK(done.back() == "d");  // the destructor waits
  CHECK(in_callback);
}

TEST_CASE("sandbox R45: RecordingSender calls before_send once for each message, and records what that made of it") {
  ProducerOptions options;
  options.before_send = [](OutgoingMessage& message) { message.options.headers.set("trace", message.payload); };
  RecordingSender sender(options);
  sender.send("a");
  sender.send_batch({"b", "c"});
  sender.send_async("d").get();
  REQUIRE(sender.sent().size() == 4);
  for (const OutgoingMessage& message : sender.sent()) CHECK(*message.options.headers.find("trace") == message.payload);
}

}  // namespace
}  // namespace delayqueue
