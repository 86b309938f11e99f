// dqctl serve: what it answers, changes and refuses.
#include "preamble.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serve.h"
#include "support/acl.h"
#include "support/proxy.h"
#include "support/tls_files.h"

using test::kAction;
using test::Served;

namespace {

using Strings = std::vector<std::string>;
using Steady = std::chrono::steady_clock;

// A connection that sends these bytes, and no more unless it is told to.
class RawClient {
 public:
  RawClient(int port, const std::string& bytes) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience{60, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    REQUIRE(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    send(bytes);
  }
  ~RawClient() { ::close(fd_); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void send(const std::string& bytes) { ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }

  // Reads until the text is there, the server closes the connection, or kPatience is over.
  std::string read_until(const std::string& text) {
    const auto until = Steady::now() + kPatience;
    std::array<char, 4096> some;
    while (read_.find(text) == std::string::npos && Steady::now() < until) {
      const auto n = ::recv(fd_, some.data(), some.size(), 0);
      if (n <= 0) break;
      read_.append(some.data(), static_cast<std::size_t>(n));
    }
    return read_;
  }

  int fd() const { return fd_; }

  std::string read_all() { return read_until(std::string("\0\1no such text", 14)); }

 private:
  const int fd_;
  std::string read_;
};

const std::string kListen = "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n";

std::string status_line(const std::string& answer) { return answer.substr(0, answer.find("\r\n")); }

class File {
 public:
  File(const std::string& content, mode_t mode) {
    std::string name = "/tmp/dqctl-serve-test-XXXXXX";
    const int fd = ::mkstemp(name.data());
    REQUIRE(fd >= 0);
    REQUIRE(::write(fd, content.data(), content.size()) == static_cast<ssize_t>(content.size()));
    ::fchmod(fd, mode);
    ::close(fd);
    path_ = name;
  }
  ~File() { ::unlink(path_.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

const std::string kToken = "0123456789abcdef0123456789abcdef";

httplib::Headers bearer(const std::string& token) { return {{"Authorization", "Bearer " + token}}; }

// A queue with messages in every state.
struct Filled {
  Filled() {
    test::empty_server();
    pending = test::send("orders", {"later"}, 1h).front();
    ready = test::send("orders", {"now"}).front();
    held = test::hold("orders", 1min);
    dead = test::make_dead("orders", {"bad", "worse"}, "gateway timeout");
  }

  std::string pending, ready, held;
  Strings dead;
};

// A Redis that answers nothing from now on.
class Frozen {
 public:
  explicit Frozen(const delayqueue::PrivateServer& redis) : pid_(redis.pid()) { ::kill(pid_, SIGSTOP); }
  ~Frozen() { ::kill(pid_, SIGCONT); }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

 private:
  const int pid_;
};

std::string post_text(const std::string& path, const std::string& body) {
  return "POST " + path +
         " HTTP/1.1\r\nHost: localhost\r\nX-Delayqueue-Action: 1\r\nContent-Type: application/json\r\n" +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::size_t lines_with(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::string body_text(const json& body) { return body.dump(); }

}  // namespace

TEST_CASE("serve: every route answers with the document that the interface describes") {
  const Filled filled;
  run({"pause", "orders", "--why", "test"});
  run({"limit", "orders", "--rate", "100/s", "--burst", "20", "--running", "1"});
  const Served served({"--payloads", "--allow-changes"});
  const test::OpenApi api;
  const std::string queue = "/api/queues/orders";
  const std::vector<std::pair<std::string, std::string>> routes = {
      {"/api/server", "Server"},
      {"/api/queues", "Queues"},
      {queue, "QueueDetail"},
      {queue + "/messages?state=pending", "Messages"},
      {queue + "/messages?state=ready&limit=1", "Messages"},
      {queue + "/messages?state=unack&payload=0", "Messages"},
      {queue + "/messages?state=retry", "Messages"},
      {queue + "/messages?state=dead&reason=*timeout*", "Messages"},
      {queue + "/messages/" + filled.dead.front(), "OneMessage"},
      {queue + "/stuck", "Stuck"},
      {queue + "/history", "History"},
      {"/api/history", "WaitingHistory"},
      {queue + "/dead-reasons", "DeadReasons"},
      {queue + "/partitions", "Partitions"},
      {"/api/workers", "Workers"},
      {"/api/find?text=" + filled.dead.front(), "Found"},
      {"/api/find?text=order", "Found"},
      {"/api/audit", "Audit"}};
  for (const auto& route : routes) {
    CAPTURE(route.first);
    CHECK(api.mismatch(served.json(route.first), route.second) == "");
  }
  const json openapi = served.json("/api/openapi.json");
  CHECK(openapi == api.root());
  CHECK(has(served.get("/").body, "<!doctype html>"));
  CHECK(served.get("/style.css").get_header_value("Content-Type") == "text/css; charset=utf-8");
  for (const char* script : {"/page.js", "/elements.js"}) {
    CHECK(served.get(script).get_header_value("Content-Type") == "text/javascript; charset=utf-8");
  }
  CHECK(served.get("/favicon.ico").status == 204);
  CHECK(served.get("/healthz").body == "ok\n");
  CHECK(has(served.get("/metrics").body, "delayqueue_messages{queue=\"orders\",state=\"dead\"} 2\n"));
  const auto head = served.client().Head("/api/queues");
  REQUIRE(static_cast<bool>(head));
  CHECK(head->status == 200);
  CHECK(head->body.empty());
}

TEST_CASE("serve: the messages of a queue with 256 partitions are listed page by page") {
  test::empty_server();
  delayqueue::QueueAdmin(test::server().url(), "q").set_partitions(256);
  delayqueue::Producer(test::server().url(), "q").send_batch(Strings(30, "x"));
  const Served served;
  const std::string path = "/api/queues/q/messages?state=ready&limit=20";
  const json page = served.json(path);
  CHECK(page["messages"].size() == 20);
  CHECK(served.json(path + "&cursor=" + page["next"].get<std::string>())["messages"].size() == 10);
}

TEST_CASE("serve: queues and messages have the figures that are in Redis") {
  const Filled filled;
  const Served served({"--payloads"});
  const json queue = served.json("/api/queues")["queues"][0];
  CHECK(queue["queue"] == "orders");
  CHECK(queue["pending"] == 1);
  CHECK(queue["ready"] == 1);
  CHECK(queue["unack"] == 1);
  CHECK(queue["dead"] == 2);
  CHECK(queue["error"].is_null());
  const json history = served.json("/api/history");
  REQUIRE(history["queues"].size() == 1);
  CHECK(history["queues"][0]["queue"] == "orders");
  CHECK(history["queues"][0]["waiting"].size() == history["minutes"].size());
  CHECK(history["queues"][0]["waiting"].back() == 1);  // the one that is ready
  const json page = served.json("/api/queues/orders/messages?state=dead&limit=1");
  REQUIRE(page["messages"].size() == 1);
  CHECK(page["messages"][0]["payload_start"] == "bad");
  CHECK(page["messages"][0]["reason"] == "gateway timeout");
  const std::string next = page["next"].get<std::string>();
  const json last = served.json("/api/queues/orders/messages?state=dead&limit=1&cursor=" + next);
  REQUIRE(last["messages"].size() == 1);
  CHECK(last["messages"][0]["id"] == filled.dead[1]);
  const json one = served.json("/api/queues/orders/messages/" + filled.held);
  CHECK(one["message"]["held"] == true);
  CHECK(one["message"]["payload"] == "held");
  CHECK(served.json("/api/queues/orders/dead-reasons")["reasons"][0]["count"] == 2);
  CHECK(served.json("/api/find?text=" + filled.ready)["messages"][0]["state"] == "ready");
  CHECK(served.json("/api/queues/nowhere", 404)["status"] == 404);
  served.json("/api/queues/nowhere/messages?state=dead", 404);
  served.json("/api/queues/orders/messages/" + std::string(kId), 404);
  served.json("/api/nothing", 404);
  served.json("/api/queues/orders/nothing", 404);
  served.json("/nothing", 404);
}

TEST_CASE("serve: a queue is late by what waits in any state, so that the order by it shows the worst queues") {
  test::empty_server();
  test::send("later", {"x"}, 1h);
  test::send("ready", test::numbered(3));
  const std::string id = test::send("retry", {"x"}, 1h).front();
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto ended = std::chrono::duration_cast<std::chrono::microseconds>(now - 30min).count();
  test::redis().cmd({"LPUSH", "dp:retry:retry", id});
  test::redis().cmd({"ZREM", "dp:retry:pending", id});
  test::redis().cmd({"HSET", "dp:retry:attempts", id, "1 " + std::to_string(ended)});
  test::send("due", {"x"}, 1h);
  test::rewind("dp:due", 1h + 5min);
  test::hold("lease", -10min);
  std::this_thread::sleep_for(20ms);
  const Served served;
  const auto late = [&](const std::string& queue) {
    const json row = served.json("/api/queues/" + queue);
    CHECK(row.at("oldest_ms") == row.at("lateness_ms"));
    return row.at("lateness_ms");
  };
  CHECK(late("later").is_null());
  CHECK(late("ready") >= 20);
  CHECK(late("ready") < 300'000);
  const auto about = [](const json& ms, std::chrono::minutes span) {
    const auto least = std::chrono::milliseconds(span).count();
    return ms >= least - 1000 && ms < least + 240'000;
  };
  CHECK(about(late("due"), 5min));
  CHECK(about(late("lease"), 10min));
  CHECK(about(late("retry"), 30min));
}

TEST_CASE("serve: consumers are those of dqctl workers, and metrics are those of dqctl metrics") {
  test::empty_server();
  delayqueue::Consumer consumer(
      test::server().url(), "orders", [](const auto&) { return delayqueue::ack(); },
      with(&delayqueue::ConsumerOptions::name, "orders-service"));
  consumer.start();
  REQUIRE(eventually([&] { return test::redis().cmd({"EXISTS", "dp:orders:consumers"}) == 1; }, kPatience));
  const Served served;
  const json found = served.json("/api/workers");
  CHECK(test::OpenApi().mismatch(found, "Workers") == "");
  REQUIRE(found["workers"].size() == 1);
  const json shown = parse_json(run({"workers", "-o", "json"}).out)["workers"][0];
  for (const char* field : {"consumer", "name", "host", "pid", "version", "queues", "concurrency"}) {
    CAPTURE(field);
    CHECK(found["workers"][0][field] == shown[field]);
  }
  CHECK(found["workers"][0]["name"] == "orders-service");
  CHECK(has(served.get("/metrics").body, "delayqueue_up{queue=\"orders\"} 1\n"));
  CHECK(consumer.stop());
}

TEST_CASE("serve: the name of a queue may have any bytes") {
  test::empty_server();
  const std::string name = "a/b?c=1&d#e%\xff";
  test::send(name, {"x"});
  const Served served;
  const std::string path = "/api/queues/a%2Fb%3Fc%3D1%26d%23e%25%FF";
  CHECK(served.json(path)["queue_base64"].is_string());
  CHECK(served.json("/api/history")["queues"][0]["queue_base64"] == served.json(path)["queue_base64"]);
  CHECK(served.json(path + "/messages?state=ready")["messages"].size() == 1);
}

TEST_CASE("serve: queues with names over 1,024 bytes are counted as left out") {
  test::empty_server();
  test::send("orders", {"x"});
  test::redis().cmd({"SADD", "dp:queues", "dp:" + std::string(1'000'000, 'x')});
  const Served served;
  const json document = served.json("/api/queues");
  CHECK(document["left_out"] == 1);
  REQUIRE(document["queues"].size() == 1);
  CHECK(document["queues"][0]["queue"] == "orders");
  const std::string page = served.get("/metrics").body;
  CHECK(has(page, "delayqueue_up{queue=\"orders\"} 1\n"));
  CHECK_FALSE(has(page, "xxxx"));
}

TEST_CASE("serve: a queue whose name browsers remove from a path has a ~ in front") {
  test::empty_server();
  const std::vector<std::pair<std::string, std::string>> names = {{".", "~."},       {"..", "~.."},  {"~.", "~~."},
                                                                  {"~~..", "~~~.."}, {"...", "..."}, {"~", "~"},
                                                                  {"~...", "~..."},  {"~.a", "~.a"}};
  for (const auto& name : names) test::send(name.first, {"x"}, 1h);
  const Served served({"--allow-changes"});
  for (const auto& pair : names) {
    const std::string& name = pair.first;
    CAPTURE(name);
    const std::string path = "/api/queues/" + pair.second;
    CHECK(served.json(path)["queue"] == name);
    CHECK(served.json(path + "/messages?state=pending")["queue"] == name);
    CHECK(served.json(path + "/history")["queue"] == name);
    CHECK(served.change(path + "/pause", R"({"dry_run":false})")["queue"] == name);
    CHECK(test::counts(name).paused);
  }
  CHECK(served.json("/api/queues/..")["queue"] == "..");  // of a client that leaves it as it is
  served.json("/api/queues/~~~.", 404);
  served.json("/api/queues/orders/messages/~..", 400);
}

TEST_CASE("metrics --listen: /metrics has what dqctl metrics prints, and only /healthz is beside it") {
  const Filled filled;
  test::send("mails", {"x"});
  Served served({}, {}, "metrics");
  CHECK(has(served.dqctl().err(), "dqctl metrics: listening on http://127.0.0.1:"));
  const httplib::Response page = served.get("/metrics");
  CHECK(page.status == 200);
  CHECK(page.get_header_value("Content-Type") == "text/plain; version=0.0.4; charset=utf-8");
  CHECK(has(page.body, "delayqueue_messages{queue=\"orders\",state=\"dead\"} 2\n"));
  const auto without_ages = [](const std::string& text) {
    Strings lines = test::text_lines(text);
    lines.erase(std::remove_if(lines.begin(), lines.end(), [](const auto& line) { return has(line, "_seconds{"); }),
                lines.end());
    return lines;
  };
  CHECK(without_ages(page.body) == without_ages(run({"metrics"}).out));
  CHECK(served.get("/healthz").body == "ok\n");
  for (const char* path :
       {"/", "/page.js", "/api/queues", "/api/openapi.json", "/metrics/x", "/metrics/", "//metrics"}) {
    CAPTURE(path);
    served.json(path, 404);
  }
  served.json("/metrics?x=1", 400);
  CHECK(served.post("/metrics", "{}").status == 405);
  CHECK(served.post("/metrics", "{}").get_header_value("Allow") == "GET, HEAD");
  served.change("/api/queues/orders/pause", R"({"dry_run":false})", 404);
  CHECK(served.get("/metrics", {{"Host", "evil.example"}}).status == 421);
  CHECK(served.get("/healthz", {{"Host", "evil.example"}}).status == 421);
  served.dqctl().signal(SIGTERM);
  CHECK(served.dqctl().wait().code == 0);
}

TEST_CASE("metrics --listen: of named queues only, and Redis is read only for a request") {
  test::empty_server();
  test::send("orders", {"x"});
  test::send("mails", {"x"});
  const Served served({"orders"}, {}, "metrics");
  const std::string page = served.get("/metrics").body;
  CHECK(has(page, "delayqueue_up{queue=\"orders\"} 1\n"));
  CHECK_FALSE(has(page, "mails"));
  const auto commands = [] {
    const std::string info = test::redis().cmd({"INFO", "stats"}).text;
    return std::stoll(info.substr(info.find("total_commands_processed:") + 25));
  };
  const long long before = commands();
  std::this_thread::sleep_for(1500ms);
  CHECK(commands() - before <= 1);  // INFO itself
}

TEST_CASE("metrics --listen: with a token /metrics needs it, /healthz does not") {
  test::empty_server();
  test::send("orders", {"x"});
  const File file(kToken + "\n", 0600);
  const Served served({"--token-file", file.path()}, {}, "metrics");
  CHECK(served.get("/metrics").status == 401);
  CHECK(served.get("/metrics", bearer(kToken + "0")).status == 401);
  CHECK(served.get("/nothing").status == 401);
  CHECK(has(served.get("/metrics", bearer(kToken)).body, "delayqueue_up{queue=\"orders\"} 1\n"));
  CHECK(served.get("/healthz").status == 200);
}

TEST_CASE("metrics --listen: it starts where dqctl serve does, and not where everybody could read the queues") {
  const auto refused = [](const Strings& options, const std::string& way_out) {
    CAPTURE(way_out);
    Strings words = {"metrics"};
    words.insert(words.end(), options.begin(), options.end());
    expect(run(words), 2, {err_has(way_out)});
  };
  const File token(kToken, 0600), shared(kToken, 0644);
  refused({"--listen", "0.0.0.0:0"}, "--token-file");
  refused({"--listen", "[::]:0"}, "--https-client-ca");
  refused({"--listen", "127.0.0.1:0", "--token-file", shared.path()}, "chmod 600");
  refused({"--listen", "127.0.0.1:0", "--https-cert", "/nowhere"}, "expected both");
  refused({"--listen", "127.0.0.1:0", "--https-client-ca="}, "--https-client-ca: ''; expected a value");
  refused({"--listen", "127.0.0.1:0", "-o", "json"}, "dqctl stats -o json");
  refused({"--token-file", token.path()}, "expected --listen HOST:PORT");
  refused({"--host", "queues.example", "orders"}, "expected --listen HOST:PORT");
  test::empty_server();
  Dqctl open({"metrics", "--listen", "0.0.0.0:0", "--token-file", token.path()});
  CHECK(open.wait_for("the token is sent without TLS"));
  const test::TlsFiles& files = test::TlsFiles::shared();
  Dqctl served({"metrics", "--listen", "127.0.0.1:0", "--https-cert", files.server.cert, "--https-key",
                files.server.key, "--https-client-ca", files.ca});
  const std::string before = "listening on https://127.0.0.1:";
  REQUIRE(served.wait_for(before));
  const int port = std::stoi(served.err().substr(served.err().find(before) + before.size()));
  httplib::SSLClient with("127.0.0.1", port, files.client.cert, files.client.key), without("127.0.0.1", port);
  with.enable_server_certificate_verification(false);
  without.enable_server_certificate_verification(false);
  const auto answer = with.Get("/metrics");
  CHECK((answer && answer->status == 200));
  CHECK_FALSE(static_cast<bool>(without.Get("/metrics")));
}

TEST_CASE("metrics --listen: while Redis is away the answers are 503, and it comes back alone") {
  delayqueue::PrivateServer redis;
  static_cast<void>(delayqueue::Producer(redis.url(), "orders").send("x"));
  redis.kill();
  Served served({}, at(redis.url()), "metrics");
  CHECK(has(served.dqctl().err(), "each request tries again"));
  served.json("/metrics", 503);
  CHECK(served.get("/healthz").status == 503);
  CHECK(served.get("/healthz").body == "redis is unreachable\n");
  redis.restart();
  CHECK(eventually([&] { return served.get("/healthz").status == 200; }, 60s));
  CHECK(has(served.get("/metrics").body, "delayqueue_up{queue=\"orders\"} 1\n"));
}

TEST_CASE("metrics --listen: while Redis is frozen, named queues together take little longer than one") {
  delayqueue::PrivateServer redis;
  Strings names = test::numbered(8);
  for (const std::string& name : names) static_cast<void>(delayqueue::Producer(redis.url(), name).send("x"));
  Strings options = names;
  options.insert(options.end(), {"--command-timeout", "1s"});
  const Served served(options, at(redis.url()), "metrics");
  CHECK(lines_with(served.get("/metrics").body, "\ndelayqueue_up{") == names.size());
  std::this_thread::sleep_for(1100ms);  // the answer is not kept any longer
  const Frozen frozen(redis);
  const auto begin = Steady::now();
  const httplib::Response page = served.get("/metrics");
  CHECK(Steady::now() - begin < 8s);  // 1 s for the first, 250 ms for each of the others
  CHECK(page.status == 200);
  for (const std::string& name : names) CHECK(has(page.body, "delayqueue_up{queue=\"" + name + "\"} 0\n"));
}

TEST_CASE("metrics --listen: after Redis was away it is read over a slow link, too") {
  delayqueue::PrivateServer redis;
  for (const char* name : {"orders", "mails"}) static_cast<void>(delayqueue::Producer(redis.url(), name).send("x"));
  test::FaultProxy proxy(redis.socket(), test::FaultProxy::Via::unix_socket);
  proxy.refuse(true);
  const Served served({"orders", "mails"}, at(proxy.url()), "metrics");
  CHECK(has(served.get("/metrics").body, "delayqueue_up{queue=\"mails\"} 0\n"));
  proxy.delay(150ms);  // longer than the timeouts for queues after one that could not be read
  proxy.refuse(false);
  CHECK(eventually([&] { return has(served.get("/metrics").body, "delayqueue_up{queue=\"mails\"} 1\n"); }, 20s));
}

TEST_CASE("metrics --listen: /healthz does not wait for a scrape that takes long") {
  delayqueue::PrivateServer redis;
  for (const std::string& name : test::numbered(12)) {
    static_cast<void>(delayqueue::Producer(redis.url(), name).send("x"));
  }
  test::FaultProxy proxy(redis.socket(), test::FaultProxy::Via::unix_socket);
  const Served served({}, at(proxy.url()), "metrics");
  proxy.delay(150ms);
  std::atomic<bool> scraped{false};
  std::thread scrape([&] {
    static_cast<void>(served.client().Get("/metrics"));  // two round trips of 300 ms for each queue
    scraped = true;
  });
  std::this_thread::sleep_for(1200ms);  // the check at the start is not kept any longer
  const auto health = served.client().Get("/healthz");
  CHECK_FALSE(scraped);
  scrape.join();
  REQUIRE(static_cast<bool>(health));
  CHECK(health->body == "ok\n");
}

TEST_CASE("metrics --listen: a signal during the start ends it with code 0") {
  test::empty_server();
  test::FaultProxy proxy(test::server().socket(), test::FaultProxy::Via::unix_socket);
  proxy.hold_replies(true);
  Dqctl dqctl({"metrics", "--listen", "127.0.0.1:0"}, at(proxy.url()));
  REQUIRE(eventually([&] { return proxy.counts().links > 0; }, kPatience));
  dqctl.signal(SIGTERM);
  std::this_thread::sleep_for(100ms);
  proxy.hold_replies(false);
  expect(dqctl.wait(), 0, {err_is("")});
}

TEST_CASE("metrics --listen: for named queues the user needs no right to list queues") {
  const test::Guarded guarded;
  static_cast<void>(delayqueue::Producer(guarded.server.url(), "orders").send("x"));
  const Served served({"orders"}, at(guarded.url("inspector")), "metrics");
  CHECK(served.get("/healthz").body == "ok\n");
  CHECK(has(served.get("/metrics").body, "delayqueue_up{queue=\"orders\"} 1\n"));
}

TEST_CASE("metrics --listen: Redis counts as reachable if a named queue cannot be read") {
  test::empty_server();
  test::redis().cmd({"SET", "dp:orders:unack", "something else"});
  const Served served({"orders"}, {}, "metrics");
  CHECK(served.get("/healthz").body == "ok\n");
  CHECK(has(served.get("/metrics").body, "delayqueue_up{queue=\"orders\"} 0\n"));
}

TEST_CASE("metrics --listen: stderr says once why a queue cannot be read") {
  test::empty_server();
  test::send("orders", {"x"});
  test::send("mails", {"x"});
  test::redis().cmd({"DEL", "dp:mails:unack"});
  test::redis().cmd({"SET", "dp:mails:unack", "something else"});
  Served served({}, {}, "metrics");
  CHECK(has(served.get("/metrics").body, "delayqueue_up{queue=\"mails\"} 0\n"));
  std::this_thread::sleep_for(1100ms);  // the answer is not kept any longer
  CHECK(has(served.get("/metrics").body, "delayqueue_up{queue=\"mails\"} 0\n"));
  served.dqctl().signal(SIGTERM);
  const std::string err = served.dqctl().wait().err;
  CHECK(lines_with(err, "dqctl metrics: warning: ") == 1);
  CHECK(lines_with(err, "mails") > 0);
  CHECK(has(err, "dqctl doctor QUEUE"));
  CHECK_FALSE(has(err, "orders"));
}

TEST_CASE("serve: payloads are hidden unless they are allowed") {
  const Filled filled;
  const Served served;
  for (const char* path : {"/api/queues/orders/messages?state=dead", "/api/queues/orders/messages?state=pending"}) {
    const json answer = served.json(path);
    for (const json& message : answer["messages"]) CHECK_FALSE(message.contains("payload_start"));
  }
  const json one = served.json("/api/queues/orders/messages/" + filled.dead.front())["message"];
  CHECK_FALSE(one.contains("payload"));
  CHECK(one["size"] == 3);
  CHECK(has(served.json("/api/queues/orders/messages?state=dead&payload=1", 403)["error"].get<std::string>(),
            "--payloads"));
  served.json("/api/queues/orders/messages/" + filled.dead.front() + "?payload=1", 403);
  CHECK_FALSE(has(served.get("/api/find?text=" + filled.dead.front()).body, "payload"));
  CHECK(served.json("/api/server")["payloads"] == false);
}

TEST_CASE("serve: headers are hidden unless payloads are allowed") {
  test::empty_server();
  delayqueue::SendOptions options;
  options.delay = 1h;
  options.headers = {{"tenant", "acme"}};
  delayqueue::Producer producer(test::server().url(), "orders");
  const std::string id = producer.send("x", options).id;
  const std::string paths[] = {"/api/queues/orders/messages?state=pending", "/api/queues/orders/messages/" + id,
                               "/api/find?text=" + id};
  const Served closed;
  for (const std::string& path : paths) CHECK_FALSE(has(closed.get(path).body, "acme"));
  const Served open({"--payloads"});
  for (const std::string& path : paths) {
    CAPTURE(path);
    CHECK(has(open.get(path).body, R"("headers":[{"name":"tenant","value":"acme"}])"));
  }
}

TEST_CASE("serve: parameters that are wrong, repeated or unknown are refused") {
  const Filled filled;
  const Served served({"--payloads"});
  const std::string messages = "/api/queues/orders/messages";
  for (const char* query :
       {"", "?state=done", "?state=", "?state=dead&limit=0", "?state=dead&limit=201", "?state=dead&limit=x",
        "?state=dead&limit=%31%20", "?state=dead&state=dead", "?state=dead&other=1", "?state=dead&cursor=zzz",
        "?state=dead&payload=4097", "?state=dead&payload=-1", "?state", "?%zz=1"}) {
    CAPTURE(query);
    const json answer = served.json(messages + query, 400);
    CHECK_FALSE(answer["error"].get<std::string>().empty());
  }
  served.json(messages + "/not-an-id", 400);
  served.json("/api/queues?x=1", 400);
  served.json("/api/find", 400);
  served.json("/api/find?text=", 400);
  served.json("/api/queues/", 400);
  served.json("/api/queues/%2", 400);
}

TEST_CASE("serve: answers forbid what a page does not need") {
  test::empty_server();
  const Served served;
  for (const char* path : {"/", "/page.js", "/api/queues", "/api/nothing"}) {
    CAPTURE(path);
    const httplib::Response answer = served.get(path, {{"Origin", "http://evil.example"}});
    CHECK(has(answer.get_header_value("Content-Security-Policy"), "default-src 'none'; script-src 'self'"));
    CHECK(has(answer.get_header_value("Content-Security-Policy"), "frame-ancestors 'none'"));
    CHECK(answer.get_header_value("X-Content-Type-Options") == "nosniff");
    CHECK(answer.get_header_value("Referrer-Policy") == "no-referrer");
    CHECK(answer.get_header_value("Cache-Control") == "no-store");
    CHECK_FALSE(answer.has_header("Access-Control-Allow-Origin"));
    CHECK_FALSE(answer.has_header("Set-Cookie"));
  }
}

TEST_CASE("serve: another Host is refused, so that no page can use its own name for this address") {
  test::empty_server();
  const Served served({"--host", "queues.example", "--host", "other.example"});
  for (const char* host : {"localhost", "LOCALHOST:9480", "127.0.0.1", "[::1]:80", "[0:0:0:0:0:0:0:1]",
                           "queues.example", "Queues.Example:443", "other.example"}) {
    CAPTURE(host);
    CHECK(served.get("/api/queues", {{"Host", host}}).status == 200);
  }
  for (const char* host : {"evil.example", "localhost.evil.example", "localhost:x", "[::1", "a b", ":80"}) {
    CAPTURE(host);
    CHECK(served.get("/api/queues", {{"Host", host}}).status == 421);
    CHECK(served.get("/", {{"Host", host}}).status == 421);
    CHECK(served.get("/healthz", {{"Host", host}}).status == 421);
  }
}

TEST_CASE("serve: with a token every answer with data needs it") {
  test::empty_server();
  const File file(kToken + "\n", 0600);
  const Served served({"--token-file", file.path()});
  for (const char* path : {"/", "/style.css", "/page.js", "/healthz"}) CHECK(served.get(path).status == 200);
  for (const char* path :
       {"/api/queues", "/api/server", "/api/events", "/metrics", "/api/openapi.json", "/api/nothing"}) {
    CAPTURE(path);
    const httplib::Response refused = served.get(path);
    CHECK(refused.status == 401);
    CHECK(refused.get_header_value("WWW-Authenticate") == "Bearer");
    CHECK(served.get(path, bearer(kToken + "0")).status == 401);
    CHECK(served.get(path, bearer(kToken.substr(1))).status == 401);
    CHECK(served.get(path, bearer("")).status == 401);
    CHECK(served.get(path, {{"Authorization", "Basic " + kToken}}).status == 401);
  }
  CHECK(served.get("/api/queues", bearer(kToken)).status == 200);
  for (const char* scheme : {"bearer ", "BEARER ", "beAreR   "}) {
    CHECK(served.get("/api/queues", {{"Authorization", scheme + kToken}}).status == 200);
  }
  for (const char* scheme : {"Bearer", "Basic ", "bearer\t", ""}) {
    CHECK(served.get("/api/queues", {{"Authorization", scheme + kToken}}).status == 401);
  }
  CHECK(served.get("/metrics", bearer(kToken)).status == 200);
  CHECK(served.post("/api/queues/orders/pause", "{}").status == 401);
}

TEST_CASE("serve: a percent-encoded token, Host or Origin is refused, and a token may have a % itself") {
  test::empty_server();
  const std::string token = "%41" + kToken;
  const File file(token + "\n", 0600);
  const Served served({"--token-file", file.path(), "--allow-changes"});
  CHECK(served.get("/api/queues", bearer(token)).status == 200);
  for (const std::string& wrong : {"A" + kToken, "%2541" + kToken, "%41%30" + kToken.substr(1)}) {
    CAPTURE(wrong);
    CHECK(served.get("/api/queues", bearer(wrong)).status == 401);
  }
  CHECK(served.get("/api/queues", {{"Authorization", "Bearer%20" + token}}).status == 401);
  const auto with = [&](const std::string& name, const std::string& value) {
    httplib::Headers headers = bearer(token);
    headers.emplace("X-Delayqueue-Action", "1");
    headers.erase(name);
    headers.emplace(name, value);
    return headers;
  };
  for (const char* host : {"local%68ost", "127.0.0.%31", "localhost%3A80", "%5B::1]"}) {
    CAPTURE(host);
    CHECK(served.get("/api/queues", with("Host", host)).status == 421);
  }
  const std::string pause = "/api/queues/orders/pause", body = R"({"dry_run":true})";
  const std::string port = std::to_string(served.port());
  CHECK(served.post(pause, body, with("Origin", "http://127.0.0.1:" + port)).status == 404);  // there is no such queue
  CHECK(served.post(pause, body, with("Origin", "http://127.0.0.1%3A" + port)).status == 403);
  CHECK(served.post(pause, body, with("Sec-Fetch-Site", "same%2Dorigin")).status == 403);
  CHECK(served.post(pause, body, with("X-Delayqueue-Action", "%31")).status == 403);
  CHECK(served.post(pause, body, with("X-Other", "1"), "application%2Fjson").status == 415);
}

TEST_CASE("serve: a query may have a ?, as every URL") {
  test::empty_server();
  test::send("really?", {"x"});
  const Served served;
  CHECK(served.json("/api/find?text=really?")["queues"].size() == 1);
  CHECK(served.json("/api/queues??", 400)["status"] == 400);
}

TEST_CASE("serve: it does not start where everybody could read the queues") {
  const auto refused = [](const Strings& options, const std::string& way_out) {
    CAPTURE(way_out);
    Strings words = {"serve"};
    words.insert(words.end(), options.begin(), options.end());
    expect(run(words), 2, {err_has(way_out)});
  };
  const File token(kToken, 0600), shared(kToken, 0644), shortened(kToken.substr(1), 0600), blank(kToken + " x", 0600),
      empty("", 0600);
  refused({"--listen", "0.0.0.0:0"}, "--token-file");
  refused({"--listen", "[::]:0"}, "--token-file");
  refused({"--listen", "192.0.2.1:0"}, "--https-client-ca");
  refused({"--listen", "queues.example:80"}, "numeric address");
  refused({"--listen", "127.0.0.1"}, "127.0.0.1:9480");
  refused({"--listen", "127.0.0.1:65536"}, "0 to 65535");
  refused({"--listen", "127.0.0.1:0", "--socket", "/tmp/x"}, "one of them");
  refused({"--token-file", shared.path()}, "chmod 600");
  refused({"--token-file", shortened.path()}, "at least 32");
  refused({"--token-file", blank.path()}, "at least 32");
  refused({"--token-file", "/nowhere"}, "No such file or directory; expected one made by");
  refused({"--token-file", "/tmp"}, "not a regular file");
  refused({"--token-file", empty.path()}, "at least 32");
  refused({"--socket", "/nowhere/socket"}, "a folder that exists");
  refused({"--socket", ""}, "1 to 107 bytes");
  refused({"--https-cert", "/nowhere"}, "expected both");
  refused({"--https-cert", "/nowhere", "--https-key", "/nowhere"}, "No such file or directory");
  refused({"--https-client-ca", "/nowhere"}, "--https-cert");
  for (const char* option : {"--https-cert", "--https-key", "--https-client-ca"}) {
    refused({option, ""}, std::string(option) + ": ''; expected a value");
  }
  refused({"--host", "a b"}, "--host");
  refused({"--socket", token.path()}, "is no socket");
  CHECK_FALSE(has(run({"serve", "--token-file", shared.path()}).err, kToken));
}

TEST_CASE("serve: nothing can be changed unless it is allowed, with any request") {
  const Filled filled;
  const Served served;
  const std::string queue = "/api/queues/orders";
  for (const char* action : {"/pause", "/resume", "/redrive", "/purge"}) {
    for (const char* body : {"{\"dry_run\":true}", "{\"dry_run\":false}", "{", ""}) {
      CHECK(served.change(queue + action, body, 403)["status"] == 403);
    }
  }
  for (const char* action : {"/release", "/cancel", "/reschedule", "/redrive"}) {
    served.change(queue + "/messages/" + filled.pending + action, "{\"dry_run\":false}", 403);
  }
  CHECK(served.json("/api/server")["allow_changes"] == false);
  CHECK(served.json("/api/audit")["changes"].empty());
  CHECK(test::counts("orders").dead == 2);
}

TEST_CASE("serve: changes that a page of another site may have sent are refused") {
  const Filled filled;
  const Served served({"--allow-changes"});
  const std::string path = "/api/queues/orders/purge";
  const std::string body = R"({"dry_run":false,"state":"dead","at_most":2})";
  const auto with = [](const std::string& name, const std::string& value) {
    httplib::Headers headers = kAction;
    headers.emplace(name, value);
    return headers;
  };
  CHECK(served.post(path, body, {}).status == 403);
  CHECK(served.post(path, body, {{"X-Delayqueue-Action", "0"}}).status == 403);
  CHECK(served.post(path, body, kAction, "text/plain").status == 415);
  CHECK(served.post(path, body, kAction, "application/x-www-form-urlencoded").status == 415);
  CHECK(served.post(path, body, with("Origin", "http://evil.example")).status == 403);
  CHECK(served.post(path, body, with("Origin", "null")).status == 403);
  CHECK(served.post(path, body, with("Sec-Fetch-Site", "cross-site")).status == 403);
  CHECK(served.post(path, body, with("Sec-Fetch-Site", "same-site")).status == 403);
  CHECK(test::counts("orders").dead == 2);
  CHECK(served.post(path, body, with("Origin", "http://127.0.0.1:" + std::to_string(served.port()))).status == 200);
  CHECK(test::counts("orders").dead == 0);
}

TEST_CASE("serve: a purge tells first what it would delete, and deletes no more than that") {
  test::empty_server();
  test::make_dead("orders", test::numbered(30), "gateway timeout");
  test::make_dead("orders", test::numbered(10), "bad input");
  const Served served({"--allow-changes"});
  const test::OpenApi api;
  const std::string path = "/api/queues/orders/purge";
  const json dry = served.change(path, R"({"dry_run":true,"state":"dead","reason":"*timeout*"})");
  CHECK(api.mismatch(dry, "BulkResult") == "");
  CHECK(dry["matching"] == 30);
  CHECK(dry["of"] == 40);
  CHECK(dry["complete"] == true);
  CHECK(dry["sample"].size() == 5);
  CHECK(test::counts("orders").dead == 40);
  CHECK(served.json("/api/audit")["changes"].empty());
  CHECK(has(served.change(path, R"({"dry_run":false,"state":"dead"})", 400)["error"].get<std::string>(), "at_most"));
  const json some = served.change(path, R"({"dry_run":false,"state":"dead","reason":"*timeout*","at_most":7})");
  CHECK(api.mismatch(some, "BulkResult") == "");
  CHECK(some["done"] == 7);
  CHECK(test::counts("orders").dead == 33);
  const json rest = served.change(path, R"({"dry_run":false,"state":"dead","reason":"*timeout*","at_most":1000})");
  CHECK(rest["done"] == 23);
  CHECK(rest["complete"] == true);
  CHECK(test::counts("orders").dead == 10);
  CHECK(served.change(path, R"({"dry_run":true,"state":"dead"})")["matching"] == 10);
  CHECK(served.change(path, R"({"dry_run":false,"state":"dead","at_most":4})")["done"] == 4);
  CHECK(test::counts("orders").dead == 6);
  served.change(path, R"({"dry_run":true,"state":"unack"})", 400);
}

// Runs all parts of a change, and returns the last answer with the sums of all.
json all_parts(const Served& served, const std::string& path, json body, const std::function<void(int)>& between = {}) {
  const test::OpenApi api;
  json sum = {{"matching", 0}, {"done", 0}, {"examined", 0}, {"parts", 0}};
  const auto at_most = body.value("at_most", 0);
  while (true) {
    json answer = served.change(path, body.dump());
    CHECK(api.mismatch(answer, "BulkResult") == "");
    for (const char* name : {"matching", "done", "examined"}) {
      if (answer[name].is_number()) sum[name] = sum[name].get<int>() + answer[name].get<int>();
    }
    sum["parts"] = sum["parts"].get<int>() + 1;
    sum["error"] = answer["error"];
    if (answer["complete"] == true || !answer["error"].is_null()) return sum;
    REQUIRE(answer["next"].is_string());
    REQUIRE(sum["parts"].get<int>() < 100);
    body["cursor"] = answer["next"];
    if (at_most > 0) body["at_most"] = at_most - sum["done"].get<int>();
    if (between) between(sum["parts"].get<int>());
  }
}

TEST_CASE("serve: a redrive by reason in a long list goes on in parts, also those that find nothing") {
  constexpr int kOthers = 24'000;
  test::empty_server();
  test::fill_dead(test::redis(), kOthers);  // their reasons are "gateway timeout" and "no such user"
  const Strings wanted = test::make_dead("q", test::numbered(500), "disk full");
  test::FaultProxy proxy(test::server().socket());
  const Served served({"--allow-changes"}, at(proxy.url()));
  served.json("/api/queues/q");
  proxy.delay(20ms);  // so that a part ends long before the list
  const std::string path = "/api/queues/q/redrive";
  const json dry = all_parts(served, path, {{"dry_run", true}, {"reason", "disk*"}});
  CHECK(dry["matching"] == 500);
  CHECK(dry["examined"] == kOthers + 500);
  CHECK(dry["parts"].get<int>() > 1);
  CHECK(test::counts("q").dead == kOthers + 500);
  // Between two parts others take dead letters that were read, redrive one that was not, and add one that matches.
  const json made = all_parts(served, path, {{"dry_run", false}, {"reason", "disk*"}, {"at_most", 500}}, [&](int part) {
    if (part > 1) return;
    CHECK(run({"purge", "q", "--state", "dead", "--reason", "gateway*", "--yes"}).code == 0);
    CHECK(run({"redrive", "q", wanted.front()}).code == 0);
    test::make_dead("q", {"late"}, "disk full");
  });
  CHECK(made["error"].is_null());
  CHECK(made["parts"].get<int>() > 1);
  CHECK(made["done"] == 499);
  CHECK(test::counts("q").ready == 500);
  CHECK(test::counts("q").dead == kOthers / 2 + 1);
  // Parts that changed nothing are no entries of the audit, but the first.
  const json changes = served.json("/api/audit")["changes"];
  CHECK(changes.back()["count"] == 0);
  int done = 0;
  for (std::size_t i = 0; i + 1 < changes.size(); ++i) {
    CHECK(changes[i]["count"] > 0);
    done += changes[i]["count"].get<int>();
  }
  CHECK(done == 499);
  test::empty_server();
}

TEST_CASE("serve: a purge by reason of a list goes on in parts") {
  test::empty_server();
  const Strings ids = test::send("q", test::numbered(3600));
  for (std::size_t i = 0; i < ids.size(); i += 9) test::redis().cmd({"HSET", "dp:q:reason", ids[i], "disk full"});
  test::FaultProxy proxy(test::server().socket());
  const Served served({"--allow-changes"}, at(proxy.url()));
  served.json("/api/queues/q");
  proxy.delay(60ms);
  const json made = all_parts(served, "/api/queues/q/purge",
                              {{"dry_run", false}, {"state", "ready"}, {"reason", "disk*"}, {"at_most", 401}});
  CHECK(made["error"].is_null());
  CHECK(made["parts"].get<int>() > 1);
  CHECK(made["done"] == 400);
  CHECK(test::redis().cmd({"HLEN", "dp:q:reason"}) == 0);
}

TEST_CASE("serve: where Redis has just gone away, every answer that needs it has status 503") {
  test::empty_server();
  const std::string id = test::make_dead("orders", {"x"}, "x").front();
  const std::string queue = "/api/queues/orders";
  for (const std::string& path :
       {queue + "/messages?state=dead", queue + "/messages/" + id, queue + "/stuck", queue + "/dead-reasons",
        queue + "/partitions", std::string("/api/workers"), std::string("POST /redrive"), std::string("POST /pause")}) {
    CAPTURE(path);
    test::FaultProxy proxy(test::server().socket());
    const Served served({"--allow-changes"}, at(proxy.url()));
    served.json(queue + "/messages?state=dead");  // from now on the last known state is good for a second
    proxy.refuse(true);
    proxy.cut();
    const bool is_change = has(path, "POST ");
    const auto answer = is_change ? served.post(queue + path.substr(5), R"({"dry_run":true})") : served.get(path);
    CHECK_MESSAGE(answer.status == 503, answer.body);
  }
}

TEST_CASE("serve: a cursor that is none is refused") {
  test::empty_server();
  test::make_dead("q", {"x"}, "x");
  const Served served({"--allow-changes"});
  for (const char* cursor : {"", "x", "-", "-.1.0.0.0.x", "1.1.0.0.0.r0.0", "-1.1.0.0.0.d0.", "-.1.0.0.d0.",
                             "99999999999999999999.1.0.0.0.d0.", "7258118400000001.1.0.0.0.d0."}) {
    CAPTURE(cursor);
    const json body = {{"dry_run", true}, {"reason", "*"}, {"cursor", cursor}};
    const json answer = served.change("/api/queues/q/redrive", body.dump(), 400);
    CHECK(has(answer["error"].get<std::string>(), "cursor: "));
  }
  CHECK(served.change("/api/queues/q/redrive",
                      R"({"dry_run":true,"reason":"*","cursor":"-.1.0.0.0.d0."})")["matching"] == 1);
}

TEST_CASE("serve: a field that a body has twice is refused") {
  test::empty_server();
  test::make_dead("orders", test::numbered(2), "x");
  const Served served({"--allow-changes"});
  for (const char* body : {R"({"dry_run":true,"dry_run":false,"state":"dead","at_most":2})",
                           R"({"dry_run":false,"state":"dead","at_most":2,"dry_run":false})",
                           R"({"dry_run":false,"state":"dead","at_most":1,"\u0061t_most":2})"}) {
    CAPTURE(body);
    CHECK(has(served.change("/api/queues/orders/purge", body, 400)["error"].get<std::string>(), " twice"));
  }
  CHECK(has(served.change("/api/queues/orders/pause", R"({"dry_run":true,"reason":"\ud800"})", 400)["error"]
                .get<std::string>(),
            "half of a surrogate pair"));
  CHECK(has(served.change("/api/queues/orders/redrive", R"({"dry_run":false,"at_most":1e400})", 400)["error"]
                .get<std::string>(),
            "at_most: 1e400; expected a number"));
  CHECK(test::counts("orders").dead == 2);
}

TEST_CASE("serve: the reasons are those of the newest 10,000 dead letters") {
  test::empty_server();
  test::fill_dead(test::redis(), 12'000);
  test::make_dead("q", test::numbered(3), "disk full");
  const Served served;
  const json reasons = served.json("/api/queues/q/dead-reasons");
  CHECK(reasons["dead"] == 12'003);
  CHECK(reasons["counted"] == 10'000);
  CHECK(reasons["reasons"].back()["reason"] == "disk full");
  CHECK(reasons["reasons"].back()["count"] == 3);
  test::empty_server();
}

TEST_CASE("serve: a redrive makes dead letters ready, and is in the audit") {
  test::empty_server();
  const Strings ids = test::make_dead("orders", test::numbered(5), "bad\ninput");
  Served served({"--allow-changes"});
  const test::OpenApi api;
  CHECK(served.change("/api/queues/orders/redrive", R"({"dry_run":true})")["matching"] == 5);
  CHECK(served.change("/api/queues/orders/redrive", R"({"dry_run":false,"reason":"*\ninput","at_most":3})")["done"] ==
        3);
  CHECK(test::counts("orders").ready == 3);
  CHECK(test::counts("orders").dead == 2);
  const std::string one = "/api/queues/orders/messages/" + ids.back() + "/redrive";
  const json dry = served.change(one, R"({"dry_run":true})");
  CHECK(api.mismatch(dry, "MessageResult") == "");
  CHECK(dry["grade"] == "good");
  CHECK(served.change(one, R"({"dry_run":false,"retries":1})")["outcome"] == "redriven");
  CHECK(served.change(one, R"({"dry_run":false})")["grade"] == "unknown");
  const json audit = served.json("/api/audit");
  CHECK(api.mismatch(audit, "Audit") == "");
  REQUIRE(audit["changes"].size() == 3);
  CHECK(audit["changes"][2]["action"] == "redrive");
  CHECK(audit["changes"][2]["count"] == 3);
  CHECK(has(audit["changes"][2]["client"].get<std::string>(), "127.0.0.1:"));
  CHECK(audit["changes"][1]["id"] == ids.back());
  CHECK(audit["changes"][0]["count"] == 0);
  CHECK(served.dqctl().wait_for(" at_most=3 count=3\n"));
  CHECK(has(served.dqctl().err(), " redrive orders reason="));
}

TEST_CASE("serve: messages are released, rescheduled and cancelled by their ids") {
  const Filled filled;
  const Served served({"--allow-changes"});
  const test::OpenApi api;
  const auto act = [&](const std::string& id, const std::string& action, const json& body) {
    const json answer = served.change("/api/queues/orders/messages/" + id + '/' + action, body_text(body));
    CHECK(api.mismatch(answer, "MessageResult") == "");
    return answer["grade"].get<std::string>();
  };
  const json dry = {{"dry_run", true}}, really = {{"dry_run", false}};
  CHECK(act(filled.pending, "release", dry) == "good");
  CHECK(act(filled.held, "release", dry) == "refused");
  CHECK(act(filled.ready, "release", dry) == "already");
  CHECK(act(filled.dead.front(), "release", dry) == "refused");
  CHECK(act(kId, "release", dry) == "unknown");
  CHECK(test::counts("orders").pending == 1);
  CHECK(act(filled.pending, "reschedule", {{"dry_run", false}, {"delay_ms", 7'200'000}}) == "good");
  CHECK(act(filled.pending, "reschedule", {{"dry_run", false}, {"at", "2040-01-01T00:00:00Z"}}) == "good");
  CHECK(act(filled.held, "reschedule", {{"dry_run", false}, {"delay_ms", 1}}) == "refused");
  CHECK(act(filled.pending, "release", really) == "good");
  CHECK(act(filled.pending, "release", really) == "already");
  CHECK(act(filled.held, "release", really) == "refused");
  CHECK(act(filled.pending, "cancel", dry) == "good");
  CHECK(act(filled.pending, "cancel", really) == "good");
  CHECK(act(filled.pending, "cancel", really) == "unknown");
}

TEST_CASE("serve: a queue is paused with a reason, not twice, and resumed") {
  const Filled filled;
  const Served served({"--allow-changes"});
  const test::OpenApi api;
  const std::string pause = "/api/queues/orders/pause", resume = "/api/queues/orders/resume";
  const json dry = served.change(pause, R"({"dry_run":true})");
  CHECK(api.mismatch(dry, "QueueResult") == "");
  CHECK(dry["paused"] == false);
  CHECK(dry["waiting"] == 1);
  CHECK(dry["summary"] == "would pause orders until it is resumed, without a reason");
  const json timed = served.change(pause, R"({"dry_run":true,"reason":"migration","for_ms":1800000})");
  CHECK(timed["summary"] == "would pause orders for 30m: migration");
  CHECK_FALSE(test::counts("orders").paused);
  const json paused = served.change(pause, R"({"dry_run":false,"reason":"migration","for_ms":600000})");
  CHECK(paused["paused"] == true);
  CHECK(paused["why"] == "migration");
  CHECK(paused["until"].is_string());
  CHECK(paused["summary"] == "orders is paused: its consumers take nothing for 10m, or until it is resumed");
  CHECK(has(served.change(pause, R"({"dry_run":false})", 409)["error"].get<std::string>(), "migration"));
  CHECK(served.change(pause, R"({"dry_run":false,"replace":true})")["until"].is_null());
  CHECK(served.change(resume, R"({"dry_run":true})")["paused"] == true);
  CHECK(served.change(resume, R"({"dry_run":false})")["paused"] == false);
  CHECK(served.change(resume, R"({"dry_run":false})")["paused"] == false);
  CHECK(served.json("/api/audit")["changes"].size() == 5);  // a change that was refused counts
  CHECK(served.json("/api/audit")["actions"].size() == 3);  // what was changed
}

TEST_CASE("serve: a proxy names the user of a change: in pauses, in dqctl actions, and after a restart of the server") {
  const Filled filled;
  const std::vector<std::string> options = {"--allow-changes", "--user-header", "X-Forwarded-User"};
  const std::string pause = "/api/queues/orders/pause", body = R"({"dry_run":false,"reason":"migration"})";
  const test::OpenApi api;
  auto headers = test::kAction;
  {
    const Served served(options);
    CHECK(served.post(pause, body).status == 403);  // the proxy has named no user
    headers.emplace("X-Forwarded-User", "anna@example.com");
    CHECK(served.post(pause, body, headers).status == 200);
    auto forged = headers;
    forged.emplace("x-forwarded-user", "boss");
    CHECK(served.post(pause, R"({"dry_run":false,"replace":true})", forged).status == 400);
    json row;
    REQUIRE(eventually(
        [&] {
          row = served.json("/api/queues/orders");
          return row["paused"] == true;
        },
        kPatience));
    CHECK(api.mismatch(row, "QueueDetail") == "");
    CHECK(row["paused_by"] == "anna@example.com");
    CHECK(row["paused_since"].is_string());
    CHECK(served.json("/api/audit")["changes"][0]["user"] == "anna@example.com");
  }
  delayqueue::Inspector inspector(test::server().url(), "orders");
  CHECK(inspector.paused()->who == "anna@example.com");
  const json action = parse_json(run({"actions", "orders", "-o", "json"}).out).at("actions").at(0);
  CHECK(holds(
      action,
      {{"who", "anna@example.com"}, {"what", "dqctl serve: pause orders reason=migration"}, {"outcome", "done"}}));
  CHECK(action.at("messages").is_null());
  run({"resume", "orders", "--audit"});

  const Served again(options);
  const json audit = again.json("/api/audit");
  CHECK(api.mismatch(audit, "Audit") == "");
  CHECK(audit["changes"].empty());
  REQUIRE(audit["actions"].size() == 2);
  CHECK(has(audit["actions"][0]["what"].get<std::string>(), " resume orders --audit"));
  CHECK(audit["actions"][1] == action);
  CHECK(run({"serve", "--user-header", "Authorization"}).code == 2);
}

TEST_CASE("serve: bodies that are no object, or have wrong or unknown fields, are refused") {
  const Filled filled;
  const Served served({"--allow-changes"});
  const auto refused = [&](const std::string& action, const std::string& body) {
    CAPTURE(action);
    CAPTURE(body);
    CHECK(served.post("/api/queues/orders/" + action, body).status == 400);
  };
  for (const char* body : {"", "null", "[]", "{", "{}", "{\"dry_run\":1}", "{\"dry_run\":null}",
                           "{\"dry_run\":\"true\"}", "{\"dry_run\":true,\"other\":1}"}) {
    for (const char* action : {"pause", "resume", "redrive", "purge"}) refused(action, body);
    for (const char* action : {"release", "cancel", "reschedule", "redrive"}) {
      refused("messages/" + filled.pending + '/' + action, body);
    }
  }
  refused("pause", R"({"dry_run":true,"for_ms":0})");
  refused("pause", R"({"dry_run":true,"for_ms":1.5})");
  refused("pause", R"({"dry_run":true,"for_ms":-1})");
  refused("pause", R"({"dry_run":true,"reason":")" + std::string(1025, 'x') + "\"}");
  refused("purge", R"({"dry_run":true,"state":"done"})");
  refused("redrive", R"({"dry_run":true,"retries":2147483648})");
  refused("redrive", R"({"dry_run":false,"at_most":0})");
  refused("messages/" + filled.pending + "/reschedule", R"({"dry_run":true,"delay_ms":1,"at":"2040-01-01T00:00:00Z"})");
  refused("messages/" + filled.pending + "/reschedule", R"({"dry_run":true,"at":"+10m"})");
  refused("messages/x/cancel", R"({"dry_run":true})");
  refused("pause", std::string(60'000, '['));
  served.change("/api/queues/nowhere/pause", R"({"dry_run":true})", 404);
  served.change("/api/queues/orders/bury", R"({"dry_run":true})", 405);
  CHECK(served.get("/api/queues/orders/purge").get_header_value("Allow") == "POST");
  CHECK(served.get("/api/queues/orders/messages/" + filled.pending + "/cancel").status == 405);
}

TEST_CASE("serve: requests that are too long, or cannot be read, are refused and the connection is closed") {
  test::empty_server();
  const Served served({"--allow-changes"});
  const auto answered = [&](const std::string& bytes) {
    RawClient client(served.port(), bytes);
    return status_line(client.read_all());
  };
  const std::string host = "Host: localhost\r\n";
  CHECK(has(answered("GET /healthz HTTP/1.1\r\n" + host + "\r\n"), " 200 "));
  CHECK(has(answered("GET /" + std::string(9000, 'x') + " HTTP/1.1\r\n" + host + "\r\n"), " 431 "));
  CHECK(has(answered("GET / HTTP/1.1\r\n" + host + "X: " + std::string(9000, 'x') + "\r\n\r\n"), " 431 "));
  CHECK(has(answered("GET / HTTP/1.1\r\n" + host + std::string(9000, 'x')), " 431 "));
  CHECK(has(answered("POST /api/queues/q/pause HTTP/1.1\r\n" + host + "Content-Length: 65537\r\n\r\n"), " 413 "));
  CHECK(has(answered("POST /api/queues/q/pause HTTP/1.1\r\n" + host + "Content-Length: 99999999999999999999\r\n\r\n"),
            " 413 "));
  for (const std::string& bytes : Strings{
           "GET / HTTP/1.1\r\n\r\n", "GET  / HTTP/1.1\r\n" + host + "\r\n", "GET /\r\n" + host + "\r\n",
           "GET / HTTP/2\r\n" + host + "\r\n", "GET x HTTP/1.1\r\n" + host + "\r\n",
           "GET / HTTP/1.1\r\n" + host + host + "\r\n", "GET / HTTP/1.1\r\n" + host + " folded: 1\r\n\r\n",
           "GET / HTTP/1.1\r\n" + host + "a\nb: 1\r\n\r\n", "GET / HTTP/1.1\r\n" + host + "Content-Length: 1\r\n\r\nx",
           "GET / HTTP/1.1\r\n" + host + "\r\nGET / HTTP/1.1\r\n" + host + "\r\n",
           "POST / HTTP/1.1\r\n" + host + "\r\n", "POST / HTTP/1.1\r\n" + host + "Content-Length: +1\r\n\r\nx",
           "POST / HTTP/1.1\r\n" + host + "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx",
           "POST / HTTP/1.1\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
           "POST / HTTP/1.1\r\n" + host + "Content-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx"}) {
    CAPTURE(bytes);
    CHECK(has(answered(bytes), " 400 "));
  }
  for (const char* method : {"PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get"}) {
    CHECK(has(answered(method + std::string(" / HTTP/1.1\r\n") + host + "\r\n"), " 405 "));
  }
  RawClient ranges(served.port(), "GET / HTTP/1.1\r\n" + host + "Range: bytes=0-1\r\nAccept-Encoding: gzip\r\n\r\n");
  const std::string whole = ranges.read_all();
  CHECK(has(status_line(whole), " 200 "));
  CHECK(has(whole, "<!doctype html>"));
}

TEST_CASE("serve: clients that are slow do not stop others") {
  test::empty_server();
  const Served served;
  std::vector<std::unique_ptr<RawClient>> slow;
  for (int i = 0; i < 150; ++i) {
    slow.push_back(
        std::make_unique<RawClient>(served.port(), i % 2 == 0 ? "" : "GET /api/queues HTTP/1.1\r\nHost: lo"));
  }
  for (int i = 0; i < 20; ++i) {
    const auto begin = Steady::now();
    CHECK(served.get("/api/queues").status == 200);
    CHECK(Steady::now() - begin < 4s);  // a request of a slow client may take 5 s
  }
}

TEST_CASE("serve: a request that does not come to its end is given up") {
  test::empty_server();
  const Served served;
  RawClient slow(served.port(), "GET /api/queues HTTP/1.1\r\n");
  const auto begin = Steady::now();
  CHECK(slow.read_all().empty());
  CHECK(Steady::now() - begin >= 4s);
  CHECK(Steady::now() - begin < 30s);
}

TEST_CASE("serve: listeners get the queues each second and every change") {
  const Filled filled;
  const Served served({"--allow-changes"});
  RawClient listener(served.port(), kListen);
  const std::string head = listener.read_until("event: queues\ndata: ");
  CHECK(has(head, "Content-Type: text/event-stream\r\n"));
  test::send("new", {"x"});
  CHECK(has(listener.read_until("\"queue\":\"new\""), "\"queue\":\"new\""));
  served.change("/api/queues/orders/pause", R"({"dry_run":false,"reason":"for\nlisteners"})");
  listener.read_until("event: audit\ndata: {");
  CHECK(has(listener.read_until("\"action\":\"pause\""), "event: audit\ndata: {"));
  CHECK(served.json("/api/server")["listeners"] == 1);
}

TEST_CASE("serve: at most 16 clients listen, and others still get answers") {
  test::empty_server();
  Served served;
  std::vector<std::unique_ptr<RawClient>> listeners;
  for (int i = 0; i < 16; ++i) {
    listeners.push_back(std::make_unique<RawClient>(served.port(), kListen));
    CHECK(has(listeners.back()->read_until("event: queues"), "event: queues"));
  }
  CHECK(served.json("/api/events", 503)["status"] == 503);
  CHECK(served.get("/api/queues").status == 200);
  listeners.clear();
  CHECK(eventually([&] { return served.json("/api/server")["listeners"] == 0; }, 30s));
  RawClient again(served.port(), kListen);
  CHECK(has(again.read_until("event: queues"), "event: queues"));
  const auto begin = Steady::now();
  served.dqctl().signal(SIGTERM);
  CHECK(served.dqctl().wait().code == 0);
  CHECK(Steady::now() - begin < 5s);
}

TEST_CASE("serve: many clients cost Redis as much as one") {
  const Filled filled;
  const Served served;
  const auto commands = [] {
    const std::string info = test::redis().cmd({"INFO", "stats"}).text;
    return std::stoll(info.substr(info.find("total_commands_processed:") + 25));
  };
  served.get("/api/queues");
  const long long before = commands();
  const auto begin = Steady::now();
  for (int i = 0; i < 200; ++i) served.get("/api/queues");
  const double seconds = std::chrono::duration<double>(Steady::now() - begin).count();
  CHECK(static_cast<double>(commands() - before) < 200 * (seconds + 2));  // a poll takes less than 200
}

TEST_CASE("serve: while Redis is away it answers since when, and it comes back alone") {
  delayqueue::PrivateServer redis;
  static_cast<void>(delayqueue::Producer(redis.url(), "orders").send("x"));
  Served served({"--allow-changes"}, at(redis.url()));
  const test::OpenApi api;
  CHECK(served.json("/api/queues")["redis"]["reachable"] == true);
  RawClient listener(served.port(), kListen);
  listener.read_until("event: queues");
  redis.kill();
  CHECK(eventually([&] { return served.get("/api/queues").status == 503; }, 60s));
  const json away = served.json("/api/queues", 503);
  CHECK(api.mismatch(away, "Queues") == "");
  CHECK(away["queues"][0]["ready"] == 1);  // the last that is known
  CHECK(away["redis"]["reachable"] == false);
  CHECK(away["redis"]["since"].is_string());
  CHECK(api.mismatch(served.json("/api/queues/orders", 503), "QueueDetail") == "");
  CHECK(served.json("/api/queues/orders/history")["minutes"].size() >= 1);
  CHECK(served.json("/api/history")["queues"][0]["waiting"].back() == 1);
  CHECK(served.get("/healthz").status == 503);
  served.json("/api/queues/orders/messages?state=ready", 503);
  served.change("/api/queues/orders/pause", R"({"dry_run":false})", 503);
  CHECK(has(listener.read_until("\"reachable\":false"), "\"reachable\":false"));
  redis.restart();
  CHECK(eventually([&] { return served.get("/api/queues").status == 200; }, 60s));
  CHECK(served.get("/healthz").body == "ok\n");
}

TEST_CASE("serve: it starts while Redis is away") {
  delayqueue::PrivateServer redis;
  redis.kill();
  Served served({}, at(redis.url()));
  CHECK(served.dqctl().wait_for("; trying again until Redis is there\n"));
  const json away = served.json("/api/queues", 503);
  CHECK(away["read_at"].is_null());
  CHECK(away["queues"].empty());
  served.json("/api/queues/orders", 503);
  redis.restart();
  CHECK(eventually([&] { return served.get("/api/queues").status == 200; }, 60s));
}

TEST_CASE("serve: a socket is for this user only, replaces an abandoned one, and is removed at the end") {
  test::empty_server();
  test::send("orders", {"x"});
  const File place("", 0600);
  ::unlink(place.path().c_str());
  const Strings words = {"serve", "--socket", place.path()};
  Dqctl served(words);
  REQUIRE(served.wait_for("payloads are"));
  struct stat found {};
  REQUIRE(::stat(place.path().c_str(), &found) == 0);
  CHECK((found.st_mode & 0777) == 0600);
  httplib::Client client(place.path());
  client.set_address_family(AF_UNIX);
  const auto answer = client.Get("/api/queues", {{"Host", "localhost"}});
  REQUIRE(static_cast<bool>(answer));
  CHECK(parse_json(answer->body)["queues"].size() == 1);
  CHECK(has(run(words).err, "is in use"));
  served.signal(SIGKILL);
  served.wait();
  Dqctl second(words);
  REQUIRE(second.wait_for("payloads are"));
  second.signal(SIGINT);
  CHECK(second.wait().code == 0);
  CHECK(::stat(place.path().c_str(), &found) != 0);
}

TEST_CASE("serve: with TLS only clients with a certificate of the authority are answered") {
  test::empty_server();
  const test::TlsFiles& files = test::TlsFiles::shared();
  Dqctl served({"serve", "--listen", "127.0.0.1:0", "--https-cert", files.server.cert, "--https-key", files.server.key,
                "--https-client-ca", files.ca});
  REQUIRE(served.wait_for("payloads are"));
  const std::string text = served.err();
  const int port = std::stoi(text.substr(text.find("https://127.0.0.1:") + 18));
  const auto status = [&](const test::Certificate& own) {
    httplib::SSLClient client = own.cert.empty() ? httplib::SSLClient("127.0.0.1", port)
                                                 : httplib::SSLClient("127.0.0.1", port, own.cert, own.key);
    client.enable_server_certificate_verification(false);
    const auto answer = client.Get("/api/queues");
    return answer ? answer->status : 0;
  };
  CHECK(status(files.client) == 200);
  CHECK(status(files.foreign_client) == 0);
  CHECK(status({}) == 0);
  RawClient plain(port, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK_FALSE(has(plain.read_all(), "HTTP/1.1 200"));
}

TEST_CASE("serve: a client with a certificate is answered when it tries to resume its TLS session") {
  test::empty_server();
  const test::TlsFiles& files = test::TlsFiles::shared();
  Dqctl served({"serve", "--listen", "127.0.0.1:0", "--https-cert", files.server.cert, "--https-key", files.server.key,
                "--https-client-ca", files.ca});
  REQUIRE(served.wait_for("payloads are"));
  const std::string text = served.err();
  const int port = std::stoi(text.substr(text.find("https://127.0.0.1:") + 18));
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    CAPTURE(version);
    const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(::SSL_CTX_new(::TLS_client_method()), ::SSL_CTX_free);
    SSL_CTX_set_max_proto_version(context.get(), version);
    REQUIRE(::SSL_CTX_use_certificate_file(context.get(), files.client.cert.c_str(), SSL_FILETYPE_PEM) == 1);
    REQUIRE(::SSL_CTX_use_PrivateKey_file(context.get(), files.client.key.c_str(), SSL_FILETYPE_PEM) == 1);
    std::unique_ptr<SSL_SESSION, void (*)(SSL_SESSION*)> session(nullptr, ::SSL_SESSION_free);
    for (int connection = 0; connection < 2; ++connection) {
      CAPTURE(connection);
      const RawClient client(port, "");
      const std::unique_ptr<SSL, void (*)(SSL*)> ssl(::SSL_new(context.get()), ::SSL_free);
      ::SSL_set_fd(ssl.get(), client.fd());
      if (session != nullptr) ::SSL_set_session(ssl.get(), session.get());
      const std::string request = "GET /api/queues HTTP/1.1\r\nHost: localhost\r\n\r\n";
      CHECK(::SSL_connect(ssl.get()) == 1);
      CHECK(::SSL_write(ssl.get(), request.data(), static_cast<int>(request.size())) > 0);
      std::array<char, 4096> some{};
      const int n = ::SSL_read(ssl.get(), some.data(), static_cast<int>(some.size()));
      CHECK(has(std::string(some.data(), static_cast<std::size_t>(std::max(n, 0))), "HTTP/1.1 200"));
      session.reset(::SSL_get1_session(ssl.get()));
    }
  }
}

TEST_CASE("serve: a change that runs at the end is in the audit") {
  delayqueue::PrivateServer redis;
  test::make_dead("orders", 1, "late", redis.url());
  Served served({"--allow-changes"}, at(redis.url()));
  const std::string purge = post_text("/api/queues/orders/purge", R"({"dry_run":false,"state":"dead","at_most":1})");
  served.json("/api/queues");  // so that the readings are new, and the change waits for its own reply only
  const Frozen frozen(redis);
  const RawClient running(served.port(), purge);
  std::this_thread::sleep_for(100ms);
  RawClient refused(served.port(), purge);
  REQUIRE(has(refused.read_all(), "another change of many messages runs"));
  served.dqctl().signal(SIGTERM);
  const Ran ran = expect(served.dqctl().wait(), 0);
  CHECK(lines_with(ran.err, " purge orders ") == 2);
  CHECK(ran.took < 30s);
}

TEST_CASE("serve: a change of many messages that a signal ends says that it is not complete") {
  struct Bulk {
    const char* action;
    const char* fields;
    std::uint64_t messages;
  };
  // Redis is 4 ms away, so that the change of few messages takes long enough for a signal to arrive in between.
  for (const Bulk& bulk : {Bulk{"purge", R"("dry_run":false,"state":"dead")", 30'000},
                           Bulk{"purge", R"("dry_run":false,"state":"dead","reason":"*o*")", 8'000},
                           Bulk{"redrive", R"("dry_run":false)", 8'000}}) {
    CAPTURE(bulk.action);
    CAPTURE(bulk.fields);
    test::empty_server();
    test::fill_dead(test::redis(), static_cast<int>(bulk.messages + 1));
    test::FaultProxy proxy(test::server().socket());
    Served served({"--allow-changes"}, at(proxy.url()));
    const std::string path = std::string("/api/queues/q/") + bulk.action;
    const auto body_of = [&](std::uint64_t most) {
      return std::string("{") + bulk.fields + ",\"at_most\":" + std::to_string(most) + '}';
    };
    CHECK(served.change(path, body_of(1))["done"] == 1);  // makes the connections
    proxy.delay(2ms);
    RawClient client(served.port(), post_text(path, body_of(bulk.messages)));
    REQUIRE(eventually([&] { return test::counts("q").dead < bulk.messages; }, kPatience));
    served.dqctl().signal(SIGTERM);
    const std::string answer = client.read_all();
    CAPTURE(answer);
    CHECK(has(answer, "\"complete\":false"));
    CHECK(lines_with(served.dqctl().wait().err, " count=") == 2);
    CHECK(test::counts("q").dead > 0);
    // Another server goes on with it, and leaves none out.
    json part = json::parse(answer.substr(answer.find("\r\n\r\n")));
    const Served next({"--allow-changes"});
    while (!part["complete"].get<bool>()) {
      json body = json::parse(body_of(bulk.messages));
      if (part["next"].is_string()) body["cursor"] = part["next"];
      part = next.change(path, body.dump());
    }
    json left = json::parse(body_of(1));
    left["dry_run"] = true;
    CHECK(next.change(path, left.dump())["matching"] == 0);
  }
}

TEST_CASE("serve: a search tells what it found when a queue cannot be read") {
  const Filled filled;
  const Served served;
  test::send("broken", {"x"});
  REQUIRE(eventually([&] { return served.json("/api/queues")["queues"].size() == 2; }));
  for (const char* state : {"pending", "ready", "unack", "retry", "dead"}) {
    test::redis().cmd({"SET", std::string("dp:broken:") + state, "no list"});
  }
  const json found = served.json("/api/find?text=" + filled.pending);
  CHECK(found["complete"] == false);
  CHECK(found["messages"].size() == 1);
}

TEST_CASE("serve: while Redis is frozen /healthz answers at once, and listeners hear something within 10 s") {
  delayqueue::PrivateServer redis;
  const Served served({}, at(redis.url()));
  RawClient listener(served.port(), kListen);
  listener.read_until("event: queues");
  const Frozen frozen(redis);
  const auto begin = Steady::now();
  std::this_thread::sleep_for(1200ms);  // the readings are older than a second
  const auto asked = Steady::now();
  served.get("/healthz");
  CHECK(Steady::now() - asked < 700ms);
  CHECK(has(listener.read_until(": nothing new"), ": nothing new"));
  CHECK(Steady::now() - begin < 10s);  // then the page gives up the stream
}
