#include "support/test.h"

#include "redis/connection.h"

namespace {

using delayqueue::redis::Address;
using delayqueue::redis::Redirection;

Address from() {
  Address address;
  address.host = "10.0.0.1";
  address.port = 7001;
  address.tls = true;
  return address;
}

std::string read(const std::string& error) {
  const auto to = Redirection::read(error, from());
  if (!to) return "none";
  return std::string(to->ask ? "ask " : "moved ") + std::to_string(to->slot) + " " + to->address.text() +
         (to->address.tls ? " tls" : "");
}

}  // namespace

TEST_CASE("redirection: MOVED and ASK are parsed to slot and node; a node may leave out its own host") {
  CHECK(read("MOVED 3999 127.0.0.1:6381") == "moved 3999 127.0.0.1:6381 tls");
  CHECK(read("ASK 0 node-3.example:7002") == "ask 0 node-3.example:7002 tls");
  CHECK(read("MOVED 3999 :6381") == "moved 3999 10.0.0.1:6381 tls");
  CHECK(read("MOVED 3999 ?:6381") == "moved 3999 10.0.0.1:6381 tls");
  CHECK(read("MOVED 3999 ::1:6381") == "moved 3999 [::1]:6381 tls");
}

TEST_CASE("redirection: any other error is none") {
  for (const char* error :
       {"", "MOVED", "MOVED ", "MOVED 3999", "MOVED x 127.0.0.1:6381", "MOVED 3999 127.0.0.1",
        "MOVED 3999 127.0.0.1:", "MOVED 3999 127.0.0.1:0", "MOVED 3999 127.0.0.1:65536", "MOVED 3999 127.0.0.1:6381x",
        "ASKING 1 a:1", "ERR MOVED 1 a:1", "MOVED :1 a:1", "TRYAGAIN Multiple keys request during rehashing of slot"}) {
    CAPTURE(error);
    CHECK(read(error) == "none");
  }
}
