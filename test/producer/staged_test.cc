// Large payloads: with a new id MSETNX stores the body, in one transaction with the script; with the caller's id SET
// stores it under a key with a TTL, which the script renames to the body.
#include "support/test.h"

#include "store/moves.h"
#include "store/record.h"
#include "support/answers.h"
#include "support/proxy.h"

namespace delayqueue {
namespace {

using test::FaultProxy;
using test::World;

const std::string kLarge(2 * store::kStagedBytes, 'x');

std::size_t keys(const Queue& queue, const std::string& kind, Redis& on) {
  return on.cmd({"KEYS", queue.base + ":" + kind + ":*"}).array.size();
}

// Staged payloads that no script has taken. Each must have a TTL.
std::size_t left_staged(const Queue& queue, Redis& on) {
  const auto names = on.cmd({"KEYS", queue.base + ":staged:*"}).strings();
  for (const std::string& name : names) CHECK(on.cmd({"PTTL", name}).integer > 0);
  return names.size();
}

bool is_clean(Queue& queue) { return queue.admin.check(with(&CheckOptions::recheck_after, 0ms)).clean(); }

TEST_CASE("large payloads: no send passes them through Lua, be it the first of a connection or with a caller's id") {
  World world;
  Queue queue(world.url());
  const auto through_lua = [&] { return test::info("commandstats", "cmdstat_mset", world.admin); };
  const Sent sent = queue.producer.send(kLarge);
  CHECK(sent.created());
  auto own = with(&SendOptions::id, store::new_ids(1).front());
  CHECK(queue.producer.send(kLarge, own).created());
  CHECK_FALSE(queue.producer.send(kLarge, own).created());
  CHECK(queue.producer.send_batch(std::vector<std::string>(500, kLarge)).size() == 500);
  CHECK(through_lua() == "");
  CHECK(queue.producer.send("small", own = {}).created());
  CHECK(through_lua() != "");
  CHECK(queue.inspector.find(sent.id)->payload == kLarge);
  CHECK(queue.inspector.counts().ready == 503);
  CHECK(left_staged(queue, world.admin) == 0);
  CHECK(is_clean(queue));
}

TEST_CASE("large payloads: they arrive as they were sent, byte for byte, and expire with their TTL") {
  Queue queue;
  Producer producer(queue.url, queue.name, with(&ProducerOptions::max_payload, 4 * 1024 * 1024));
  std::string payload(3 * 1024 * 1024, 'x');
  for (std::size_t i = 0; i < payload.size(); i += 7) payload[i] = static_cast<char>(i);
  const std::string lines = std::string(kLarge) + "\r\n" + std::string(3, '\0') + "$5\r\n";
  const std::vector<Sent> sent = producer.send_batch(
      {OutgoingMessage{payload, {}}, OutgoingMessage{lines, with(&SendOptions::ttl, 1h)}, OutgoingMessage{"x", {}}});
  CHECK((queue.inspector.find(sent[0].id)->payload == payload));
  CHECK((queue.inspector.find(sent[1].id)->payload == lines));
  CHECK(test::redis().cmd({"PTTL", queue.base + ":msg:" + sent[0].id}) == -1);
  CHECK(test::redis().cmd({"PTTL", queue.base + ":msg:" + sent[1].id}).integer > 3'500'000);
}

TEST_CASE("large payloads: when the answer or the request is lost, a repeated send makes one message") {
  World world;
  FaultProxy proxy(world.server.socket());
  enum Fault { reply_lost, reply_cut, request_lost };
  for (const Fault fault : {reply_lost, reply_cut, request_lost}) {
    CAPTURE(fault);
    Queue queue(proxy.url(), one_attempt());
    CHECK(queue.producer.send(kLarge).created());
    if (fault == reply_lost) proxy.drop_replies(1);
    if (fault == reply_cut) proxy.truncate_replies(1);
    if (fault == request_lost) proxy.drop_commands(1);
    SendOptions again;
    try {
      queue.producer.send(kLarge);
    } catch (const ConnectionError& e) {
      REQUIRE(e.ids().size() == 1);
      again.id = e.ids().front();
    }
    REQUIRE(!again.id.empty());
    queue.producer.send(kLarge, again);
    CHECK_FALSE(queue.producer.send(kLarge, again).created());
    CHECK(queue.inspector.counts().ready == 2);
    CHECK(queue.inspector.counts().totals.sent == 2);
    CHECK(keys(queue, "msg", world.admin) == 2);
    CHECK(left_staged(queue, world.admin) <= 1);
    CHECK(is_clean(queue));
  }
}

TEST_CASE("large payloads: when the payload arrived and its script call did not, there is no message and no body") {
  World world;
  FaultProxy proxy(world.server.socket());
  for (const bool own_id : {false, true}) {
    CAPTURE(own_id);
    Queue queue(proxy.url(), one_attempt());
    CHECK(queue.producer.send(kLarge).created());
    proxy.cut_commands_after(kLarge.size() + 250);  // MSETNX and SET are shorter, and the script call ends after that
    SendOptions again;
    if (own_id) again.id = store::new_ids(1).front();
    try {
      queue.producer.send(kLarge, again);
    } catch (const ConnectionError& e) {
      REQUIRE(e.ids().size() == 1);
      again.id = e.ids().front();
    }
    REQUIRE(!again.id.empty());
    CHECK(test::eventually([&] { return proxy.counts().truncated == (own_id ? 2 : 1); }, test::kPatience));
    CHECK(test::eventually([&] { return left_staged(queue, world.admin) == (own_id ? 1 : 0); }, test::kPatience));
    CHECK(keys(queue, "msg", world.admin) == 1);
    CHECK(queue.inspector.counts().ready == 1);
    CHECK(queue.producer.send(kLarge, again).created());
    CHECK_FALSE(queue.producer.send(kLarge, again).created());
    CHECK(queue.inspector.counts().ready == 2);
    CHECK(queue.inspector.counts().totals.sent == 2);
    CHECK(keys(queue, "msg", world.admin) == 2);
    CHECK(left_staged(queue, world.admin) == (own_id ? 1 : 0));
    CHECK(is_clean(queue));
  }
  CHECK(proxy.counts().truncated == 2);
}

TEST_CASE("large payloads: two sends with one id and different payloads make one message, with one whole payload") {
  World world;
  Queue queue(world.url());
  Producer other(world.url(), queue.name);
  for (int i = 0; i < 50; ++i) {
    const auto own = with(&SendOptions::id, store::new_ids(1).front());
    const std::string mine(20'000, 'm'), yours(30'000, 'y');
    auto first = other.send_async(yours, own);
    const bool created = queue.producer.send(mine, own).created();
    CHECK(first.get().created() != created);
    CHECK((queue.inspector.find(own.id)->payload == (created ? mine : yours)));
  }
  CHECK(left_staged(queue, world.admin) == 0);
}

TEST_CASE("large payloads: a server that has lost the scripts stores them") {
  World world;
  Queue queue(world.url());
  queue.producer.send(kLarge);
  world.admin.cmd({"SCRIPT", "FLUSH"});
  CHECK(queue.producer.send(kLarge).created());
  world.admin.cmd({"SCRIPT", "FLUSH"});
  CHECK(queue.producer.send_batch(std::vector<std::string>(300, kLarge)).size() == 300);
  CHECK(queue.inspector.counts().ready == 302);
  CHECK(keys(queue, "msg", world.admin) == 302);
  CHECK(left_staged(queue, world.admin) == 0);
  CHECK(is_clean(queue));
}

TEST_CASE(
    "large payloads: a batch of large and small ones keeps its order on a server that has not loaded their script") {
  World world;
  Queue queue(world.url());
  world.admin.cmd({"SCRIPT", "FLUSH"});
  queue.producer.send_batch(std::vector<std::string>{"a", "b"});  // small ones have another script, which is loaded now
  const auto before = world.admin.cmd({"LRANGE", queue.base + ":ready", "0", "-1"}).strings();
  std::vector<std::string> payloads;
  for (int i = 0; i < 8; ++i) payloads.insert(payloads.end(), {std::string(1024 * 1024, 'x'), "small", "", "small"});
  std::vector<std::string> ids;
  for (const Sent& one : queue.producer.send_batch(payloads)) ids.insert(ids.begin(), one.id);
  ids.insert(ids.end(), before.begin(), before.end());
  CHECK((world.admin.cmd({"LRANGE", queue.base + ":ready", "0", "-1"}).strings() == ids));
}

TEST_CASE("large payloads: a key of a wrong type causes a ReplyError with WRONGTYPE, and nothing is stored") {
  for (const char* key : {"pending", "ready", "headers", "retry:cnt"}) {
    CAPTURE(key);
    Queue queue;
    queue.producer.send(kLarge);
    test::redis().cmd({"DEL", queue.base + ":" + key});
    test::redis().cmd({"SET", queue.base + ":" + key, "in the way"});
    const auto before = queue.kept();
    for (const milliseconds delay : {0ms, 3'600'000ms}) {
      for (const bool own_id : {true, false}) {
        auto options = delayed(delay);
        if (own_id) options.id = store::new_ids(1).front();
        CHECK(has(thrown([&] { queue.producer.send(kLarge, options); }), "WRONGTYPE"));
        CHECK((left_staged(queue, test::redis()) > 0));
        CHECK((queue.kept() == before));
      }
    }
  }
}

TEST_CASE("large payloads: a send that fails because its script is not loaded leaves no body") {
  World world;
  for (const char* missing : {"eval", "multi"}) {
    CAPTURE(missing);
    Queue queue(world.url());
    queue.producer.send(kLarge);
    world.admin.cmd({"ACL", "SETUSER", "sender", "reset", "on", ">secret", "~*", "&*", "+@all", "-eval",
                     std::string("-") + missing});
    Producer limited("unix://sender:secret@" + world.server.socket(), queue.name);
    CHECK(limited.send(kLarge).created());
    world.admin.cmd({"SCRIPT", "FLUSH"});
    CHECK_THROWS_AS(limited.send(kLarge), AccessDenied);
    CHECK_THROWS_AS(limited.send_batch(std::vector<std::string>(300, kLarge)), AccessDenied);
    CHECK(keys(queue, "msg", world.admin) == 2);
    CHECK(queue.inspector.counts().ready == 2);
    CHECK(is_clean(queue));
  }
}

// The message without a TTL is stored, but not as durable as required: so the error has ids. The other one is refused.
TEST_CASE("large payloads: a deletion that arrives late, after a repeated send, deletes no body of a message") {
  World world;
  FaultProxy proxy(world.server.socket());
  for (const unsigned partitions : {1U, 4U}) {
    CAPTURE(partitions);
    Queue queue(world.url());
    if (partitions > 1) queue.admin.set_partitions(partitions);
    queue.producer.send_batch({kLarge, kLarge});  // so no EVAL sends the script, which contains UNLINK
    world.admin.cmd({"ACL", "SETUSER", "sender", "reset", "on", ">secret", "~*", "&*", "+@all", "-pexpire"});
    ClientOptions client_options;
    ProducerOptions options;
    client_options.command_timeout = 300ms;
    options.durability = Durability::replicas(1, 10ms);
    Producer limited({"redis://sender:secret@" + proxy.address(), client_options}, queue.name, options);
    CHECK_THROWS_AS(limited.send("x"), ConnectionError);  // opens the connection; it is not durable enough either
    proxy.black_hole_from("UNLINK");
    std::vector<OutgoingMessage> messages(2, OutgoingMessage{kLarge, {}});
    messages[0].options.ttl = 1h;
    std::vector<std::string> ids;
    try {
      limited.send_batch(messages);
    } catch (const ConnectionError& e) {
      ids = e.ids();
    }
    REQUIRE(ids.size() == 2);
    for (std::size_t i = 0; i < 2; ++i) messages[i].options.id = ids[i];
    const std::vector<Sent> sent = queue.producer.send_batch(messages);
    CHECK(sent[0].created());
    CHECK_FALSE(sent[1].created());
    const auto deletions = [&] { return test::info("commandstats", "cmdstat_unlink", world.admin); };
    const std::string before = deletions();
    proxy.black_hole(false);
    CHECK(test::eventually([&] { return deletions() != before; }, test::kPatience));
    for (const std::string& id : ids) CHECK((queue.inspector.find(id)->payload == kLarge));
    CHECK(is_clean(queue));
  }
}

// The two messages with a TTL are refused, and the deletion of their bodies gets no answer in time. Those of the batch
// in flight may be stored; all others go by another connection.
TEST_CASE("large payloads: when the link is lost while bodies are deleted, other sends get no answers of that link") {
  World world;
  FaultProxy proxy(world.server.socket());
  Queue queue(world.url());
  queue.producer.send_batch({kLarge, kLarge});  // so no EVAL sends the script, which contains UNLINK
  world.admin.cmd({"ACL", "SETUSER", "sender", "reset", "on", ">secret", "~*", "&*", "+@all", "-pexpire"});
  ClientOptions options;
  options.command_timeout = 400ms;
  Producer limited({"redis://sender:secret@" + proxy.address(), options}, queue.name);
  limited.send(kLarge);
  SendOptions hour, two_hours;
  hour.ttl = 1h;
  two_hours.ttl = 2h;
  const std::size_t links = proxy.counts().links;
  proxy.delay(5ms);  // so all but the first few are sent together
  proxy.black_hole_from("UNLINK");
  std::vector<std::future<Sent>> sends;
  for (int i = 0; i < 1000; ++i) {
    sends.push_back(limited.send_async(kLarge, i == 10 ? hour : i == 11 ? two_hours : SendOptions()));
  }
  test::eventually([&] { return proxy.counts().links > links; }, 2s);  // the deletion is overdue
  proxy.black_hole(false);                                             // and its answer comes late
  std::size_t stored = 0;
  for (std::future<Sent>& send : sends) {
    try {
      const std::string id = send.get().id;
      ++stored;
      const auto found = queue.inspector.find(id);
      CHECK((found && found->payload == kLarge));
    } catch (const Error&) {
    }
  }
  CHECK(stored >= 998 - 128);  // a batch has at most 1 MiB, which is 128 messages
  CHECK(stored <= 998);
  CHECK(queue.inspector.counts().ready >= stored + 3);
}

TEST_CASE("large payloads: when memory is full, nothing is stored, and the next send succeeds when there is room") {
  World world;
  Queue queue(world.url());
  queue.producer.send(kLarge);
  const auto before = queue.kept();
  world.admin.cmd({"CONFIG", "SET", "maxmemory", "1"});
  CHECK(has(thrown([&] { queue.producer.send(kLarge); }), "OOM"));
  CHECK(has(thrown([&] { queue.producer.send_batch(std::vector<std::string>(300, kLarge)); }), "OOM"));
  CHECK((queue.kept() == before));
  world.admin.cmd({"CONFIG", "SET", "maxmemory", "0"});
  CHECK(queue.producer.send(kLarge).created());
  CHECK(keys(queue, "msg", world.admin) == 2);
  CHECK(is_clean(queue));
}

}  // namespace
}  // namespace delayqueue
