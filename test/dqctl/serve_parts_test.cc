// Parts of dqctl serve that need no server: parsers, the history, the audit, the token.
#include "support/test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "exit.h"
#include "listed_queues.h"
#include "serve/access.h"
#include "serve/audit.h"
#include "serve/history.h"
#include "serve/listener.h"
#include "serve/request.h"
#include "support/forked.h"
#include "support/raw_server.h"

using dqctl::HttpError;

namespace {

const dqctl::Time kBegin{std::chrono::hours(24 * 365 * 56)};

delayqueue::Counts reading(std::uint64_t ready, std::uint64_t sent) {
  delayqueue::Counts counts;
  counts.ready = ready;
  counts.totals.sent = sent;
  return counts;
}

int status_of_head(const std::string& bytes) {
  try {
    dqctl::check_head(bytes);
    return 200;
  } catch (const HttpError& error) {
    return error.status();
  }
}

}  // namespace

TEST_CASE("serve parts: the values of fields are those that were sent, without blanks around them") {
  const auto head = dqctl::check_head(
      "POST /api?text=a%2541?b HTTP/1.1\r\nHOST:  local%68ost \r\nRange: bytes=0-\r\nExpect: 100-continue\r\n"
      "Authorization:\tBearer %41+%\t\r\nContent-Length: 12\r\nX-Delayqueue-Action: %31\r\nOrigin: http://a%3A1\r\n"
      "Content-Type: application%2Fjson\r\nSec-Fetch-Site: same%2Dorigin\r\n\r\n");
  const dqctl::HttpRequest& request = head.request;
  CHECK(request.method == "POST");
  CHECK(request.target.path == std::vector<std::string>{"api"});
  CHECK(request.target.query.at("text") == "a%41?b");
  CHECK(request.host == "local%68ost");
  CHECK(request.authorization == "Bearer %41+%");
  CHECK(request.action == "%31");
  CHECK(request.origin == "http://a%3A1");
  CHECK(request.content_type == "application%2Fjson");
  CHECK(request.fetch_site == "same%2Dorigin");
  CHECK(request.body.empty());
  CHECK(head.body == 12);
}

TEST_CASE("serve parts: a head with 65 fields, or without its end, is refused") {
  std::string many = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 63; ++i) many += "a: b\r\n";
  CHECK(status_of_head(many + "\r\n") == 200);
  CHECK(status_of_head(many + "a: b\r\n\r\n") == 431);
  CHECK(status_of_head(many) == 400);
  CHECK(status_of_head("") == 400);
  CHECK(status_of_head("\r\n\r\n") == 400);
}

TEST_CASE("serve parts: a target is decoded part by part") {
  const auto target = dqctl::parse_target("/api/queues/a%2Fb%00?text=a%20b+c&x=");
  CHECK(target.path == std::vector<std::string>{"api", "queues", std::string("a/b\0", 4)});
  CHECK(target.query.at("text") == "a b c");
  CHECK(target.query.at("x").empty());
  CHECK(dqctl::parse_target("/").path.empty());
  CHECK(dqctl::parse_target("/?").path.empty());
  CHECK(dqctl::parse_target("/?x=a?b=?").query.at("x") == "a?b=?");
  for (const char* wrong : {"", "x", "/%", "/%4", "/%g0", "/?a", "/?a=1&a=2", "/?&"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(dqctl::parse_target(wrong), HttpError);
  }
}

TEST_CASE("serve parts: addresses to listen on are numeric") {
  CHECK(dqctl::parse_listen("127.0.0.2:80").is_loopback);
  CHECK(dqctl::parse_listen("localhost:80").host == "127.0.0.1");
  CHECK(dqctl::parse_listen("[::1]:80").is_loopback);
  CHECK(dqctl::parse_listen("[0:0:0:0:0:0:0:1]:80").is_loopback);
  CHECK_FALSE(dqctl::parse_listen("0.0.0.0:80").is_loopback);
  CHECK_FALSE(dqctl::parse_listen("[::]:80").is_loopback);
  CHECK_FALSE(dqctl::parse_listen("[::ffff:127.0.0.1]:80").is_loopback);
  for (const char* wrong :
       {"", ":80", "::1:80", "[127.0.0.1]:80", "127.1:80", "host:80", "127.0.0.1:", "127.0.0.1:-1"}) {
    CAPTURE(wrong);
    CHECK_THROWS_AS(dqctl::parse_listen(wrong), dqctl::Usage);
  }
}

TEST_CASE("serve parts: all forms of an address are one host, for --listen, --host and Host") {
  for (const char* form : {"[::1]", "[0:0:0:0:0:0:0:1]", "[0000::0001]", "[::0.0.0.1]"}) {
    CAPTURE(form);
    CHECK(dqctl::parse_listen(form + std::string(":80")).host == "::1");
    CHECK(dqctl::parse_host(form) == "::1");
    CHECK(dqctl::parse_host(form + std::string(":80")) == "::1");
  }
  CHECK(dqctl::parse_listen("[2001:DB8:0::A]:80").host == "2001:db8::a");
  CHECK(dqctl::parse_host("[2001:DB8:0::A]") == "2001:db8::a");
  CHECK(dqctl::parse_host("[::ffff:7f00:1]") == "::ffff:127.0.0.1");  // no loopback address: see above
  CHECK(dqctl::parse_host("127.1") == "127.1");  // inet_pton() takes no short form, and clients send the long one
  CHECK(dqctl::parse_host("Queues.Example:80") == "queues.example");
}

TEST_CASE("serve parts: a Host with an address that is not served is refused, and the advice can be followed") {
  const dqctl::Access access({{}, "", false});
  dqctl::HttpRequest request;
  request.host = "[2001:db8:0::1]:80";
  try {
    access.check(request, true);
    FAIL("it was served");
  } catch (const HttpError& error) {
    CHECK(error.status() == 421);
    CHECK(has(error.what(), "--host [2001:db8::1]"));
  }
  const dqctl::Access own({{dqctl::parse_host("[2001:db8::1]")}, "", false});
  CHECK_NOTHROW(own.check(request, true));
}

TEST_CASE("serve parts: a secret equals only itself") {
  CHECK(dqctl::equals_secret("abc", "abc"));
  for (const char* other : {"", "ab", "abd", "abcd", "abcabc"}) CHECK_FALSE(dqctl::equals_secret(other, "abc"));
}

TEST_CASE("serve parts: the token is of the file whose mode was checked") {
  const test::TempDir folder;
  const std::string good(32, 'g'), shared(32, 's'), link = folder.file("link");
  std::ofstream(folder.file("good")) << good;
  std::ofstream(folder.file("shared")) << shared;
  ::chmod(folder.file("good").c_str(), 0600);
  ::chmod(folder.file("shared").c_str(), 0644);
  const auto point_to = [&](const std::string& name) {
    REQUIRE(::symlink(folder.file(name).c_str(), folder.file("new").c_str()) == 0);
    REQUIRE(::rename(folder.file("new").c_str(), link.c_str()) == 0);
  };
  point_to("good");
  std::atomic<bool> over{false};
  std::thread other([&] {
    while (!over) {
      point_to("shared");
      point_to("good");
    }
  });
  int wrong = 0;
  for (int i = 0; i < 20'000; ++i) {
    try {
      if (dqctl::read_token(link) != good) ++wrong;
    } catch (const dqctl::Usage&) {  // it was the shared one
    }
  }
  over = true;
  other.join();
  CHECK(wrong == 0);
}

// As Kubernetes mounts a secret: a file of root, readable by the group of the process.
TEST_CASE("serve parts: a user who is not root may have a token in a file of root that the group can read") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: only root can make a file of root");
    return;
  }
  const test::TempDir folder;
  const std::string file = folder.file("token"), token(32, 't');
  std::ofstream(file) << token;
  constexpr uid_t kOther = 65534;
  REQUIRE(::chmod(folder.file("").c_str(), 0711) == 0);
  REQUIRE(::chown(file.c_str(), 0, kOther) == 0);
  const auto accepted = [&](mode_t mode, uid_t user) {
    REQUIRE(::chmod(file.c_str(), mode) == 0);
    return test::in_child([&] {
      if (::setegid(kOther) != 0 || ::seteuid(user) != 0) return false;
      return dqctl::read_token(file) == token;
    });
  };
  CHECK(accepted(0440, kOther) == 0);
  CHECK(accepted(0460, kOther) == 2);
  CHECK(accepted(0444, kOther) == 2);
  CHECK(accepted(0440, 0) == 2);
  CHECK(accepted(0400, 0) == 0);
}

TEST_CASE("serve parts: the history has one entry for a minute, with its last figures and its events") {
  dqctl::History history;
  history.add("orders", kBegin, reading(1, 10));
  history.add("orders", kBegin + 30s, reading(2, 15));
  history.add("orders", kBegin + 60s, reading(3, 18));
  history.add("orders", kBegin + 119s, reading(4, 25));
  history.add("orders", kBegin + 5min, reading(5, 30));
  history.add("orders", kBegin + 6min, reading(5, 2));
  const auto minutes = history.minutes("orders");
  REQUIRE(minutes.size() == 4);
  CHECK(minutes[0].at == kBegin);
  CHECK(minutes[0].counts.ready == 2);
  CHECK_FALSE(minutes[0].events[0]);
  CHECK(minutes[1].counts.ready == 4);
  CHECK(minutes[1].events[0] == 10);
  CHECK_FALSE(minutes[2].events[0]);  // the minutes before are not known
  CHECK_FALSE(minutes[3].events[0]);  // the statistics were reset
}

TEST_CASE("serve parts: the history has 60 minutes of at most 1,000 queues, and forgets queues that are gone") {
  dqctl::History history;
  for (int i = 0; i < 100; ++i) history.add("orders", kBegin + std::chrono::minutes(i), reading(1, 1));
  CHECK(history.size("orders") == 60);
  CHECK(history.minutes("orders").front().at == kBegin + 40min);
  history.add("orders", kBegin, reading(1, 1));  // the clock was set back
  CHECK(history.size("orders") == 1);
  for (int i = 0; i < 1100; ++i) history.add("q" + std::to_string(i), kBegin, reading(1, 1));
  CHECK(history.size("q998") == 1);
  CHECK(history.size("q999") == 0);
  history.keep_only({"q1"});
  CHECK(history.size("orders") == 0);
  CHECK(history.size("q1") == 1);
}

TEST_CASE("serve parts: the history of all queues has the same minutes for each, and what was waiting then") {
  dqctl::History history;
  CHECK(history.waiting().minutes.empty());
  delayqueue::Counts counts;
  counts.pending = 100;
  counts.due = 1;
  counts.ready = 2;
  counts.retry = 4;
  counts.unack = 8;
  history.add("orders", kBegin + 1min, counts);
  history.add("mails", kBegin + 2min, reading(6, 1));
  history.add("orders", kBegin + 3min + 30s, reading(5, 1));
  const auto all = history.waiting();
  using Numbers = std::vector<std::optional<std::uint64_t>>;
  CHECK(all.minutes == std::vector<dqctl::Time>{kBegin + 1min, kBegin + 2min, kBegin + 3min});
  CHECK(all.queues.at("orders") == Numbers{7, std::nullopt, 5});
  CHECK(all.queues.at("mails") == Numbers{std::nullopt, 6, std::nullopt});
}

TEST_CASE("serve parts: a queue that cannot be read for long does not stretch the last hour of all queues") {
  dqctl::History history;
  for (int i = 0; i < 60; ++i) history.add("unreadable", kBegin + std::chrono::minutes(i), reading(1, 1));
  for (int i = 0; i < 100; ++i) history.add("orders", kBegin + std::chrono::minutes(i), reading(2, 1));
  const auto all = history.waiting();
  CHECK(all.minutes.size() == 60);
  CHECK(all.minutes.front() == kBegin + 40min);
  CHECK(all.queues.at("orders").size() == 60);
  CHECK(all.queues.at("orders").front() == 2);
  CHECK(all.queues.at("unreadable").size() == 60);
  CHECK(all.queues.at("unreadable")[19] == 1);
  CHECK(!all.queues.at("unreadable")[20]);
}

TEST_CASE(
    "serve parts: after the clock was set back, a queue that cannot be read does not hide the last hour of others") {
  dqctl::History history;
  history.add("unreadable", kBegin + 5h, reading(1, 1));
  history.add("orders", kBegin + 5h, reading(2, 1));
  history.add("orders", kBegin, reading(3, 1));
  history.add("orders", kBegin + 1min, reading(4, 1));
  const auto all = history.waiting();
  using Numbers = std::vector<std::optional<std::uint64_t>>;
  CHECK(all.minutes == std::vector<dqctl::Time>{kBegin, kBegin + 1min});
  CHECK(all.queues.at("orders") == Numbers{3, 4});
  CHECK(all.queues.at("unreadable") == Numbers{std::nullopt, std::nullopt});
}

TEST_CASE("serve parts: of the names of all queues, the first ones that are not too long are kept") {
  std::vector<std::string> names = {"a", std::string(1025, 'b'), std::string(1024, 'c'), "d", "e"};
  CHECK(dqctl::limit_names(names, 3) == 2);
  CHECK(names == std::vector<std::string>{"a", std::string(1024, 'c'), "d"});
  CHECK(dqctl::limit_names(names, 3) == 0);
}

TEST_CASE("serve parts: the audit keeps 100 changes, and writes each as one line that is safe on a terminal") {
  std::size_t published = 0;
  dqctl::Audit audit([&](const dqctl::ServedChange&) { ++published; });
  dqctl::ServedChange change;
  change.at = kBegin;
  change.client.address = "127.0.0.1:1";
  change.action = dqctl::Action::purge;
  change.queue = "a\n\x1b[2J";
  change.error = "refused\r\nby Redis";
  const std::string line = dqctl::change_line(change);
  for (const char c : line) CHECK((c >= ' ' && c < 0x7F));
  CHECK(has(line, " purge "));
  CHECK(has(line, " count=0 error="));
  for (int i = 0; i < 101; ++i) {
    change.count = static_cast<std::uint64_t>(i);
    audit.add(change);
  }
  CHECK(published == 101);
  CHECK(audit.latest().size() == 100);
  CHECK(audit.latest().front().count == 100);
}
