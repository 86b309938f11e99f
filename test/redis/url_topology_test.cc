#include "support/test.h"

#include "redis/url.h"

namespace delayqueue::redis {
namespace {

TEST_CASE("url: a topology's URL holds all hosts, the master, user, password and db") {
  struct Row {
    std::string url;
    Url::Kind kind;
    std::string hosts, master, user, password;
    int db;
  };
  const auto sentinel = Url::Kind::sentinel;
  const auto cluster = Url::Kind::cluster;
  const std::vector<Row> rows = {
      {"redis+sentinel://a/m", sentinel, "a:26379", "m", "", "", 0},
      {"redis+sentinel://a,b:7000,[::1]:7,[::2]/my-master.1/", sentinel, "a:26379 b:7000 [::1]:7 [::2]:26379",
       "my-master.1", "", "", 0},
      {"redis+sentinel://a/m/3", sentinel, "a:26379", "m", "", "", 3},
      {"redis+sentinel://a,b/m?db=4", sentinel, "a:26379 b:26379", "m", "", "", 4},
      {"redis+sentinel://a/0", sentinel, "a:26379", "0", "", "", 0},
      {"redis+sentinel://a/my%20%2fm%40", sentinel, "a:26379", "my /m@", "", "", 0},
      {"redis+sentinel://ann:p,w:1@a,b/m/1", sentinel, "a:26379 b:26379", "m", "ann", "p,w:1", 1},
      {"redis+sentinel://a,b:pw@a,A/m", sentinel, "a:26379 A:26379", "m", "a,b", "pw", 0},
      {"redis+cluster://a", cluster, "a:6379", "", "", "", 0},
      {"redis+cluster://a/", cluster, "a:6379", "", "", "", 0},
      {"redis+cluster://a:1,a:2,[::1]/0", cluster, "a:1 a:2 [::1]:6379", "", "", "", 0},
      {"redis+cluster://:p%40w@a,b?db=0", cluster, "a:6379 b:6379", "", "", "p@w", 0},
  };
  for (const auto& row : rows) {
    for (const bool tls : {false, true}) {
      const std::string text = tls ? "rediss" + row.url.substr(5) : row.url;
      CAPTURE(text);
      const auto url = parse_url(text);
      CHECK(url.kind == row.kind);
      std::string hosts;
      for (const Address& address : url.addresses) {
        hosts += (hosts.empty() ? "" : " ") + address.text();
        CHECK(address.tls == tls);
      }
      CHECK(hosts == row.hosts);
      CHECK(url.master == row.master);
      CHECK(url.user == row.user);
      CHECK(url.password == row.password);
      CHECK(url.db == row.db);
    }
  }
}

TEST_CASE("url: an invalid URL of a topology is refused with the reason") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"redis+sentinel:a/m", "expected //"},
      {"redis+sentinel://", "a host is missing"},
      {"redis+sentinel:///m", "a host is missing"},
      {"redis+sentinel://:1/m", "a host is missing"},
      {"redis+sentinel://u:pw@/m", "a host is missing"},
      {"redis+sentinel://,a/m", "a host is missing"},
      {"redis+sentinel://a,,b/m", "a host is missing"},
      {"redis+sentinel://a,/m", "a host is missing"},
      {"redis+sentinel://a,b", "the master's name is missing"},
      {"redis+sentinel://a,b/", "the master's name is missing"},
      {"redis+sentinel://a,b//0", "the master's name is missing"},
      {"redis+sentinel://a,b?db=1", "the master's name is missing"},
      {"redis+sentinel://a/m/x", "the db 'x'"},
      {"redis+sentinel://a/m/1/", "the db '1/'"},
      {"redis+sentinel://a/m/1?db=1", "given twice"},
      {"redis+sentinel://a/m?master=x", "unknown parameter 'master'"},
      {"redis+sentinel://a/%4", "in the master's name two hex digits"},
      {"redis+sentinel://a/%00", "%00 in the master's name"},
      {"redis+sentinel://a/m@x", "'@' in a name as %40"},
      {"redis+sentinel://a,a/m", "the host a:26379 is given twice"},
      {"redis+sentinel://a,b:7,a:26379/m", "the host a:26379 is given twice"},
      {"redis+sentinel://u:x@a,u:x@b/m", "more than one '@'"},
      {"redis+sentinel://a,b:0/m", "65535"},
      {"redis+sentinel://a,b:12x/m", "65535"},
      {"redis+sentinel://u:x@a,b:12x/m", "the port '12x'"},
      {"redis+sentinel://a,b%20/m", "the host may hold"},
      {"redis+sentinel://a,::1/m", "65535"},
      {"redis+sentinel://a,[::1/m", "IPv6"},
      {"redis+cluster://", "a host is missing"},
      {"redis+cluster:///0", "a host is missing"},
      {"redis+cluster://a,", "a host is missing"},
      {"redis+cluster://a,b/1", "the db '1' cannot be used; a Cluster has only db 0"},
      {"redis+cluster://a?db=2", "the db '2' cannot be used; a Cluster has only db 0"},
      {"redis+cluster://a/m", "the db 'm' is not a number"},
      {"redis+cluster://a/0?db=0", "given twice"},
      {"redis+cluster://[::1]:7,[::1]:7", "the host [::1]:7 is given twice"},
      {"redis+cluster://a b", "spaces"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.first);
    std::string text = "accepted";
    try {
      parse_url(row.first);
    } catch (const std::invalid_argument& e) {
      text = e.what();
    }
    CHECK_MESSAGE(text.find(row.second) != std::string::npos, text);
    CHECK_MESSAGE(text.rfind("url: '", 0) == 0, text);
  }
}

}  // namespace
}  // namespace delayqueue::redis
