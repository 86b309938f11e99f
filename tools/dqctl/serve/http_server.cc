#include "serve/http_server.h"

#include <httplib.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <optional>
#include <system_error>

#include "output/json.h"

namespace dqctl {
namespace {

using Clock = Connection::Clock;

constexpr std::chrono::seconds kRequestTime{5};  // for the TLS handshake and the whole request
constexpr std::chrono::seconds kWriteTime{10};   // for each part of an answer
constexpr int kAcceptTick = 200;                 // ms
constexpr std::chrono::milliseconds kAcceptPause{50};
constexpr std::chrono::milliseconds kRoomTime{200};

// Stand for every request: cpp-httplib only needs to know whether the answer has a body.
constexpr std::string_view kGet = "GET / HTTP/1.1\r\n\r\n", kHead = "HEAD / HTTP/1.1\r\n\r\n";

constexpr std::array<std::pair<const char*, const char*>, 7> kHeaders = {
    {{"Content-Security-Policy",
      "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
      "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"},
     {"X-Content-Type-Options", "nosniff"},
     {"X-Frame-Options", "DENY"},
     {"Referrer-Policy", "no-referrer"},
     {"Cross-Origin-Resource-Policy", "same-origin"},
     {"Cross-Origin-Opener-Policy", "same-origin"},
     {"Cache-Control", "no-store"}}};

// Throws HttpError. Unset: the client has closed the connection, or is too slow to be worth an answer.
std::optional<HttpRequest> read_request(Connection& connection, Clock::time_point until) {
  std::string bytes;
  std::array<char, 4096> some;
  std::size_t end = std::string::npos;
  while (end == std::string::npos) {
    if (bytes.size() > kMostHead) throw HttpError(431, "cannot read the request: its head is longer than 8 KiB");
    const std::size_t n = connection.read(some.data(), some.size(), until);
    if (n == 0) return std::nullopt;
    bytes.append(some.data(), n);
    end = bytes.find("\r\n\r\n");
  }
  CheckedHead head = check_head(std::string_view(bytes).substr(0, end + 4));
  HttpRequest& request = head.request;
  request.client = connection.client();
  request.body = bytes.substr(end + 4);
  if (request.body.size() > head.body) throw HttpError(400, "cannot read the request: bytes follow it");
  while (request.body.size() < head.body) {
    const std::size_t n = connection.read(some.data(), std::min(some.size(), head.body - request.body.size()), until);
    if (n == 0) return std::nullopt;
    request.body.append(some.data(), n);
  }
  return std::move(request);
}

// What cpp-httplib reads and writes: kGet or kHead, and the connection.
class RequestStream : public httplib::Stream {
 public:
  RequestStream(std::string_view head, Connection& connection) : head_(head), connection_(connection) {}

  bool is_readable() const override { return !head_.empty(); }
  bool is_writable() const override { return true; }

  ssize_t read(char* into, std::size_t size) override {
    const std::size_t n = head_.copy(into, size);
    head_.remove_prefix(n);
    return static_cast<ssize_t>(n);
  }

  ssize_t write(const char* bytes, std::size_t size) override {
    return connection_.write({bytes, size}, Clock::now() + kWriteTime) ? static_cast<ssize_t>(size) : -1;
  }

  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip.clear();
    port = 0;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override { get_remote_ip_and_port(ip, port); }
  socket_t socket() const override { return 0; }

 private:
  std::string_view head_;
  Connection& connection_;
};

void fill(httplib::Response& response, const HttpAnswer& answer) {
  response.status = answer.status;
  for (const auto& [name, value] : kHeaders) response.set_header(name, value);
  if (!answer.allow.empty()) response.set_header("Allow", answer.allow);
  if (answer.status == 401) response.set_header("WWW-Authenticate", "Bearer");
  if (!answer.events) return response.set_content(answer.body, answer.type);
  response.set_content_provider(answer.type, [events = answer.events](std::size_t, httplib::DataSink& sink) {
    const std::string bytes = events();
    if (!bytes.empty()) return sink.write(bytes.data(), bytes.size());
    sink.done();
    return true;
  });
}

// Writes an answer, which must outlive this object.
class Exchange : private httplib::Server {
 public:
  explicit Exchange(const HttpAnswer& answer) {
    svr_sock_ = 0;  // streams of events end if this is no socket
    set_pre_routing_handler([&answer](const httplib::Request&, httplib::Response& response) {
      fill(response, answer);
      return HandlerResponse::Handled;
    });
  }

  void run(httplib::Stream& stream) { process(&Exchange::process_request, stream); }

 private:
  using Setup = std::function<void(httplib::Request&)>;
  using Process = bool (httplib::Server::*)(httplib::Stream&, bool, bool&, const Setup&);
  // Since cpp-httplib 0.17.
  using ProcessWithAddresses = bool (httplib::Server::*)(httplib::Stream&, const std::string&, int, const std::string&,
                                                         int, bool, bool&, const Setup&);

  void process(Process request, httplib::Stream& stream) {
    bool closed = false;
    (this->*request)(stream, true, closed, nullptr);
  }

  [[maybe_unused]] void process(ProcessWithAddresses request, httplib::Stream& stream) {
    bool closed = false;
    (this->*request)(stream, "", 0, "", 0, true, closed, nullptr);
  }
};

}  // namespace

HttpAnswer error_answer(int status, const std::string& what) {
  HttpAnswer answer;
  answer.status = status;
  answer.body = Object().add("error", printable(what)).add("status", status).text();
  return answer;
}

HttpServer::HttpServer(const Listener& listener, std::unique_ptr<TlsContext> tls, Handler handler)
    : listener_(listener), tls_(std::move(tls)), handler_(std::move(handler)) {}

HttpServer::~HttpServer() {
  for (Client& client : clients_) client.connection.cut();
  for (Client& client : clients_) client.thread.join();
}

void HttpServer::run(const std::function<bool()>& over) {
  while (!over()) {
    pollfd one{listener_.fd(), POLLIN, 0};
    const int ready = ::poll(&one, 1, kAcceptTick);
    remove_done();
    if (ready > 0) accept_one();
  }
}

bool HttpServer::stop(milliseconds limit) {
  const auto begin = Clock::now();
  while (!clients_.empty() && Clock::now() < begin + limit) {
    // Answers that are on their way get half of the time.
    for (Client& client : clients_) {
      if (client.waits_for_client && Clock::now() >= begin + limit / 2) client.connection.cut();
    }
    remove_done();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return clients_.empty();
}

void HttpServer::remove_done() {
  for (auto client = clients_.begin(); client != clients_.end();) {
    if (!client->done) {
      ++client;
      continue;
    }
    client->thread.join();
    client = clients_.erase(client);
  }
}

void HttpServer::accept_one() {
  std::string address;
  Fd fd = listener_.accept(address);
  if (!fd.open()) {
    // No file descriptor is free, for example: without a pause this would spin.
    if (errno != EAGAIN && errno != ECONNABORTED) std::this_thread::sleep_for(kAcceptPause);
    return;
  }
  if (clients_.size() >= kManyConnections) make_room();
  // On a busy machine the threads of connections that were cut take a moment to end.
  for (const auto until = Clock::now() + kRoomTime; clients_.size() >= kMostThreads; remove_done()) {
    if (Clock::now() >= until) return;
    std::this_thread::sleep_for(milliseconds(1));
  }
  Client& client = clients_.emplace_back(std::move(fd), std::move(address));
  try {
    client.thread = std::thread([this, &client] { serve(client); });
  } catch (const std::system_error&) {  // no thread is free
    clients_.pop_back();
  }
}

void HttpServer::make_room() {
  const auto slow = std::find_if(clients_.begin(), clients_.end(),
                                 [](const Client& client) { return client.waits_for_client && !client.done; });
  if (slow == clients_.end()) return;
  slow->connection.cut();
  slow->waits_for_client = false;  // the next call cuts another one
}

void HttpServer::serve(Client& client) {
  try {
    if (tls_ == nullptr || client.connection.start_tls(*tls_, Clock::now() + kRequestTime)) {
      answer(client);
      client.waits_for_client = true;
      client.connection.finish();
    }
  } catch (const std::exception&) {  // no memory: the connection ends without an answer
  }
  client.connection.cut();
  client.done = true;
}

void HttpServer::answer(Client& client) {
  Connection& connection = client.connection;
  std::optional<HttpRequest> request;
  HttpAnswer answer;
  try {
    request = read_request(connection, Clock::now() + kRequestTime);
    if (!request) return;
    client.waits_for_client = false;
    answer = handler_(*request);
  } catch (const HttpError& error) {
    answer = error_answer(error.status(), error.what());
  }
  client.waits_for_client = !answer.events;
  RequestStream stream(request && request->method == "HEAD" ? kHead : kGet, connection);
  Exchange(answer).run(stream);
}

}  // namespace dqctl
