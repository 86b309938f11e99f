#include "bench/delay_relay.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "bench/wire.h"

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;
using delayqueue::Descriptor;

constexpr int kLook = 20;  // ms between two looks at ending_
constexpr std::size_t kChunk = 256 * 1024;

struct Chunk {
  Clock::time_point due;
  std::string bytes;  // empty: the end of the stream
};

}  // namespace

// One direction of a connection.
class DelayRelay::Lane {
 public:
  Lane(int from, int to, std::chrono::microseconds delay)
      : from_(from), to_(to), delay_(delay), reader_([this] { read(); }), writer_([this] { write(); }) {}
  ~Lane() {
    reader_.join();
    writer_.join();
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

 private:
  void read() {
    const auto buffer = std::make_unique<char[]>(kChunk);
    ssize_t size = 1;
    while (size > 0) {
      size = ::recv(from_, buffer.get(), kChunk, 0);
      const std::size_t bytes = size > 0 ? static_cast<std::size_t>(size) : 0;
      Chunk chunk{Clock::now() + delay_, std::string(buffer.get(), bytes)};
      const std::lock_guard lock(mutex_);
      chunks_.push_back(std::move(chunk));
      changed_.notify_one();
    }
  }

  void write() {
    ::prctl(PR_SET_TIMERSLACK, 1);  // ns; the default is 50 us, which would be added to each delay
    for (;;) {
      const Chunk chunk = next();
      std::this_thread::sleep_until(chunk.due);
      if (chunk.bytes.empty() || !send_all(chunk.bytes)) break;
    }
    ::shutdown(to_, SHUT_WR);
    ::shutdown(from_, SHUT_RD);  // ends the reader if the other end refuses bytes
  }

  Chunk next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !chunks_.empty(); });
    Chunk chunk = std::move(chunks_.front());
    chunks_.pop_front();
    return chunk;
  }

  bool send_all(std::string_view bytes) const {
    while (!bytes.empty()) {
      const auto sent = ::send(to_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  const int from_, to_;
  const std::chrono::microseconds delay_;
  std::mutex mutex_;  // guards chunks_
  std::condition_variable changed_;
  std::deque<Chunk> chunks_;
  std::thread reader_, writer_;  // last: use the other members
};

struct DelayRelay::Link {
  Link(Descriptor from, Descriptor to, std::chrono::microseconds delay)
      : client(std::move(from)),
        server(std::move(to)),
        requests(client.get(), server.get(), delay),
        replies(server.get(), client.get(), delay) {}

  Descriptor client, server;
  Lane requests, replies;  // last: use the descriptors
};

DelayRelay::DelayRelay(const std::string& server_socket, std::chrono::microseconds each_way)
    : server_socket_(server_socket),
      delay_(each_way),
      listener_(test::listen_on(dir_.file("s"))),
      thread_([this] { run(); }) {}

DelayRelay::~DelayRelay() {
  ending_ = true;
  thread_.join();
  for (const auto& link : links_) {
    ::shutdown(link->client.get(), SHUT_RDWR);
    ::shutdown(link->server.get(), SHUT_RDWR);
  }
}

void DelayRelay::run() {
  while (!ending_) {
    pollfd listening{listener_.get(), POLLIN, 0};
    if (::poll(&listening, 1, kLook) > 0) accept();
  }
}

// A client whose connection cannot be relayed sees that it is closed.
void DelayRelay::accept() {
  Descriptor client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (client.get() < 0) return;
  try {
    links_.push_back(std::make_unique<Link>(std::move(client), connect_to(server_socket_), delay_));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench: the relay lost a connection: %s\n", e.what());
  }
}

}  // namespace bench
