#include "support/test.h"

namespace delayqueue {
namespace {

constexpr char kDns[] = "6ba7b810-9dad-11d1-80b4-00c04fd430c8";

TEST_CASE("ids: id_from_name makes the UUID of version 5 that RFC 9562 has, and the same each time") {
  CHECK(id_from_name("www.example.com", kDns) == "2ed6657d-e927-568b-95e1-2665a8aea6a2");  // RFC 9562, A.4
  CHECK(id_from_name("python.org", "6BA7B810-9DAD-11D1-80B4-00C04FD430C8") == "886313e1-3b8a-5372-9b90-0c9aee199e5d");
  const std::string id = id_from_name("order 42 is not paid");
  CHECK(id == id_from_name(std::string("order 42 is not paid")));
  CHECK(id != id_from_name("order 43 is not paid"));
  CHECK(id != id_from_name("order 42 is not paid", kDns));
  CHECK(id[14] == '5');
  CHECK(id_from_name("") != id_from_name(std::string_view("\0", 1)));
  CHECK(has(thrown([] { static_cast<void>(id_from_name("x", "orders")); }),
            "invalid_argument: name_space: \"orders\"; expected a UUID"));
}

TEST_CASE("ids: new_id makes UUIDs of version 7 that differ, in any thread") {
  std::vector<std::vector<std::string>> made(4);
  std::vector<std::thread> threads;
  for (auto& some : made) {
    threads.emplace_back([&some] {
      for (int i = 0; i < 1000; ++i) some.push_back(new_id());
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> all;
  for (const auto& some : made) all.insert(some.begin(), some.end());
  CHECK(all.size() == 4000);
  for (const std::string& id : all) {
    REQUIRE(id.size() == 36);
    CHECK(id[14] == '7');
  }
}

TEST_CASE("ids: a message that is sent twice with its id exists once, with the id of a name and with a new one") {
  test::Queue queue;
  for (const std::string& id : {new_id(), id_from_name(queue.name)}) {
    const auto options = with(&SendOptions::id, id);
    CHECK(queue.producer.send("x", options).created());
    const Sent again = queue.producer.send("x", options);
    CHECK_FALSE(again.created());
    CHECK(again.id == id);
    CHECK(queue.inspector.find(id)->payload == "x");
  }
  CHECK(queue.inspector.counts().ready == 2);
}

}  // namespace
}  // namespace delayqueue
