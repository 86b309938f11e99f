// Serves HTTP: accepts connections, reads requests within limits of size and time, and writes the answers. A connection
// serves one request. cpp-httplib writes the answers; it gets no byte of a request, and
// reads and writes no socket: check_head() has the reason.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "output/text.h"
#include "serve/connection.h"
#include "serve/listener.h"
#include "serve/request.h"

namespace dqctl {

struct HttpAnswer {
  int status = 200;
  std::string type = "application/json";
  std::string body{};
  std::string allow{};                    // with status 405: the methods that are allowed
  std::function<std::string()> events{};  // if set, it is the body: called until it returns an empty text
};

// The document of an error.
HttpAnswer error_answer(int status, const std::string& what);

class HttpServer {
 public:
  // Called by several threads at the same time. Must not throw.
  using Handler = std::function<HttpAnswer(const HttpRequest&)>;

  // While so many are open, a new connection ends the one that has been sending its request, or reading its answer, for
  // the longest time. Beyond kMostThreads it is closed itself.
  static constexpr std::size_t kManyConnections = 64, kMostThreads = 96;

  // tls: null: none. The listener must outlive this object.
  HttpServer(const Listener& listener, std::unique_ptr<TlsContext> tls, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Accepts connections until over() is true, which it tests at least every 400 ms.
  void run(const std::function<bool()>& over);

  // Ends all connections. False: after `limit` one still waits for its handler. Then do not destroy this object.
  bool stop(milliseconds limit);

 private:
  struct Client {
    Client(Fd fd, std::string address) : connection(std::move(fd), std::move(address)) {}

    Connection connection;
    std::atomic<bool> waits_for_client{true};  // it sends its request, or reads its answer
    std::atomic<bool> done{false};
    std::thread thread{};
  };

  void accept_one();
  void remove_done();
  void make_room();
  void serve(Client& client);
  void answer(Client& client);

  const Listener& listener_;
  const std::unique_ptr<TlsContext> tls_;
  const Handler handler_;
  std::list<Client> clients_{};  // the oldest first; used by the thread of run() and stop() only
};

}  // namespace dqctl
