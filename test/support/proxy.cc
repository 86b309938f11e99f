#include "support/proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/local.h"

namespace test {
namespace {

using delayqueue::Descriptor;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostHeld = 1 << 20;      // buffered bytes per direction; the sender waits for room
constexpr std::size_t kMostHeldSlow = 1 << 16;  // the same with a rate
constexpr std::size_t kPartsPerSecond = 50;     // of the bytes of a second, with a rate

struct Endpoint {
  sockaddr_storage raw{};
  socklen_t size = 0;
};

template <typename Address>
Endpoint endpoint(const Address& address) {
  Endpoint result;
  std::memcpy(&result.raw, &address, sizeof address);
  result.size = sizeof address;
  return result;
}

Endpoint endpoint_of(const std::string& target) {
  if (!target.empty() && target[0] == '/') {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    target.copy(address.sun_path, sizeof address.sun_path - 1);
    return endpoint(address);
  }
  sockaddr_in address{};
  address.sin_family = AF_INET;
  const auto colon = target.find(':');
  const int port = colon == std::string::npos ? 0 : std::stoi(target.substr(colon + 1));
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  const bool numeric = ::inet_pton(AF_INET, target.substr(0, colon).c_str(), &address.sin_addr) == 1;
  if (!numeric || port <= 0) throw std::invalid_argument("proxy: '" + target + "' is neither IPv4:port nor a path");
  return endpoint(address);
}

// Returns a non-blocking socket. The first read or write reports a failed connect.
Descriptor connected(const Endpoint& target) {
  Descriptor made(::socket(target.raw.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto* raw = reinterpret_cast<const sockaddr*>(&target.raw);
  const bool begun = ::connect(made.get(), raw, target.size) == 0 || errno == EINPROGRESS;
  return begun ? std::move(made) : Descriptor();
}

void disable_nagle(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // fails for unix sockets, which need no such option
}

// Reads what is left: closing a socket with unread data sends a reset instead of an end of file.
void drain(int fd) {
  char bytes[4096];
  while (::recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0) {
  }
}

void reset_at_close(int fd) {
  const linger none{1, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
}

struct Chunk {
  Clock::time_point due;
  std::string bytes;
};

// One direction of a link.
struct Lane {
  int from = -1, to = -1;
  std::deque<Chunk> chunks{};
  std::size_t size = 0;    // sum of the chunks
  bool ended = false;      // no more bytes follow
  bool passed_on = false;  // the end of file, too
  bool is_last = false;    // close the link after these bytes
  bool has_due(Clock::time_point now) const { return !chunks.empty() && chunks.front().due <= now; }
};

enum Way { command, reply };

struct Link {
  Descriptor client, server;
  Lane lanes[2];
  bool closed = false;
  bool passed = false;  // bytes, with a rate, since it was put behind the others
};

bool take_one(std::size_t& left) { return left > 0 && left-- > 0; }

}  // namespace

// One thread owns all changing state. Other threads run their changes in it with run_in_thread().
class FaultProxy::Impl {
 public:
  Impl(const std::string& target, Via via);
  ~Impl();

  void run_in_thread(const std::function<void()>& what);
  void listen();
  std::size_t close_all(bool by_reset);

  const Via via;
  const Port port;
  const TempDir dir;

  // Used by the proxy's thread only.
  Endpoint target;
  Descriptor listener;
  std::chrono::milliseconds delay{0};
  std::size_t rate[2] = {0, 0};
  Clock::time_point busy_until[2] = {};  // with a rate: then the link can pass further bytes
  bool black_hole = false, hold_replies = false, stopping = false;
  std::size_t to_drop[2] = {0, 0}, to_truncate = 0;
  std::optional<std::size_t> to_pass;  // bytes of commands
  std::optional<std::string> begins_black_hole;
  Counts counts;
  std::list<Link> links;

 private:
  void run();
  std::vector<pollfd> descriptors_to_poll(Clock::time_point now) const;
  int poll_timeout_ms(Clock::time_point now) const;
  void serve(const std::vector<pollfd>& polled);
  void run_tasks();
  void accept();
  void receive(Link& link, Way way);
  bool cuts(std::string& bytes);
  bool may_pass(Way way, Clock::time_point now) const { return rate[way] == 0 || now >= busy_until[way]; }
  std::size_t most_held(Way way) const { return rate[way] == 0 ? kMostHeld : kMostHeldSlow; }
  void flush(Link& link, Way way);
  void pass_end_on(Link& link, Lane& lane);
  void close(Link& link, bool by_reset);

  const Descriptor wake_;
  std::mutex mutex_;  // guards tasks_
  std::deque<std::packaged_task<void()>> tasks_;
  std::thread thread_;
};

FaultProxy::Impl::Impl(const std::string& to, Via how)
    : via(how), target(endpoint_of(to)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  listen();
  thread_ = std::thread([this] { run(); });
}

FaultProxy::Impl::~Impl() {
  run_in_thread([this] {
    close_all(false);
    stopping = true;
  });
  thread_.join();
}

void FaultProxy::Impl::run_in_thread(const std::function<void()>& what) {
  std::packaged_task<void()> task(what);
  auto done = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  ::eventfd_write(wake_.get(), 1);
  done.get();
}

void FaultProxy::Impl::run_tasks() {
  eventfd_t ignored = 0;
  ::eventfd_read(wake_.get(), &ignored);
  std::deque<std::packaged_task<void()>> tasks;
  {
    const std::lock_guard lock(mutex_);
    tasks.swap(tasks_);
  }
  for (auto& task : tasks) task();
}

void FaultProxy::Impl::listen() {
  listener = via == Via::port ? listen_on(port) : listen_on(dir.file("s"));
  ::fcntl(listener.get(), F_SETFL, O_NONBLOCK);
}

void FaultProxy::Impl::run() {
  while (!stopping) {
    const auto now = Clock::now();  // one for both: a chunk that becomes due between two would be forgotten
    auto polled = descriptors_to_poll(now);
    if (::poll(polled.data(), polled.size(), poll_timeout_ms(now)) > 0) serve(polled);
    links.remove_if([](const Link& link) { return link.closed; });
    const auto passed = std::find_if(links.begin(), links.end(), [](const Link& link) { return link.passed; });
    if (passed == links.end()) continue;
    passed->passed = false;
    links.splice(links.end(), links, passed);  // the others have their turns
  }
}

// The descriptors to poll: the wake-up, the listener, then client and server of each link. -1 means not polled.
std::vector<pollfd> FaultProxy::Impl::descriptors_to_poll(Clock::time_point now) const {
  std::vector<pollfd> result = {{wake_.get(), POLLIN, 0}, {listener.get(), POLLIN, 0}};
  for (const Link& link : links) {
    for (const Way from_it : {command, reply}) {
      const Lane& in = link.lanes[from_it];
      const Lane& out = link.lanes[from_it == command ? reply : command];
      const bool held = from_it == command && hold_replies;
      int events = 0;
      if (!in.ended && in.size < most_held(from_it)) events |= POLLIN;
      if (out.has_due(now) && !held && may_pass(from_it == command ? reply : command, now)) events |= POLLOUT;
      result.push_back({events == 0 || black_hole ? -1 : in.from, static_cast<short>(events), 0});
    }
  }
  return result;
}

int FaultProxy::Impl::poll_timeout_ms(Clock::time_point now) const {
  auto first = Clock::time_point::max();
  for (const Link& link : links) {
    for (const Way way : {command, reply}) {
      const Lane& lane = link.lanes[way];
      if (lane.chunks.empty()) continue;
      if (!lane.has_due(now)) first = std::min(first, lane.chunks.front().due);
      if (!may_pass(way, now)) first = std::min(first, busy_until[way]);
    }
  }
  return black_hole || first == Clock::time_point::max() ? -1 : delayqueue::milliseconds_until(first);
}

// Runs the tasks last: they may close links, and `polled` would no longer match the links.
void FaultProxy::Impl::serve(const std::vector<pollfd>& polled) {
  std::size_t at = 2;
  for (Link& link : links) {
    for (const Way from_it : {command, reply}) {
      const pollfd& one = polled[at++];
      if (one.revents == 0) continue;
      if ((one.events & POLLOUT) != 0 && !link.closed) flush(link, from_it == command ? reply : command);
      if ((one.events & POLLIN) != 0 && !link.closed) receive(link, from_it);
    }
  }
  if (polled[1].revents != 0) accept();
  if (polled[0].revents != 0) run_tasks();
}

void FaultProxy::Impl::accept() {
  Descriptor client(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (client.get() < 0) return;
  ++counts.links;
  Descriptor server = connected(target);
  if (server.get() < 0) return reset_at_close(client.get());
  disable_nagle(client.get());
  disable_nagle(server.get());
  const int to_client = client.get(), to_server = server.get();
  links.push_back({std::move(client), std::move(server), {{to_client, to_server}, {to_server, to_client}}});
}

void FaultProxy::Impl::receive(Link& link, Way way) {
  Lane& lane = link.lanes[way];
  char buffer[65536];
  const auto n = ::recv(lane.from, buffer, sizeof buffer, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n < 0 && !lane.chunks.empty()) {  // what it has read passes nevertheless
    lane.is_last = lane.ended = true;
    return;
  }
  if (n < 0) return close(link, true);
  std::string bytes(buffer, static_cast<std::size_t>(n));
  if (way == command && begins_black_hole && bytes.find(*begins_black_hole) != std::string::npos) {
    begins_black_hole.reset();
    black_hole = true;
  }
  const bool drop = n > 0 && take_one(to_drop[way]);
  const bool halve = n > 0 && !drop && way == reply && take_one(to_truncate);
  if (drop) bytes.clear();
  if (halve) bytes.resize(bytes.size() / 2);
  const bool truncate = halve || (way == command && cuts(bytes));
  counts.dropped += drop ? 1 : 0;
  counts.truncated += truncate ? 1 : 0;
  lane.is_last = drop || truncate;
  lane.ended = n == 0 || lane.is_last;
  lane.size += bytes.size();
  if (!bytes.empty()) lane.chunks.push_back({Clock::now() + delay, std::move(bytes)});
  pass_end_on(link, lane);
}

// Shortens the bytes of a command to those that may pass. Returns whether there were more.
bool FaultProxy::Impl::cuts(std::string& bytes) {
  if (!to_pass) return false;
  const std::size_t passed = std::min(*to_pass, bytes.size());
  *to_pass -= passed;
  if (passed == bytes.size()) return false;
  bytes.resize(passed);
  to_pass.reset();
  return true;
}

void FaultProxy::Impl::flush(Link& link, Way way) {
  Lane& lane = link.lanes[way];
  while (!black_hole && lane.has_due(Clock::now()) && may_pass(way, Clock::now())) {
    std::string& bytes = lane.chunks.front().bytes;
    const std::size_t most = rate[way] == 0 ? bytes.size() : std::max<std::size_t>(1, rate[way] / kPartsPerSecond);
    const auto n = ::send(lane.to, bytes.data(), std::min(bytes.size(), most), MSG_NOSIGNAL);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n < 0) return close(link, true);
    if (rate[way] > 0) {
      const std::chrono::nanoseconds takes(n * 1'000'000'000 / static_cast<std::int64_t>(rate[way]));
      busy_until[way] = std::max(busy_until[way], Clock::now()) + takes;
      link.passed = true;
    }
    lane.size -= static_cast<std::size_t>(n);
    bytes.erase(0, static_cast<std::size_t>(n));
    if (bytes.empty()) lane.chunks.pop_front();
  }
  pass_end_on(link, lane);
}

void FaultProxy::Impl::pass_end_on(Link& link, Lane& lane) {
  if (!lane.ended || !lane.chunks.empty() || lane.passed_on) return;
  if (lane.is_last) return close(link, false);
  ::shutdown(lane.to, SHUT_WR);
  lane.passed_on = true;
  if (link.lanes[command].passed_on && link.lanes[reply].passed_on) close(link, false);
}

void FaultProxy::Impl::close(Link& link, bool by_reset) {
  for (Descriptor* end : {&link.client, &link.server}) {
    if (by_reset) reset_at_close(end->get());
    if (!by_reset) drain(end->get());
    Descriptor gone = std::move(*end);
  }
  link.closed = true;
}

std::size_t FaultProxy::Impl::close_all(bool by_reset) {
  std::size_t closed = 0;
  for (Link& link : links) {
    if (link.closed) continue;
    close(link, by_reset);
    ++closed;
  }
  return closed;
}

FaultProxy::FaultProxy(const std::string& target, Via via) : impl_(std::make_unique<Impl>(target, via)) {}
FaultProxy::~FaultProxy() = default;

std::string FaultProxy::url() const { return (impl_->via == Via::port ? "redis://" : "unix://") + address(); }

std::string FaultProxy::address() const {
  return impl_->via == Via::port ? "127.0.0.1:" + std::to_string(port()) : impl_->dir.file("s");
}

int FaultProxy::port() const { return impl_->port.number(); }

void FaultProxy::retarget(const std::string& target) {
  const Endpoint to = endpoint_of(target);
  impl_->run_in_thread([&] { impl_->target = to; });
}

void FaultProxy::delay(std::chrono::milliseconds each_way) {
  impl_->run_in_thread([&] { impl_->delay = each_way; });
}

void FaultProxy::rate(std::size_t to_server, std::size_t to_client) {
  impl_->run_in_thread([&] {
    impl_->rate[command] = to_server;
    impl_->rate[reply] = to_client;
  });
}

void FaultProxy::black_hole(bool on) {
  impl_->run_in_thread([&] {
    impl_->black_hole = on;
    impl_->begins_black_hole.reset();
  });
}

void FaultProxy::black_hole_from(const std::string& text) {
  impl_->run_in_thread([&] { impl_->begins_black_hole = text; });
}

void FaultProxy::hold_replies(bool on) {
  impl_->run_in_thread([&] { impl_->hold_replies = on; });
}

void FaultProxy::hold_little() {
  impl_->run_in_thread([&] {  // new links inherit it
    const int bytes = 4096;
    ::setsockopt(impl_->listener.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
  });
}

void FaultProxy::refuse(bool on) {
  impl_->run_in_thread([&] {
    const bool listens = impl_->listener.get() >= 0;
    if (on) Descriptor gone = std::move(impl_->listener);
    if (!on && !listens) impl_->listen();
  });
}

std::size_t FaultProxy::cut() {
  std::size_t closed = 0;
  impl_->run_in_thread([&] { impl_->counts.cut += closed = impl_->close_all(false); });
  return closed;
}

std::size_t FaultProxy::reset() {
  std::size_t closed = 0;
  impl_->run_in_thread([&] { impl_->counts.reset += closed = impl_->close_all(true); });
  return closed;
}

void FaultProxy::drop_replies(std::size_t n) {
  impl_->run_in_thread([&] { impl_->to_drop[reply] = n; });
}

void FaultProxy::drop_commands(std::size_t n) {
  impl_->run_in_thread([&] { impl_->to_drop[command] = n; });
}

void FaultProxy::truncate_replies(std::size_t n) {
  impl_->run_in_thread([&] { impl_->to_truncate = n; });
}

void FaultProxy::cut_commands_after(std::size_t bytes) {
  impl_->run_in_thread([&] { impl_->to_pass = bytes; });
}

FaultProxy::Counts FaultProxy::counts() const {
  Counts result;
  impl_->run_in_thread([&] {
    result = impl_->counts;
    result.open = static_cast<std::size_t>(
        std::count_if(impl_->links.begin(), impl_->links.end(), [](const Link& link) { return !link.closed; }));
  });
  return result;
}

}  // namespace test
