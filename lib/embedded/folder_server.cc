#include "embedded/folder_server.h"

#include "embedded/private_folder.h"
#include "os/environment.h"
#include "os/interrupt.h"
#include "os/resources.h"
#include "redis/escaped.h"
#include "redis/socket.h"

#include <delayqueue/detail/owned.h>
#include <delayqueue/error.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace delayqueue {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kStopLimit{5'000};      // to write the append-only file; to end after SHUTDOWN or a signal
constexpr milliseconds kFullDiskLimit{1'000};  // until failing writes are an error; the server tries ten times a second
constexpr char kSafePath[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

[[noreturn]] void fail(const std::string& text) { throw ConnectionError("private server: " + text); }
[[noreturn]] void fail_permanently(const std::string& text) { throw SetupError("private server: " + text); }

void throw_if_interrupted() {
  if (Interrupt::is_raised_here()) fail("stopped before the server answered");
}

PrivateServerOptions validated(PrivateServerOptions options) {
  for (const std::string& variable : options.environment) {
    if (variable.find('=') == 0 || variable.find('=') == std::string::npos)
      throw std::invalid_argument("environment: \"" + redis::escaped(variable) + "\"; expected NAME=value");
  }
  // A longer timeout would overflow a time that it is added to; a negative one is none.
  constexpr std::chrono::hours kLongest{365 * 24};
  options.start_timeout = std::clamp<milliseconds>(options.start_timeout, milliseconds(0), kLongest);
  return options;
}

enum class PingAnswer { none, loading, pong };

// Connects to a server. Without one, returns a negative descriptor and sets errno. EAGAIN: there is a server, but its
// backlog was full until the deadline. Throws SetupError if the path is no socket or its server runs as another user;
// ConnectionError if a system call failed, so that it is unknown whether there is a server.
Descriptor connect_to(const std::string& path, Clock::time_point deadline) {
  redis::check_own_socket(path);
  Descriptor connection = above_standard(::socket(AF_UNIX, SOCK_STREAM, 0));
  if (connection.get() < 0) fail_with("cannot connect to unix:" + path, errno);
  ::fcntl(connection.get(), F_SETFL, O_NONBLOCK);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const auto* raw = reinterpret_cast<const sockaddr*>(&address);
  while (::connect(connection.get(), raw, sizeof address) != 0) {
    if (errno != EAGAIN && is_transient(errno)) fail_with("cannot connect to unix:" + path, errno);
    if (errno != EAGAIN || Clock::now() >= deadline) return Descriptor();
    throw_if_interrupted();
    std::this_thread::sleep_for(milliseconds(2));
  }
  redis::check_own_peer(connection.get(), path);
  return connection;
}

bool send_text(const Descriptor& connection, std::string_view text) {
  int flags = 0;
#ifdef MSG_NOSIGNAL
  flags = MSG_NOSIGNAL;
#else
  const int on = 1;
  ::setsockopt(connection.get(), SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
  return ::send(connection.get(), text.data(), text.size(), flags) == static_cast<ssize_t>(text.size());
}

// Bytes from the server; empty at the deadline, after an interrupt, or at the end of the stream.
std::string receive_some(const Descriptor& connection, Clock::time_point deadline) {
  if (Interrupt::poll_here(connection.get(), milliseconds_until(deadline)) <= 0) return "";
  char text[4096];
  const auto size = ::read(connection.get(), text, sizeof text);
  return {text, size > 0 ? static_cast<std::size_t>(size) : 0};
}

PingAnswer ping(const std::string& path, Clock::time_point deadline) {
  const Descriptor connection = connect_to(path, deadline);
  if (connection.get() < 0 || !send_text(connection, "PING\r\n")) return PingAnswer::none;
  const std::string answer = receive_some(connection, deadline);
  if (answer.compare(0, 8, "-LOADING") == 0) return PingAnswer::loading;
  const bool up = answer.compare(0, 5, "+PONG") == 0 || answer.compare(0, 7, "-NOAUTH") == 0;
  return up ? PingAnswer::pong : PingAnswer::none;
}

// The answer to INFO persistence; empty if the server sends none or an error.
std::string persistence_of(const std::string& socket, Clock::time_point deadline) {
  const Descriptor connection = connect_to(socket, deadline);
  if (connection.get() < 0 || !send_text(connection, "INFO persistence\r\n")) return "";
  std::string text;
  for (;;) {
    const std::string more = receive_some(connection, deadline);
    text += more;
    if (more.empty() || text[0] != '$') return "";
    const auto head = text.find("\r\n");
    const auto size = std::strtoul(text.c_str() + 1, nullptr, 10);
    if (head != std::string::npos && text.size() >= head + 2 + size) return text;
  }
}

std::vector<std::string> search_path() {
  const char* path = trusts_environment() ? trusted_environment("PATH") : kSafePath;
  std::istringstream entries(path != nullptr ? path : "");
  std::vector<std::string> folders;
  for (std::string folder; std::getline(entries, folder, ':');) {
    // Relative folders are skipped, because they depend on the current directory.
    if (!folder.empty() && folder[0] == '/') folders.push_back(folder);
  }
  return folders;
}

std::string find_program(const std::string& from_options) {
  const char* from_environment = trusted_environment("DELAYQUEUE_REDIS_SERVER");
  std::vector<std::string> names{"redis-server", "valkey-server"};
  if (from_environment != nullptr && *from_environment != '\0') names = {from_environment};
  if (!from_options.empty()) names = {from_options};
  for (const auto& name : names) {
    if (name.find('/') != std::string::npos) return name;
    for (const auto& folder : search_path()) {
      const auto file = fs::path(folder) / name;
      std::error_code ignored;
      if (fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0) return file.string();
    }
  }
  fail_permanently((names.size() == 1 ? names[0] + " is not" : "neither redis-server nor valkey-server is") +
                   " on PATH; install redis-server or valkey-server, or set DELAYQUEUE_REDIS_SERVER to the program");
}

std::string log_for_error(const Descriptor& folder) {
  constexpr std::size_t kMostBytes = 1'500;
  const Descriptor log = open_own_file(folder.get(), "log", O_RDONLY);
  const auto size = log.get() >= 0 ? ::lseek(log.get(), 0, SEEK_END) : 0;
  const auto start = std::max<off_t>(size - static_cast<off_t>(kMostBytes), 0);
  std::string text(kMostBytes, '\0');
  const auto got = log.get() >= 0 ? ::pread(log.get(), text.data(), text.size(), start) : 0;
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (start > 0) text.erase(0, text.find('\n') + 1);
  return text.empty() ? "; its log is empty" : "; its log:\n" + text;
}

}  // namespace

void check_socket_path(const std::string& folder) {
  constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (folder.size() + 2 <= kLongest) return;
  throw std::invalid_argument("folder: " + folder + ": the path of its socket is longer than " +
                              std::to_string(kLongest) + " bytes; use a shorter path");
}

void end_server_at(const std::string& socket) {
  const auto deadline = Clock::now() + kStopLimit;
  const Descriptor connection = connect_to(socket, deadline);
  if (connection.get() < 0) return;
  if (!send_text(connection, "SHUTDOWN\r\n")) return;
  while (!receive_some(connection, deadline).empty()) {
  }
}

bool listens(const std::string& socket) { return connect_to(socket, Clock::now()).get() >= 0 || errno == EAGAIN; }

FolderServer::FolderServer(PrivateServerOptions options)
    : options_(validated(std::move(options))),
      program_(find_program(options_.program)),
      temporary_(options_.folder.empty() ? std::make_unique<TemporaryFolder>() : nullptr),
      folder_(temporary_ ? temporary_->path() : fs::path(absolute_folder(options_.folder))) {
  check_socket_path(folder());
  start();
}

FolderServer::~FolderServer() {
  if (owned()) {
    end(temporary_ ? SIGKILL : SIGTERM);
    return;
  }
  // In a fork the server is the parent's, and the thread of process_ does not exist: never destroyed, but reachable, so
  // that leak checkers accept it.
  static auto* const inherited = std::make_unique<std::vector<std::unique_ptr<Process>>>().release();
  inherited->push_back(std::move(process_));
}

std::string FolderServer::url() const {
  std::string url = "unix://";
  for (const char c : socket()) {
    constexpr char kHex[] = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    const bool unreserved = byte > ' ' && byte < 0x7f && std::strchr("%?#@", c) == nullptr;
    url += unreserved ? std::string(1, c) : std::string{'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return url;
}

Launch FolderServer::launch() const {
  Launch result;
  result.words = {program_};
  const std::pair<const char*, std::string> settings[] = {
      {"--port", "0"},        {"--unixsocket", socket()}, {"--unixsocketperm", "700"},   {"--dir", folder()},
      {"--save", ""},         {"--appendonly", "yes"},    {"--appendfsync", "everysec"}, {"--daemonize", "no"},
      {"--supervised", "no"}, {"--logfile", ""},          {"--loglevel", "warning"},
  };
  for (const auto& [name, value] : settings) result.words.insert(result.words.end(), {name, value});
  result.words.insert(result.words.end(), options_.arguments.begin(), options_.arguments.end());
  for (auto& word : result.words) result.argv.push_back(word.data());
  result.argv.push_back(nullptr);
  result.variables = options_.environment;
  result.environment = server_environment(result.variables);
  result.folder = opened_.get();
  result.parent = owner_;
  result.death_signal = temporary_ ? SIGKILL : SIGTERM;
  return result;
}

void FolderServer::start() {
  internal::check_owned(this, owner_, "PrivateServer");
  const auto deadline = Clock::now() + options_.start_timeout;
  opened_ = open_private_folder(folder());
  if (!temporary_) {
    // A user's folder may be one that was temporary: remove_if_stale() of other processes must not delete it.
    keep_folder(opened_);
    ::flock(opened_.get(), LOCK_SH | LOCK_NB);
  }
  check_server_files(opened_, folder());
  if (!temporary_ && (!ownership_ || !ownership_->is_of(opened_))) {
    auto ownership = std::make_unique<FolderOwner>(opened_, folder(), url());
    end_server_at(socket());  // of a process that has ended: the system signals it on Linux only
    ownership_ = std::move(ownership);
  }
  start_process(deadline);
  await_answer(deadline);
}

// Starts a child process that takes the folder's lock. If another server has the lock, it is that of a process that has
// ended, and it is ending: tries again until the deadline.
void FolderServer::start_process(Clock::time_point deadline) {
  for (;;) {
    process_.reset();
    const auto parameters = launch();
    process_ = std::make_unique<Process>(parameters);
    const auto report = process_->read_report(deadline);
    throw_if_interrupted();
    if (report.stage == LaunchReport::locked) return;
    if (report.stage == LaunchReport::none) {
      process_->wait_for_end(deadline);
      fail_start(process_->outcome(), false);
    }
    const bool busy = report.stage == LaunchReport::lock_failed && report.error == EWOULDBLOCK;
    if (!busy) {
      const std::string doing =
          report.stage == LaunchReport::log_failed ? "open " + folder() + "/log" : "lock " + folder() + "/lock";
      fail_start("cannot be started: cannot " + doing + ": " + reason(report.error), !is_transient(report.error));
    }
    if (Clock::now() >= deadline) {
      process_.reset();
      fail(folder() + ": the server of a process that has ended still runs in this folder; end it, or try again later");
    }
    std::this_thread::sleep_for(milliseconds(10));
  }
}

void FolderServer::await_answer(Clock::time_point deadline) {
  std::chrono::microseconds pause(500);
  for (auto limit = deadline; Clock::now() < limit; throw_if_interrupted()) {
    const auto answer = ping(socket(), limit);
    if (answer == PingAnswer::pong && pid() > 0) return;
    // The server reads its data: start_timeout begins again.
    if (answer == PingAnswer::loading) limit = Clock::now() + options_.start_timeout;
    if (process_->wait_for_end(Clock::now() + pause)) break;
    pause = std::min<std::chrono::microseconds>(pause * 2, milliseconds(20));
  }
  const bool ended = process_->wait_for_end(Clock::now());
  const auto report = ended ? process_->read_report(Clock::now()) : LaunchReport{};
  if (report.stage == LaunchReport::exec_failed)
    fail_start("cannot be run: " + reason(report.error), !is_transient(report.error));
  fail_start(process_->outcome() + log_for_error(opened_), process_->exited());
}

void FolderServer::fail_start(const std::string& how, bool permanent) {
  process_.reset();
  if (permanent) fail_permanently(program_ + " " + how);
  fail(program_ + " " + how);
}

// Waits until the server has written and synchronized its append-only file: until then, acknowledged writes are only in
// its buffer.
void FolderServer::await_written() {
  const auto deadline = Clock::now() + kStopLimit;
  const auto has = [](const std::string& text, const char* line) { return text.find(line) != std::string::npos; };
  for (auto failing_until = Clock::now() + kFullDiskLimit; Clock::now() < deadline;) {
    const std::string state = persistence_of(socket(), deadline);
    if (state.empty() || has(state, "\naof_enabled:0")) return;  // no answer, or no append-only file
    const bool writes = has(state, "\naof_last_write_status:ok");
    if (writes && has(state, "\naof_buffer_length:0\r") && has(state, "\naof_pending_bio_fsync:0\r")) return;
    if (!writes && Clock::now() >= failing_until) break;
    if (writes) failing_until = Clock::now() + kFullDiskLimit;
    std::this_thread::sleep_for(milliseconds(20));
  }
  fail_permanently("cannot stop the server in " + folder() + ": it cannot write all that it acknowledged to its " +
                   "append-only file" + log_for_error(opened_) + "\nfree space on the disk that holds " + folder() +
                   " and stop it again; until then it keeps running");
}

void FolderServer::stop() {
  if (pid() < 0) return end(SIGTERM);  // not running
  await_written();
  process_->signal(SIGTERM);
  const bool ended = process_->wait_for_end(Clock::now() + kStopLimit);
  if (!ended) process_->signal(SIGKILL);
  // After a failed last fsync Redis exits with status 0, too, and only logs the failure.
  const bool synced =
      ended && process_->succeeded() && log_for_error(opened_).find("fsync the AOF") == std::string::npos;
  const std::string outcome =
      ended ? process_->outcome() : "did not end within " + std::to_string(kStopLimit.count() / 1000) + " s";
  process_.reset();
  ownership_.reset();
  if (!synced) {
    fail_permanently("the server in " + folder() + " " + outcome +
                     " during stop(); the last writes that it acknowledged may not be on disk" +
                     log_for_error(opened_));
  }
}

void FolderServer::end(int first_signal) {
  if (!owned() || !process_) return;
  process_->signal(first_signal);
  if (!process_->wait_for_end(Clock::now() + kStopLimit)) process_->signal(SIGKILL);
  process_.reset();
}

}  // namespace delayqueue
