#include "support/test.h"

#include "redis/url.h"

namespace delayqueue::redis {
namespace {

const std::string kSecret = "hunter2";

std::string refusal(const std::string& url) {
  try {
    return "accepted as " + parse_url(url).text();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
}

TEST_CASE("url: a server URL holds the address, user, password and db") {
  struct Row {
    std::string url, address;
    bool tls;
    std::string user, password;
    int db;
  };
  const std::vector<Row> rows = {
      {"redis://", "127.0.0.1:6379", false, "", "", 0},
      {"redis:///", "127.0.0.1:6379", false, "", "", 0},
      {"redis://localhost", "localhost:6379", false, "", "", 0},
      {"redis://my_host-1.example.:7000/", "my_host-1.example.:7000", false, "", "", 0},
      {"redis://:7000", "127.0.0.1:7000", false, "", "", 0},
      {"rediss://10.0.0.9:65535/3", "10.0.0.9:65535", true, "", "", 3},
      {"redis://h:1?db=15", "h:1", false, "", "", 15},
      {"redis:///7", "127.0.0.1:6379", false, "", "", 7},
      {"redis://h/2147483647", "h:6379", false, "", "", 2147483647},
      {"redis://[::1]", "[::1]:6379", false, "", "", 0},
      {"redis://[fe80::a:1]:7000/1", "[fe80::a:1]:7000", false, "", "", 1},
      {"redis://:pw@h", "h:6379", false, "", "pw", 0},
      {"redis://:pw@", "127.0.0.1:6379", false, "", "pw", 0},
      {"redis://ann:pw@[::1]:7/2", "[::1]:7", false, "ann", "pw", 2},
      {"redis://ann@h", "h:6379", false, "ann", "", 0},
      {"redis://ann:@h", "h:6379", false, "ann", "", 0},
      {"redis://:@h", "h:6379", false, "", "", 0},
      {"redis://a%40b:p%3Aw%2f%25%20@h", "h:6379", false, "a@b", "p:w/% ", 0},
      {"redis://ann:p:w:@h", "h:6379", false, "ann", "p:w:", 0},
      {"redis://:p%0aw%ff@h", "h:6379", false, "", "p\nw\xff", 0},
      {"redis://:p\xc3\xa4ss@h", "h:6379", false, "", "p\xc3\xa4ss", 0},
      {"unix:///run/redis/s", "unix:/run/redis/s", false, "", "", 0},
      {"unix:/run/s?db=4", "unix:/run/s", false, "", "", 4},
      {"unix://:pw@/s", "unix:/s", false, "", "pw", 0},
      {"unix://ann:pw@/a/s?db=1", "unix:/a/s", false, "ann", "pw", 1},
      {"unix:///a%20b@c:%3f", "unix:/a b@c:?", false, "", "", 0},
  };
  for (const auto& row : rows) {
    CAPTURE(row.url);
    const auto url = parse_url(row.url);
    CHECK(url.kind == Url::Kind::server);
    REQUIRE(url.addresses.size() == 1);
    CHECK(url.addresses[0].text() == row.address);
    CHECK(url.addresses[0].tls == row.tls);
    CHECK(url.user == row.user);
    CHECK(url.password == row.password);
    CHECK(url.db == row.db);
  }
}

TEST_CASE("url: valkey is the same as redis, alone, with TLS, Sentinels and a Cluster") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"valkey://ann:pw@h:1/2", "redis://ann:***@h:1/2"},
      {"valkeys://h", "rediss://h:6379"},
      {"valkey+sentinel://:pw@a,b/m", "redis+sentinel://:***@a:26379,b:26379/m"},
      {"valkeys+sentinel://a/m", "rediss+sentinel://a:26379/m"},
      {"valkey+cluster://a,b", "redis+cluster://a:6379,b:6379"},
      {"valkeys+cluster://a", "rediss+cluster://a:6379"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.first);
    CHECK(parse_url(row.first).text() == row.second);
  }
  CHECK(parse_url("valkeys://h").addresses.front().tls);
  CHECK(parse_url("valkey+sentinel://a/m").kind == Url::Kind::sentinel);
}

TEST_CASE("url: quotation marks, blanks, line breaks and a byte order mark around a URL are named, and no secret") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"\"redis://u:hunter2@h\"", "quotation mark"},
      {"'redis://u:hunter2@h'", "quotation mark"},
      {"redis://u:hunter2@h\"", "quotation mark"},
      {"\"redis://u:hunter2\"", "quotation mark"},
      {"redis://u:hunter2@h\n", "line break"},
      {"redis://u:hunter2@h\r\n", "line break"},
      {" redis://u:hunter2@h", "blank"},
      {"redis://u:hunter2@h ", "blank"},
      {"\xef\xbb\xbfredis://u:hunter2@h", "byte order mark"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.first);
    CHECK(has(refusal(row.first), row.second));
    CHECK(has(refusal(row.first), "remove") != has(refusal(row.first), "save"));
    CHECK_FALSE(has(refusal(row.first), kSecret));
  }
}

TEST_CASE("url: embedded: takes an absolute, a relative or no folder") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"embedded:", ""}, {"embedded:/var/q", "/var/q"}, {"embedded:q/r", "q/r"}, {"embedded:a%20b", "a b"}};
  for (const auto& row : rows) {
    CAPTURE(row.first);
    const auto url = parse_url(row.first);
    CHECK(url.kind == Url::Kind::embedded);
    CHECK(url.folder == row.second);
    CHECK(url.addresses.empty());
    CHECK(url.text() == row.first);
  }
}

TEST_CASE("url: an invalid URL is refused with the reason") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", "no scheme"},
      {"localhost", "no scheme"},
      {"//localhost", "no scheme"},
      {"my_host:6379", "no scheme"},
      {"localhost:6379", "unknown scheme 'localhost'"},
      {"http://h", "unknown scheme 'http'"},
      {"REDIS://h", "unknown scheme 'REDIS'"},
      {"redis:h", "expected //"},
      {"redis:/h", "expected //"},
      {"redis-sentinel://a/m",
       "unknown scheme 'redis-sentinel'; expected redis://, rediss://, redis+sentinel://, rediss+sentinel://, "
       "redis+cluster://, rediss+cluster:// or unix:// and a host or path, or embedded:"},
      {"redis://h:0", "65535"},
      {"redis://h:", "65535"},
      {"redis://h:65536", "65535"},
      {"redis://h:99999999999999999999", "65535"},
      {"redis://h:12x", "65535"},
      {"redis://h:-1", "65535"},
      {"redis://h:+1", "65535"},
      {"redis://:pw@h:12x", "the port '12x'"},
      {"redis://h:1:2", "65535"},
      {"redis://a,b", "expected redis+sentinel://host,host/master or redis+cluster://host,host"},
      {"redis://a:1,b:2/3", "expected redis+sentinel://host,host/master or redis+cluster://host,host"},
      {"rediss://:pw@[::1],", "expected redis+sentinel://host,host/master or redis+cluster://host,host"},
      {"redis://h%20x", "the host may hold"},
      {"redis://:pw@::1", "65535"},
      {"redis://[::1", "IPv6"},
      {"redis://[]", "IPv6"},
      {"redis://[", "IPv6"},
      {"redis://[::1]x:1", "IPv6"},
      {"redis://[1.2.3.4]", "IPv6"},
      {"redis://[::1%25eth0]", "IPv6"},
      {"redis://h/x", "the db 'x'"},
      {"redis://h/-1", "the db '-1'"},
      {"redis://h/1/", "the db '1/'"},
      {"redis://h/1x", "the db '1x'"},
      {"redis://h//", "the db '/'"},
      {"redis://h/2147483648", "the db '2147483648'"},
      {"redis://h?db=", "the db ''"},
      {"redis://h?db", "the db ''"},
      {"redis://h?db=-1", "the db '-1'"},
      {"redis://h/1?db=1", "given twice"},
      {"redis://h?db=1&db=1", "given twice"},
      {"redis://h?", "unknown parameter ''"},
      {"redis://h?db=1&", "unknown parameter ''"},
      {"redis://h?timeout=1", "unknown parameter 'timeout'"},
      {"redis://h?db=1&DB=2", "unknown parameter 'DB'"},
      {"redis://a:%4@h", "two hex digits"},
      {"redis://a:%@h", "two hex digits"},
      {"redis://a:%zz@h", "two hex digits"},
      {"redis://%-1@h", "two hex digits"},
      {"redis://a:b%00@h", "%00 in the password"},
      {"redis://a@b@h", "more than one '@'"},
      {"redis://a:b/c@h", "'@' after the host"},
      {"redis://a:b?c@h", "'@' after a '?'"},
      {"redis://h x", "spaces"},
      {"redis://h ", "a blank or a line break"},
      {" redis://h", "a blank or a line break"},
      {"redis://h\n/1", "control characters"},
      {std::string("redis://h\0", 10), "a blank or a line break"},
      {"redis://h\x7f/", "control characters"},
      {"redis://h#1", "'#'"},
      {"unix:", "no path"},
      {"unix://", "no path"},
      {"unix://ann:pw@", "no path"},
      {"unix:s", "must start with '/'"},
      {"unix://host/s", "expected unix:///path"},
      {"unix:///s?mode=1", "unknown parameter 'mode'"},
      {"unix:///a%0", "two hex digits"},
      {"unix:///a%00b", "%00 in the path"},
      {"embedded:///x", "no // after embedded:"},
      {"embedded:/x?db=1", "no parameters"},
      {"embedded:%", "two hex digits"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.first);
    const auto text = refusal(row.first);
    CHECK(has(text, row.second));
    CHECK_MESSAGE(text.rfind("url: '", 0) == 0, text);
  }
}

TEST_CASE("url: the error shows the URL without secrets and without control characters") {
  CHECK(has(refusal("redis://ann:pw@h:12x/3?db=4"), "url: 'redis://***@h:12x/3?***': the port '12x'"));
  CHECK(has(refusal("redis://h:7000/x"), "'redis://h:7000/x'"));
  CHECK(has(refusal("redis+sentinel://ann:pw@a:1,[::1]:2/m/x"), "url: 'redis+sentinel://***@a:1,[::1]:2/m/x'"));
  CHECK(has(refusal("redis+cluster://a:1,[::1]:2,c/x"), "url: 'redis+cluster://a:1,[::1]:2,c/x'"));
  CHECK(has(refusal("redis+cluster://a:1,b:x,c"), "url: 'redis+cluster://a:1,b:***'"));
  CHECK(has(refusal("redis://h/\n\x1b[31m"), "'redis://h/??[31m'"));
  const auto text = refusal("redis://h/" + std::string(100'000, 'x').insert(0, "\n"));
  CHECK(text.size() < 500);
  CHECK(has(parse_url("redis://:" + std::string(100'000, 'x') + "@h").password, std::string(100'000, 'x')));
}

TEST_CASE("url: no error and no text() contains a password") {
  const std::vector<std::string> good = {
      "redis://:S@h",
      "redis://u:S@h:1?db=3",
      "redis://u:%40S%3a@h",
      "redis://u:x:S@h",
      "unix://u:S@/s",
      "redis://S@h",
      "redis+sentinel://u:S@a,b/m",
      "redis+cluster://:a,S,b@h,i",
      "redis+sentinel://:S:1,b:2@h/m/3",
      "rediss+cluster://S@h",
  };
  const std::vector<std::string> bad = {
      "redis://:S",
      "redis://u:S",
      "redis://u:S/0",
      "redis://:S?db=1",
      "redis://:a/S",
      "redis://:a?S",
      "redis://:S:6379",
      "redis://:@S@h",
      "redis://:S@h@h",
      "redis://:a@S@",
      "redis://:a@S@b@h",
      "redis://u@x:S@h",
      "redis://u:S@x@",
      "redis://:a/S@h",
      "redis://:S/b@h",
      "redis://:12/S@h",
      "redis+cluster://u:12,b/S@h",
      "redis://:a?S@h",
      "redis://:a#S@h",
      "redis://:S#b",
      "redis://:12#S",
      "redis://u#:S",
      "redis://:a S@h",
      "redis://:a\nS@h",
      std::string("redis://:a\0S@h", 14),
      "redis://:S@h:0",
      "redis://:S@h:12x",
      "redis://:S@h/x",
      "redis://:S@h?x=1",
      "redis://h?password=S",
      "redis://h?x=S",
      "redis://:S%@h",
      "redis://:%00S@h",
      "redis://:S@[::1",
      "redis://:S@h,i",
      "redis://:S@ ",
      "redis://S%zz@h",
      "redis://[::1]:S",
      "redis://[::1:S",
      "redis://[:S]",
      "redis:S",
      "redis:u:S",
      "redis:u:S@h",
      "redis:/u:S@h",
      "redis:/:S",
      "redis://:S://@h:x",
      "redis://:x://S@h",
      "rediss://u:S@h:x",
      "redis+sentinel://u:S@h",
      "redis+sentinel://u:S@h,/m",
      "redis+sentinel://u:S@h/m/x",
      "redis+sentinel://u:S@h,i:12x/m",
      "redis+sentinel://u:S@h,u:S@i/m",
      "redis+sentinel://u:S,x@h,h/m",
      "redis+sentinel://u:S/x@h,i/m",
      "redis+sentinel://u:x,y/S@h,i/m",
      "redis+sentinel://u:x?S@h,i/m",
      "redis+sentinel://u:x,S@y@h/m",
      "redis+sentinel://u:x@S,y@h/m",
      "redis+sentinel://u:S/m",
      "redis+sentinel://u:S,h/m",
      "redis+sentinel://u:x,S/m",
      "redis+sentinel://:12,S/m",
      "redis+sentinel://:x,S:1/m",
      "redis+sentinel://u:12,S%x,y/m",
      "redis+sentinel://u:12,[S,y/m",
      "redis+sentinel://h/m?password=S",
      "redis+sentinel:u:S@h/m",
      "redis+cluster://:S@h/1",
      "redis+cluster://:S@h,h",
      "redis+cluster://:S",
      "redis+cluster://a,b:S",
      "redis+cluster:S",
      "redis://u:S@a,b",
      "redis://u:a,S@a,b",
      "redis://:12,S",
      "redis://u:x,S",
      "redis-sentinel://u:S@h,i/m",
      "redis-sentinel://u:x,S",
      "http://u:S@h",
      "http://:S",
      "http:S",
      "u:S@h",
      ":S@h",
      "S@h",
      "S@h:6379",
      "u:S",
      ":S",
      "my_u:S",
      "my_u:S@h",
      "//u:S@h",
      "//:S",
      "@S@",
      "S@S@S",
      "unix://:S",
      "unix://u:S/s",
      "unix://u:a/S@/s",
      "unix://:S@x/s",
      "unix://:S@",
      "unix:u:S@/s",
      "unix:/s?auth=S",
      "unix://u:S@/s?x=1",
      "unix://u:S@@/s",
      "unix://u:S%@/s",
      "embedded://u:S@h",
      "embedded:u:S@h?x",
  };
  const auto with_secret = [](std::string url) {
    for (auto at = url.find('S'); at != std::string::npos; at = url.find('S', at + kSecret.size())) {
      url.replace(at, 1, kSecret);
    }
    return url;
  };
  for (const auto& url : good) {
    CAPTURE(url);
    const auto text = parse_url(with_secret(url)).text();
    CHECK_MESSAGE(!has(text, kSecret), text);
    CHECK(has(text, "***@"));
  }
  for (const auto& url : bad) {
    CAPTURE(url);
    const auto text = refusal(with_secret(url));
    CHECK_MESSAGE(!has(text, kSecret), text);
    CHECK_MESSAGE(text.rfind("url: '", 0) == 0, text);
  }
}

TEST_CASE("url: text() of an embedded folder that begins with several slashes parses to the same folder") {
  for (const std::string url : {"embedded:%2F/x", "embedded:/%2F%2Fx"}) {
    const auto parsed = parse_url(url);
    CHECK(parsed.folder == "/x");
    CHECK(parse_url(parsed.text()).folder == parsed.folder);
  }
}

TEST_CASE("url: text() is the URL without its password, and parses to the same servers") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"redis://", "redis://127.0.0.1:6379"},
      {"rediss://a%40b:pw@[::1]:7?db=2", "rediss://a%40b:***@[::1]:7/2"},
      {"redis://:pw@h/0", "redis://:***@h:6379"},
      {"redis://ann@h", "redis://***@h:6379"},
      {"unix:/a%20b%3f?db=3", "unix:///a%20b%3F?db=3"},
      {"unix://ann:pw@/s", "unix://ann:***@/s"},
      {"redis+sentinel://a/m", "redis+sentinel://a:26379/m"},
      {"rediss+sentinel://a%40b:pw@a,[::1]:7,c:26379/my%2Fm%40s?db=2",
       "rediss+sentinel://a%40b:***@a:26379,[::1]:7,c:26379/my%2Fm%40s/2"},
      {"redis+sentinel://ann@a,b/%25%20%0a%ff/0", "redis+sentinel://***@a:26379,b:26379/%25%20%0A%FF"},
      {"redis+cluster://:x,y@a,b:1/0", "redis+cluster://:***@a:6379,b:1"},
      {"rediss+cluster://[::1],a?db=0", "rediss+cluster://[::1]:6379,a:6379"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.first);
    const auto url = parse_url(row.first);
    const auto again = parse_url(row.second);
    CHECK(url.text() == row.second);
    CHECK(again.text() == row.second);
    CHECK(again.kind == url.kind);
    CHECK(again.master == url.master);
    CHECK(again.db == url.db);
    REQUIRE(again.addresses.size() == url.addresses.size());
    for (std::size_t i = 0; i < url.addresses.size(); ++i) {
      CHECK(again.addresses[i].text() == url.addresses[i].text());
      CHECK(again.addresses[i].tls == url.addresses[i].tls);
    }
  }
}

}  // namespace
}  // namespace delayqueue::redis
