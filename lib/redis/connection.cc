#include "redis/connection.h"

#include "os/interrupt.h"
#include "redis/escaped.h"
#include "redis/resp.h"
#include "redis/time_limit.h"
#include "redis/tls_socket.h"
#include "redis/url_parts.h"

#include <delayqueue/error.h>

#include <hiredis/hiredis.h>

#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <new>

namespace delayqueue::redis {
namespace {

constexpr std::size_t kBuffer = 64 * 1024;
constexpr std::size_t kMostElements = 1024 * 1024;  // in all arrays of a reply; our requests need some hundreds
constexpr int kMostNested = 8;                      // depth of arrays; our requests need three
constexpr std::size_t kMostUnread = 512 * 1024 * 1024 + kBuffer;  // the largest payload, plus one buffer

const redisReplyObjectFunctions* hiredis_functions = nullptr;

// Bounds the arrays of a reply. hiredis allocates an array as soon as its length arrives: the seven bytes "*1000\r\n"
// cost eight thousand. hiredis 0.14 has no limit; later versions have one per array only. (The type of `count` is int
// in 0.14, and size_t later.)
template <class Count>
void* array_within_bounds(const redisReadTask* task, Count count) {
  int depth = 1;
  for (const redisReadTask* above = task->parent; above != nullptr; above = above->parent) ++depth;
  std::size_t& elements = *static_cast<std::size_t*>(task->privdata);
  if (depth > kMostNested || static_cast<std::size_t>(count) > kMostElements - elements) return nullptr;
  elements += static_cast<std::size_t>(count);
  return hiredis_functions->createArray(task, count);
}

// `elements`: counts the array elements of the reply that is being read.
redisReader* new_reader(std::size_t& elements) {
  redisReader* const reader = redisReaderCreate();
  if (reader == nullptr) throw std::bad_alloc();
  static redisReplyObjectFunctions bounded = [&] {
    hiredis_functions = reader->fn;
    redisReplyObjectFunctions functions = *hiredis_functions;
    functions.createArray = array_within_bounds;
    return functions;
  }();
  reader->fn = &bounded;
  reader->privdata = &elements;
  return reader;
}

// "7.0.15" -> 700. The library requires 6.2 for ZMSCORE, SMISMEMBER and RPOP with a count.
int version_number(std::string_view text) {
  int major = 0;
  int minor = 0;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, major);
  if (first.ec == std::errc() && first.ptr != end) std::from_chars(first.ptr + 1, end, minor);
  return std::clamp(major, 0, 1000) * 100 + std::clamp(minor, 0, 99);
}

// Throws if this thread is interrupted: reading the system's certificates takes tens of milliseconds, and a topology
// would do it for one node after the other.
std::unique_ptr<Tls> tls_for(const Address& address, const TlsOptions& options) {
  if (Interrupt::is_raised_here()) throw ConnectionError("stopped before connecting to " + address.text());
  return address.tls ? std::make_unique<Tls>(address, options) : nullptr;
}

// What is often wrong with a login that was refused. Tells no part of the password, nor of a user, which may be one.
std::string login_hint(const Login& login) {
  const std::string& password = login.password;
  if (password.empty()) {
    return login.user.empty() ? ""
                              : "; there is a user but no password: a password without a user is written "
                                "redis://:PASSWORD@host, with a colon before it";
  }
  const auto is_edge = [](char c) { return c == ' ' || is_control(c); };
  if (is_edge(password.front()) || is_edge(password.back()) || password.substr(0, 3) == "\xef\xbb\xbf") {
    return "; the password begins or ends with a blank, a line break or a byte order mark, perhaps those of a file";
  }
  const char quote = password.front();
  if (password.size() > 1 && password.back() == quote && (quote == '"' || quote == '\'')) {
    return "; the password is in quotation marks, which are a part of it";
  }
  return "";
}

}  // namespace

void append_command(std::string& out, std::initializer_list<std::string_view> words) {
  append_head(out, '*', words.size());
  for (const std::string_view word : words) append_word(out, word);
}

void Connection::FreeReader::operator()(redisReader* reader) const { redisReaderFree(reader); }

void ShutdownHandle::shut_down() {
  const std::lock_guard lock(mutex_);
  if (fd_ >= 0) ::shutdown(fd_, SHUT_RDWR);
}

void ShutdownHandle::release() {
  const std::lock_guard lock(mutex_);
  fd_ = -1;
}

Connection::Connection(const Address& address, const Login& login, const ClientOptions& options, Cluster* cluster)
    : Connection(tls_for(address, options.tls), address, login, options, cluster) {}

// The connect timeout starts here, after the files were read.
Connection::Connection(const std::unique_ptr<Tls>& tls, const Address& address, const Login& login,
                       const ClientOptions& options, Cluster* cluster)
    : Connection(tls.get(), TimeLimit::cut(Clock::now() + options.connect_timeout), address, login, options, cluster) {}

Connection::Connection(Tls* tls, Deadline deadline, const Address& address, const Login& login,
                       const ClientOptions& options, Cluster* cluster)
    : Connection(open_transport(address, tls, deadline), address, login, options, cluster, deadline) {}

Connection::Connection(std::unique_ptr<Transport> link, const Address& address, const Login& login,
                       const ClientOptions& options, Cluster* cluster, Deadline deadline)
    : address_(address),
      where_(address.text()),
      command_timeout_(options.command_timeout),
      cluster_(cluster),
      transport_(std::move(link)),
      shutdown_handle_(std::make_shared<ShutdownHandle>(transport_->fd())),
      reader_(new_reader(elements_)),
      buffer_(new char[kBuffer]) {
  log_in(login, deadline);
}

// A request that has failed may be repeated over another connection, and must not arrive after its repeat.
Connection::~Connection() {
  if (broken_) transport_->reset_at_close();
  shutdown_handle_->release();
}

void Connection::write(const std::vector<std::string_view>& pieces) {
  if (broken_) fail("cannot write to " + where_ + ": the connection is already broken");
  broken_ = true;  // until all bytes are written
  Patience patience(TimeLimit::cut(command_timeout_));
  try {
    transport_->write(pieces, patience);
  } catch (const ConnectionError& e) {
    const ReplyPtr last = drain_final_error();
    silent_since_ = patience.silent_since();
    if (last == nullptr) throw;
    throw ConnectionError(std::string(e.what()) + ", after the answer: " + with_advice(Reply(last.get()).text()));
  }
  broken_ = false;
}

// After a failed write: the error that the server sent before it closed the connection, which is still unread. Null if
// it sent none.
ReplyPtr Connection::drain_final_error() {
  ReplyPtr last;
  try {
    for (int pieces = 0; pieces < 16; ++pieces) {
      while (ReplyPtr reply = parse()) last = Reply(reply.get()).is_error() ? std::move(reply) : nullptr;
      Patience none(Clock::now());
      fill(none);
    }
  } catch (const ConnectionError&) {  // no more bytes
  }
  broken_ = true;
  return last;
}

void Connection::give_up(const Pipeline* pipeline) {
  const auto found = std::find(awaited_.begin(), awaited_.end(), pipeline);
  if (found == awaited_.end()) return;
  awaited_.erase(found);
  broken_ = true;
}

bool Connection::is_stale() {
  try {
    const bool has_unread = reader_->len > reader_->pos;
    return broken_ || retired_ || is_outdated() || has_unread || transport_->readable(Clock::now());
  } catch (const ConnectionError&) {
    return broken_ = true;
  }
}

void Connection::fail(const std::string& text) {
  broken_ = true;
  throw ConnectionError(text);
}

std::optional<Redirection> Connection::redirection(Reply reply) const {
  if (cluster_ == nullptr || !reply.is_error()) return std::nullopt;
  return Redirection::read(reply.text(), address_);
}

void Connection::learn(const Redirection& redirection) {
  if (redirection.ask) return;
  record_move(redirection);
  moved_ = moved_ || redirection.slot == slot_;
}

Connection& Connection::follow(const Redirection& redirection) {
  learn(redirection);
  redirected_slot_ = redirection.slot;
  const std::string where = redirection.address.text();
  if (redirected_ == nullptr || redirected_where_ != where || redirected_->is_stale()) {
    redirected_ = cluster_->dial(redirection.address);
    redirected_where_ = where;
  }
  return *redirected_;
}

Deadline Connection::silent_since() const {
  if (silent_since_) return *silent_since_;
  return redirected_ != nullptr ? redirected_->silent_since() : Clock::now();
}

ReplyPtr Connection::read(milliseconds longer) {
  if (broken_) fail("cannot read from " + where_ + ": the connection is already broken");
  Patience patience(TimeLimit::cut(command_timeout_), Clock::now() + longer);
  return read_within(patience);
}

ReplyPtr Connection::read_arrived(milliseconds longer) {
  if (broken_) fail("cannot read from " + where_ + ": the connection is already broken");
  if (ReplyPtr reply = parse()) return reply;
  if (!waits_) waits_.emplace(TimeLimit::cut(command_timeout_), Clock::now() + longer);
  while (fill_arrived(*waits_)) {
    if (ReplyPtr reply = parse()) return reply;
    if (Clock::now() >= waits_->due()) break;
  }
  return Clock::now() < waits_->due() ? nullptr : read_within(*waits_);
}

ReplyPtr Connection::read_within(Patience& patience) {
  for (bool begun = false;; begun = true) {
    if (ReplyPtr reply = parse()) return reply;
    if (begun && Clock::now() >= patience.due()) {
      silent_since_ = patience.silent_since();
      fail(patience.failure(where_));
    }
    fill(patience);
  }
}

ReplyPtr Connection::read_until(Deadline deadline) {
  for (;;) {
    if (ReplyPtr reply = parse()) return reply;
    if (!transport_->readable(deadline)) return nullptr;
    Patience patience(command_timeout_);
    fill(patience);
    if (Clock::now() >= deadline) return parse();  // the server may send without end
  }
}

ReplyPtr Connection::parse() {
  void* reply = nullptr;
  if (redisReaderGetReply(reader_.get(), &reply) == REDIS_OK) {
    if (reply != nullptr) {
      elements_ = 0;
      arrival_ = waits_ && waits_->bytes() > 0 ? Clock::now() - waits_->first_byte() : Clock::duration();
      waits_.reset();
    }
    return ReplyPtr(static_cast<redisReply*>(reply));
  }
  if (reader_->err == REDIS_ERR_OOM) {
    fail("the answer of " + where_ + " is too large: arrays of more than " + std::to_string(kMostElements) +
         " elements in all, or nested deeper than " + std::to_string(kMostNested) +
         ", or more than there is memory for");
  }
  fail("the server at " + where_ + " does not speak Redis' protocol: " + escaped(reader_->errstr));
}

void Connection::fill(Patience& patience) {
  check_unread();
  broken_ = true;
  std::size_t size = 0;
  try {
    size = transport_->read(buffer_.get(), kBuffer, patience);
  } catch (const ConnectionError& e) {
    rethrow(e, patience);
  }
  broken_ = false;
  feed(size);
}

// Returns false if no bytes have arrived.
bool Connection::fill_arrived(Patience& patience) {
  check_unread();
  broken_ = true;
  std::size_t size = 0;
  try {
    size = transport_->read_arrived(buffer_.get(), kBuffer);
  } catch (const ConnectionError& e) {
    rethrow(e, patience);
  }
  broken_ = false;
  if (size == 0) return false;
  patience.moved(size);
  feed(size);
  return true;
}

// Adds how much of the answer had arrived when the connection failed.
void Connection::rethrow(const ConnectionError& e, const Patience& patience) {
  silent_since_ = patience.silent_since();
  if (patience.bytes() == 0 || Clock::now() >= patience.due()) throw;
  throw ConnectionError(std::string(e.what()) + ", after " + std::to_string(patience.bytes()) + " bytes of an answer");
}

void Connection::check_unread() {
  if (reader_->len - reader_->pos > kMostUnread) {
    fail("the answer of " + where_ + " is too large: a string of more than 512 MiB");
  }
}

void Connection::feed(std::size_t size) {
  if (redisReaderFeed(reader_.get(), buffer_.get(), size) != REDIS_OK) {
    fail("cannot read the answer of " + where_ + ": " + escaped(reader_->errstr));
  }
}

ReplyPtr Connection::ask(std::string_view request, Deadline deadline) {
  try {
    transport_->write(request, deadline);
  } catch (const ConnectionError&) {
    if (ReplyPtr last = drain_final_error()) return last;
    throw;
  }
  Patience patience(deadline);
  return read_within(patience);
}

// Calls the callback of the user, which may take any time.
Login Connection::with_credentials(Login login, Deadline deadline) {
  constexpr std::chrono::hours kYear{365 * 24};
  constexpr std::chrono::seconds kMostEarly{30};
  const std::string what = "cannot log in at " + where_ + ": the callback ClientOptions::credentials ";
  Credentials current;
  try {
    current = login.credentials();
  } catch (...) {
    throw AccessDenied(what + "threw: " + current_exception_text());
  }
  if (Clock::now() >= deadline)
    fail(what + "took longer than connect_timeout; make it faster, or connect_timeout longer");
  if (current.expires) {
    const auto now = std::chrono::system_clock::now();
    if (*current.expires <= now) throw AccessDenied(what + "returned a login that has expired; is the clock right?");
    const bool is_long = *current.expires - now > kYear;  // a longer time would overflow that of the steady clock
    const Clock::duration left = is_long ? Clock::duration(kYear) : Clock::duration(*current.expires - now);
    login_again_at_ = Clock::now() + left - std::min<Clock::duration>(left / 4, kMostEarly);
  }
  login.user = std::move(current.user);
  login.password = std::move(current.password);
  return login;
}

void Connection::log_in(const Login& given, Deadline deadline) {
  const Login login = given.credentials ? with_credentials(given, deadline) : given;
  const std::string_view user = login.user.empty() ? "default" : std::string_view(login.user);
  std::string hello;
  if (login.password.empty() && login.user.empty()) {
    append_command(hello, {"HELLO", "2", "SETNAME", login.client_name});
  } else {
    append_command(hello, {"HELLO", "2", "AUTH", user, login.password, "SETNAME", login.client_name});
  }
  const ReplyPtr answer = ask(hello, deadline);
  const Reply fields(answer.get());
  if (fields.is_error() && fields.text().find("unknown command") != std::string_view::npos) {
    throw ReplyError("redis at " + where_ + " is too old: it has no command HELLO; 6.2 or later is needed. " +
                     "If it is, somebody has disabled HELLO (rename-command, or a proxy): allow it");
  }
  try {
    throw_if_error(fields, where_);
  } catch (const AccessDenied& e) {
    throw AccessDenied(e.what() + login_hint(login));
  }
  for (std::size_t i = 0; i + 1 < fields.size(); i += 2) {
    if (fields[i].text() == "version" && version_number(fields[i + 1].text()) < 602) {
      throw ReplyError("redis at " + where_ + " is too old: " + escaped(fields[i + 1].text()) +
                       "; 6.2 or later is needed");
    }
  }
  if (login.db == 0) return;
  std::string select;
  append_command(select, {"SELECT", std::to_string(login.db)});
  const ReplyPtr selected = ask(select, deadline);
  throw_if_error(Reply(selected.get()), where_ + ", database " + std::to_string(login.db));
}

}  // namespace delayqueue::redis
