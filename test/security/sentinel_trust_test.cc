// Sentinels without encryption, in front of encrypted servers.
#include "support/test.h"

namespace {

using namespace delayqueue;

const std::string kUrl = "rediss+sentinel://alice:s3cret@127.0.0.1:1,127.0.0.1:2/m";

ClientOptions plain_sentinels() {
  ClientOptions options;
  options.sentinel.encrypted = false;
  return options;
}

// The warnings of a Producer and of a Consumer. Neither connects.
std::vector<std::string> warnings(const std::string& url, const ClientOptions& connection) {
  std::vector<std::string> lines;
  const Logger logger = [&](const LogEntry& entry) {
    if (entry.severity == Severity::warning) lines.push_back(entry.line);
  };
  ProducerOptions producing;
  producing.logger = logger;
  Producer({url, connection}, "q", producing);
  ConsumerOptions options;
  options.logger = logger;
  Consumer(
      {url, connection}, "q", [](const Message&) { return ack(); }, options);
  return lines;
}

TEST_CASE("sentinel trust: each object warns once where a false Sentinel could name any server with a certificate") {
  const std::vector<std::string> lines = warnings(kUrl, plain_sentinels());
  REQUIRE(lines.size() == 2);
  for (const std::string& line : lines) {
    CHECK_MESSAGE(line.find("are not encrypted") != line.npos, line);
    CHECK_MESSAGE(line.find("set tls.ca_file or tls.server_name") != line.npos, line);
    CHECK_MESSAGE(line.find("s3cret") == line.npos, line);
  }
}

TEST_CASE(
    "sentinel trust: no warning where the servers are pinned, the Sentinels encrypted, or the servers unencrypted") {
  ClientOptions by_authority = plain_sentinels();
  by_authority.tls.ca_file = "ca.pem";
  ClientOptions by_name = plain_sentinels();
  by_name.tls.server_name = "redis.example";
  CHECK(warnings(kUrl, by_authority).empty());
  CHECK(warnings(kUrl, by_name).empty());
  CHECK(warnings(kUrl, {}).empty());
  CHECK(warnings("redis+sentinel://127.0.0.1:1/m", {}).empty());
  CHECK(warnings("rediss://127.0.0.1:1", {}).empty());
}

TEST_CASE("sentinel trust: refuse_unpinned refuses such options and accepts all others") {
  ClientOptions strict = plain_sentinels();
  strict.sentinel.refuse_unpinned = true;
  const auto inspect = [](const ClientOptions& connection) { Inspector({kUrl, connection}, "q"); };
  CHECK_THROWS_WITH_AS(warnings(kUrl, strict), doctest::Contains("sentinel.refuse_unpinned: set, but the"),
                       std::invalid_argument);
  CHECK_THROWS_AS(inspect(strict), std::invalid_argument);
  strict.tls.server_name = "redis.example";
  CHECK_NOTHROW(inspect(strict));
  strict.tls.server_name.clear();
  strict.sentinel.encrypted.reset();
  CHECK_NOTHROW(inspect(strict));
}

}  // namespace
