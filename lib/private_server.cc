#include <delayqueue/private_server.h>

#include "server_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

namespace delayqueue {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kStopLimit{5'000};  // after SIGTERM, until SIGKILL
constexpr char kTemporaryName[] = "delayqueue-";

[[noreturn]] void fail(const std::string& text) { throw std::runtime_error("private server: " + text); }

enum class Answer { none, loading, pong };

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

Descriptor connected(const std::string& path) {
  Descriptor link(::socket(AF_UNIX, SOCK_STREAM, 0));
  ::fcntl(link.get(), F_SETFD, FD_CLOEXEC);
  const auto address = address_of(path);
  const auto* raw = reinterpret_cast<const sockaddr*>(&address);
  if (link.get() < 0 || ::connect(link.get(), raw, sizeof address) != 0) return Descriptor();
  return link;
}

Answer ping(const std::string& path, Clock::time_point deadline) {
  const Descriptor link = connected(path);
  if (link.get() < 0) return Answer::none;
  int flags = 0;
#ifdef MSG_NOSIGNAL
  flags = MSG_NOSIGNAL;
#else
  const int on = 1;
  ::setsockopt(link.get(), SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
  if (::send(link.get(), "PING\r\n", 6, flags) != 6) return Answer::none;
  pollfd waiting{link.get(), POLLIN, 0};
  if (::poll(&waiting, 1, milliseconds_until(deadline)) <= 0) return Answer::none;
  char text[64];
  const auto size = ::read(link.get(), text, sizeof text);
  const std::string_view answer(text, size > 0 ? static_cast<std::size_t>(size) : 0);
  if (answer.substr(0, 8) == "-LOADING") return Answer::loading;
  const bool up = answer.substr(0, 5) == "+PONG" || answer.substr(0, 7) == "-NOAUTH";
  return up ? Answer::pong : Answer::none;
}

std::string find_program(const std::string& asked) {
  const char* named = std::getenv("DELAYQUEUE_REDIS_SERVER");
  const char* path = std::getenv("PATH");
  std::vector<std::string> names{"redis-server", "valkey-server"};
  if (named != nullptr && *named != '\0') names = {named};
  if (!asked.empty()) names = {asked};
  for (const auto& name : names) {
    if (name.find('/') != std::string::npos) return name;
    std::istringstream folders(path != nullptr ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
      const auto file = fs::path(folder) / name;
      std::error_code ignored;
      if (fs::is_regular_file(file, ignored) && ::access(file.c_str(), X_OK) == 0) return file.string();
    }
  }
  fail((names.size() == 1 ? names[0] + " is not" : "neither redis-server nor valkey-server is") +
       " on PATH; install redis-server or valkey-server, or set DELAYQUEUE_REDIS_SERVER to the program");
}

// The lock on a temporary folder itself says that its owner lives, where the pid in its name cannot: another container
// may share the folder above.
Descriptor locked_folder(const fs::path& folder) {
  Descriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat facts {};
  const bool ours = opened.get() >= 0 && ::fstat(opened.get(), &facts) == 0 && facts.st_uid == ::geteuid();
  return ours && ::flock(opened.get(), LOCK_EX | LOCK_NB) == 0 ? std::move(opened) : Descriptor();
}

bool process_ended(const std::string& name) {
  const auto digits = name.substr(std::strlen(kTemporaryName), name.rfind('-') - std::strlen(kTemporaryName));
  const bool number =
      !digits.empty() && digits.size() < 10 && digits.find_first_not_of("0123456789") == std::string::npos;
  return number && ::kill(std::stoi(digits), 0) != 0 && errno == ESRCH;
}

// A process that was killed leaves its folder behind.
void sweep(const fs::path& above) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(above, fs::directory_options::skip_permission_denied, ignored)) {
    const auto name = entry.path().filename().string();
    const bool ours = name.rfind(kTemporaryName, 0) == 0 && name.rfind('-') >= std::strlen(kTemporaryName);
    if (!ours || !process_ended(name)) continue;
    const Descriptor owner = locked_folder(entry.path());
    if (owner.get() >= 0) fs::remove_all(entry.path(), ignored);
  }
}

fs::path make_temporary() {
  std::error_code error;
  auto above = fs::temp_directory_path(error);
  if (error) above = "/tmp";
  sweep(above);
  std::string name = (above / (kTemporaryName + std::to_string(::getpid()) + "-XXXXXX")).string();
  if (::mkdtemp(name.data()) == nullptr) fail(name + ": cannot be made: " + reason(errno));
  return name;
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder.parent_path(), error);
  const bool made = ::mkdir(folder.c_str(), 0700) == 0;
  const int why = errno;
  if (!made && !fs::is_directory(folder, error)) fail(folder.string() + ": cannot be made: " + reason(why));
}

fs::path plain(const std::string& folder) {
  auto path = fs::absolute(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

std::string last_lines(const fs::path& log) {
  constexpr std::size_t kMost = 1'500;
  std::ifstream file(log, std::ios::binary);
  file.seekg(0, std::ios::end);
  const auto size = static_cast<std::size_t>(std::max<std::streamoff>(file.tellg(), 0));
  std::string text(std::min(size, kMost), '\0');
  file.seekg(static_cast<std::streamoff>(size - text.size()));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (size > kMost) text.erase(0, text.find('\n') + 1);
  return text.empty() ? "; it wrote nothing" : "; it wrote:\n" + text;
}

}  // namespace

class PrivateServer::Impl {
 public:
  explicit Impl(PrivateServerOptions options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  void start();
  void end(int first_signal);

  // A process forked from the one that made this object has a copy of it, and no say.
  bool owned() const { return owner_ == ::getpid(); }
  int pid() const { return owned() && process_ ? process_->pid() : -1; }
  std::string socket() const { return (folder_ / "s").string(); }
  std::string folder() const { return folder_.string(); }

 private:
  Launch launch() const;
  void take_folder(Clock::time_point deadline);
  void await_answer(Clock::time_point deadline);
  [[noreturn]] void give_up(const std::string& how);

  const PrivateServerOptions options_;
  const pid_t owner_ = ::getpid();
  const std::string program_;
  fs::path folder_;
  Descriptor folder_lock_;  // of a temporary folder
  std::unique_ptr<Process> process_;
};

PrivateServer::Impl::Impl(PrivateServerOptions options)
    : options_(std::move(options)), program_(find_program(options_.program)) {
  const bool temporary = options_.folder.empty();
  folder_ = temporary ? make_temporary() : plain(options_.folder);
  if (temporary) folder_lock_ = locked_folder(folder_);
  const bool too_long = socket().size() > sizeof(sockaddr_un::sun_path) - 1;
  if (too_long && temporary) ::rmdir(folder_.c_str());
  if (too_long) {
    throw std::invalid_argument("folder: " + folder() + ": the path of its socket is longer than " +
                                std::to_string(sizeof(sockaddr_un::sun_path) - 1) + " bytes");
  }
  try {
    start();
  } catch (...) {
    std::error_code ignored;
    if (temporary) fs::remove_all(folder_, ignored);
    throw;
  }
}

PrivateServer::Impl::~Impl() {
  if (!owned()) {
    // Its thread does not exist here, and the server is not ours to stop: kept for ever, where leak checkers find it.
    static auto* const copies = std::make_unique<std::vector<std::unique_ptr<Process>>>().release();
    copies->push_back(std::move(process_));
    return;
  }
  const bool temporary = options_.folder.empty();
  end(temporary ? SIGKILL : SIGTERM);
  std::error_code ignored;
  if (temporary) fs::remove_all(folder_, ignored);
}

Launch PrivateServer::Impl::launch() const {
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
  result.lock = (folder_ / "lock").string();
  result.log = (folder_ / "log").string();
  result.parent = owner_;
  return result;
}

void PrivateServer::Impl::start() {
  if (!owned()) fail("only the process that made it can start it");
  const auto deadline = Clock::now() + options_.start_timeout;
  make_folder(folder_);
  take_folder(deadline);
  await_answer(deadline);
}

// Returns with a child that holds the folder's lock. A lock without a socket is a server that is about to end, or to
// begin: the next look will tell.
void PrivateServer::Impl::take_folder(Clock::time_point deadline) {
  for (;;) {
    process_.reset();
    const auto made = launch();
    process_ = std::make_unique<Process>(made);
    const auto report = process_->report(deadline);
    if (report.stage == LaunchReport::locked) return;
    if (report.stage == LaunchReport::none) process_->ended_by(deadline);
    if (report.stage == LaunchReport::none) give_up(process_->fate());
    const bool busy = report.stage == LaunchReport::no_lock && report.error == EWOULDBLOCK;
    if (!busy) give_up("cannot write in " + folder() + ": " + reason(report.error));
    if (connected(socket()).get() >= 0 || Clock::now() >= deadline) {
      process_.reset();
      fail(folder() + ": another server runs in this folder");
    }
    std::this_thread::sleep_for(milliseconds(10));
  }
}

void PrivateServer::Impl::await_answer(Clock::time_point deadline) {
  std::chrono::microseconds pause(500);
  for (auto limit = deadline; Clock::now() < limit;) {
    const auto answer = ping(socket(), limit);
    if (answer == Answer::pong && pid() > 0) return;
    if (answer == Answer::loading) limit = Clock::now() + options_.start_timeout;  // busy with its data, and alive
    if (process_->ended_by(Clock::now() + pause)) break;
    pause = std::min<std::chrono::microseconds>(pause * 2, milliseconds(20));
  }
  const bool ended = process_->ended_by(Clock::now());
  const auto report = ended ? process_->report(Clock::now()) : LaunchReport{};
  if (report.stage == LaunchReport::no_exec) give_up("cannot be run: " + reason(report.error));
  give_up(process_->fate() + last_lines(folder_ / "log"));
}

void PrivateServer::Impl::give_up(const std::string& how) {
  process_.reset();
  fail(program_ + " " + how);
}

void PrivateServer::Impl::end(int first_signal) {
  if (!owned() || !process_) return;
  process_->signal(first_signal);
  if (!process_->ended_by(Clock::now() + kStopLimit)) process_->signal(SIGKILL);
  process_.reset();
}

PrivateServer::PrivateServer(PrivateServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
PrivateServer::~PrivateServer() = default;
PrivateServer::PrivateServer(PrivateServer&&) noexcept = default;
PrivateServer& PrivateServer::operator=(PrivateServer&&) noexcept = default;

std::string PrivateServer::url() const {
  std::string url = "unix://";
  for (const char c : impl_->socket()) {
    constexpr char kHex[] = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    const bool plain_char = byte > ' ' && byte < 0x7f && std::strchr("%?#@", c) == nullptr;
    url += plain_char ? std::string(1, c) : std::string{'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return url;
}
std::string PrivateServer::socket() const { return impl_->socket(); }
std::string PrivateServer::folder() const { return impl_->folder(); }
int PrivateServer::pid() const { return impl_->pid(); }

void PrivateServer::stop() { impl_->end(SIGTERM); }
void PrivateServer::kill() { impl_->end(SIGKILL); }

void PrivateServer::restart() {
  impl_->end(SIGKILL);
  impl_->start();
}

}  // namespace delayqueue
