// Inspector::list: pages, their order, and walks over thousands of messages.
#include "support/test.h"

#include "support/scripted_server.h"

namespace delayqueue {
namespace {

struct Walk {
  std::vector<std::string> payloads;
  std::vector<std::size_t> sizes;
};

Walk walk(Queue& queue, State state, std::size_t limit) {
  Walk result;
  auto options = with(&ListOptions::limit, limit);
  for (int pages = 0; pages < 10'000; ++pages) {
    const MessagePage page = queue.inspector.list(state, options);
    for (const MessageInfo& one : page) result.payloads.push_back(one.payload);
    result.sizes.push_back(page.size());
    if (page.next.empty()) return result;
    options.cursor = page.next;
  }
  FAIL("the walk never ends");
  return result;
}

TEST_CASE("list: an empty state is one empty page") {
  Queue queue;
  for (const State state : {State::pending, State::ready, State::unack, State::retry, State::dead}) {
    const MessagePage page = queue.inspector.list(state);
    CHECK(page.empty());
    CHECK(page.next.empty());
  }
}

TEST_CASE("list: returns 2,500 dead letters once each, oldest first, with pages of any size") {
  Queue queue;
  const std::vector<std::string> payloads = numbers(2500);
  queue.producer.send_batch(payloads);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch([](const Message&) { return reject("no"); }));
  consumer->start();
  REQUIRE(ledger.settles(2500));
  REQUIRE(consumer->stop());
  for (const std::size_t limit : {1000U, 999U, 250U, 201U, 200U, 199U, 64U}) {
    CAPTURE(limit);
    const Walk seen = walk(queue, State::dead, limit);
    CHECK(seen.payloads.size() == 2500);
    const std::set<std::string> different(seen.payloads.begin(), seen.payloads.end());
    CHECK(different.size() == 2500);
    CHECK(std::all_of(seen.sizes.begin(), seen.sizes.end() - 1, [&](std::size_t size) { return size == limit; }));
  }
  const MessagePage first = queue.inspector.list(State::dead);
  CHECK(first.size() == 20);
  CHECK(std::is_sorted(first.begin(), first.end(), [](const auto& a, const auto& b) { return a.at < b.at; }));
}

TEST_CASE("list: returns ready messages in the order of delivery, without ids that are only hints") {
  Queue queue;
  const std::vector<Sent> sent = queue.producer.send_batch(numbers(2500));
  std::vector<std::string> expected;
  const auto when = with(&RescheduleOptions::delay, 1h);
  for (std::size_t i = 0; i < sent.size(); ++i) {
    if (i >= 600 && i < 1300) {  // several pages of hints only
      CHECK(queue.producer.reschedule(sent[i].id, when) == Outcome::done);
    } else if (i % 3 == 0) {
      CHECK(queue.producer.cancel(sent[i].id) == State::ready);
    } else {
      expected.push_back(std::to_string(i));
    }
  }
  CHECK(queue.inspector.counts().ready == 2500);  // an upper bound
  for (const std::size_t limit : {1000U, 200U, 37U}) {
    CAPTURE(limit);
    const Walk seen = walk(queue, State::ready, limit);
    CHECK((seen.payloads == expected));
  }
  CHECK(walk(queue, State::pending, 1000).payloads.size() == 700);
  Ledger ledger;
  const auto consumer = queue.consumer(ledger.watch());
  consumer->start();
  REQUIRE(ledger.settles(expected.size()));
  CHECK((ledger.payloads() == expected));
}

TEST_CASE("list: sorts pending messages by due time, and unack by the end of lease or backoff") {
  Queue queue;
  for (const int hours : {3, 1, 2}) {
    queue.send(std::to_string(hours), delayed(std::chrono::hours(hours)));
  }
  CHECK(walk(queue, State::pending, 2).payloads == std::vector<std::string>{"1", "2", "3"});
  Queue other;
  other.producer.send_batch(numbers(5));
  Ledger ledger;
  const auto consumer = other.consumer(ledger.watch(
      [](const Message& message) { return nack(std::chrono::hours(9 - std::stoi(message.payload())), "r"); }));
  consumer->start();
  REQUIRE(ledger.settles(5));
  REQUIRE(consumer->stop());
  CHECK(walk(other, State::unack, 2).payloads == std::vector<std::string>{"4", "3", "2", "1", "0"});
  for (const MessageInfo& one : other.inspector.list(State::unack)) {
    CHECK(!one.held);
    CHECK(one.reason == "r");
    CHECK(one.deliveries == 1);
  }
}

TEST_CASE("list: returns as much of each payload as the options ask for, and its full size") {
  Queue queue;
  queue.send(std::string(100'000, 'x'));
  ListOptions options;
  for (const std::size_t bytes : {0U, 1U, 64U, 100'000U, 200'000U}) {
    options.payload = bytes;
    const MessagePage page = queue.inspector.list(State::ready, options);
    REQUIRE(page.size() == 1);
    CHECK(page.messages[0].payload.size() == std::min<std::size_t>(bytes, 100'000));
    CHECK(page.messages[0].size == 100'000);
  }
  CHECK(queue.inspector.list(State::ready).messages[0].payload.size() == 64);
}

TEST_CASE("list: a server that claims to have read messages, and has none, ends no program") {
  const test::ScriptedServer server([](const std::vector<std::string>& words) -> std::string {
    if (words[0] == "HELLO") return test::hello();
    if (words[0] == "EXISTS") return ":0\r\n";
    if (words[0] != "EVALSHA") return test::array(std::vector<std::string>(words.size() - 2, "$-1\r\n"));
    return test::array({":1000\r\n"});
  });
  for (const bool merge : {true, false}) {
    ListOptions options;
    options.merge = merge;
    CHECK(Inspector("redis://" + server.host(), "q").list(State::dead, options).empty());
  }
}

TEST_CASE("list: bodies are left out on request") {
  Queue queue;
  SendOptions with_header;
  with_header.headers.set("a", "b");
  queue.producer.send("payload", with_header);
  const MessagePage page = queue.inspector.list(State::ready, with(&ListOptions::bodies, false));
  REQUIRE(page.size() == 1);
  CHECK(!page.messages[0].size);
  CHECK(page.messages[0].payload.empty());
  CHECK(page.messages[0].headers.empty());
  CHECK(page.messages[0].retries == 3);
}

TEST_CASE("list: a message without a body has no size") {
  Queue queue;
  const std::string id = queue.send("x");
  queue.send("");
  test::redis().cmd({"DEL", queue.base + ":msg:" + id});
  const MessagePage page = queue.inspector.list(State::ready);
  REQUIRE(page.size() == 2);
  CHECK(!page.messages[0].size);
  CHECK(page.messages[1].size == 0);
}

TEST_CASE("list: the newest messages come first on request, in every state") {
  Queue queue;
  std::vector<OutgoingMessage> later(250);
  for (std::size_t i = 0; i < later.size(); ++i) {
    later[i].payload = std::to_string(i);
    later[i].options.delay = 1h + milliseconds(i);
  }
  queue.producer.send_batch(later);
  queue.producer.send_batch(numbers(250));
  std::vector<std::string> ready;
  for (int i = 249; i >= 0; --i) ready.push_back(std::to_string(i));
  for (const State state : {State::pending, State::ready}) {
    for (const std::size_t limit : {1U, 7U, 1000U}) {
      CAPTURE(limit);
      ListOptions options;
      options.limit = limit;
      options.newest = true;
      std::vector<std::string> seen;
      do {
        const MessagePage page = queue.inspector.list(state, options);
        for (const MessageInfo& message : page) seen.push_back(message.payload);
        options.cursor = page.next;
      } while (!options.cursor.empty());
      CHECK(seen == ready);
    }
  }
}

TEST_CASE("list: a page of pending, unack or dead begins where the one before ended, also when messages have left") {
  Queue queue;
  std::vector<std::string> ids;
  for (const Sent& sent : queue.producer.send_batch(numbers(300))) ids.push_back(sent.id);
  CHECK(queue.admin.bury(ids) == std::vector<Outcome>(ids.size(), Outcome::done));
  for (const bool newest : {false, true}) {
    ListOptions options;
    options.limit = 70;
    options.newest = newest;
    std::vector<std::string> seen;
    do {
      const MessagePage page = queue.inspector.list(State::dead, options);
      std::vector<std::string> gone;
      for (const MessageInfo& message : page) {
        seen.push_back(message.id);
        if (newest) gone.push_back(message.id);
      }
      CHECK(page.next_after(gone.size()) == page.next);
      CHECK(queue.admin.purge_ids(State::dead, gone).messages == gone.size());
      options.cursor = page.next;
    } while (!options.cursor.empty());
    CHECK(seen.size() == ids.size());
    CHECK(std::set<std::string>(seen.begin(), seen.end()).size() == seen.size());
  }
}

TEST_CASE("list: a cursor past the end returns an empty last page") {
  Queue queue;
  queue.producer.send_batch(numbers(3));
  auto options = with(&ListOptions::limit, 2);
  options.cursor = queue.inspector.list(State::ready, options).next;
  REQUIRE(!options.cursor.empty());
  CHECK(queue.inspector.list(State::ready, options).size() == 1);
  CHECK(queue.admin.purge(State::ready) == 3);
  const MessagePage page = queue.inspector.list(State::ready, options);
  CHECK(page.empty());
  CHECK(page.next.empty());
}

TEST_CASE("list: a cursor of another state and a made-up cursor throw invalid_argument") {
  Queue queue;
  queue.producer.send_batch(numbers(3));
  const auto error = [&](State state, const std::string& cursor) {
    const auto options = with(&ListOptions::cursor, cursor);
    return thrown([&] { return queue.inspector.list(state, options); });
  };
  const std::string next = queue.inspector.list(State::ready, with(&ListOptions::limit, 1)).next;
  REQUIRE(!next.empty());
  CHECK(error(State::ready, next) == "nothing");
  for (const State state : {State::pending, State::unack, State::retry, State::dead}) {
    CAPTURE(to_string(state));
    const std::string text = error(state, next);
    CHECK_MESSAGE(text.rfind("invalid_argument: cursor: ", 0) == 0, text);
  }
  for (const std::string& made_up : {std::string("x"), std::string("20"), std::string("-1"), std::string("ready"),
                                     next + 'x', next + ' ', ' ' + next}) {
    CAPTURE(made_up);
    const std::string text = error(State::ready, made_up);
    CHECK_MESSAGE(text.rfind("invalid_argument: cursor: ", 0) == 0, text);
  }
}

}  // namespace
}  // namespace delayqueue
