#include "support/node.h"

#include "embedded/private_folder.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

namespace test {
namespace {

using delayqueue::Launch;
using delayqueue::Process;
using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kStartLimit = 30s;
constexpr auto kWaitLimit = 60s;
constexpr auto kAnswerLimit = 10s;

std::string on_path(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = ::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string file = folder + "/" + name;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

std::string server_program() {
  const char* named = ::getenv("DELAYQUEUE_REDIS_SERVER");
  if (named != nullptr && *named != '\0') return on_path(named);
  const std::string redis = on_path("redis-server");
  return redis.empty() ? on_path("valkey-server") : redis;
}

std::string quoted(const std::string& word) {
  std::string out = "\"";
  for (const char c : word) out += (c == '"' || c == '\\' ? "\\" : "") + std::string(1, c);
  return out + '"';
}

// Converts arguments to lines of a configuration file. Sentinels need a file, and rewrite it.
std::string as_lines(const std::vector<std::string>& arguments) {
  std::string out;
  for (const std::string& word : arguments) {
    const bool name = word.rfind("--", 0) == 0;
    out += name ? "\n" + word.substr(2) : " " + quoted(word);
  }
  return out + "\n";
}

std::string content(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

}  // namespace

Node::Node(NodeOptions options)
    : options_(std::move(options)), bus_port_(options_.cluster ? std::make_unique<const Port>() : nullptr) {
  std::ofstream(file("node.conf")) << as_lines(settings());
  start();
}

Node::~Node() {
  const std::lock_guard lock(mutex_);
  process_.reset();
}

std::vector<std::string> Node::settings() const {
  const std::string number = std::to_string(port());
  std::vector<std::string> words = {"--bind", "127.0.0.1", "--dir", dir_.file("."), "--unixsocket", dir_.file("s")};
  const auto add = [&words](const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
  };
  if (options_.tls) add({"--port", "0", "--tls-port", number});
  if (!options_.tls) add({"--port", number});
  if (!options_.sentinel) {
    add({"--save", "", "--appendonly", "no", "--enable-debug-command", "local"});
    add({"--repl-diskless-sync", "yes", "--repl-diskless-sync-delay", "0"});
  }
  if (options_.cluster) {
    add({"--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf"});
    add({"--cluster-port", std::to_string(bus_port())});
  }
  add(options_.arguments);
  return words;
}

void Node::start() {
  Launch launch;
  launch.words = {server_program(), file("node.conf")};
  if (options_.sentinel) launch.words.emplace_back("--sentinel");
  for (auto& word : launch.words) launch.argv.push_back(word.data());
  launch.argv.push_back(nullptr);
  launch.environment = delayqueue::server_environment(launch.variables);
  const delayqueue::Descriptor folder = delayqueue::open_private_folder(file("."));
  launch.folder = folder.get();
  launch.parent = ::getpid();
  process_ = std::make_unique<Process>(launch);
  for (const auto deadline = Clock::now() + kStartLimit; Clock::now() < deadline;) {
    if (running_ = answers(); running_) return;
    if (process_->wait_for_end(Clock::now() + 2ms)) break;
  }
  const std::string outcome = process_->outcome();
  process_.reset();
  throw std::runtime_error("redis-server '" + launch.words[0] + "' " + outcome + ": " + content(file("log")));
}

bool Node::answers() const {
  try {
    return cmd({"PING"}).text.rfind("LOADING", 0) != 0;
  } catch (const std::runtime_error&) {
    return false;
  }
}

void Node::kill() {
  const std::lock_guard lock(mutex_);
  running_ = false;
  process_.reset();
}

void Node::freeze() {
  const std::lock_guard lock(mutex_);
  running_ = false;
  if (process_) process_->signal(SIGSTOP);
}

void Node::thaw() {
  const std::lock_guard lock(mutex_);
  if (process_) process_->signal(SIGCONT);
  running_ = process_ != nullptr;
}

void Node::restart() {
  const std::lock_guard lock(mutex_);
  running_ = false;
  process_.reset();
  start();
}

int Node::pid() const {
  const std::lock_guard lock(mutex_);
  return process_ ? process_->pid() : -1;
}

std::string Node::address() const { return "127.0.0.1:" + std::to_string(port()); }
std::string Node::url() const { return (options_.tls ? "rediss://" : "redis://") + address(); }

Reply Node::cmd(const std::vector<std::string>& words) const {
  return Redis(file("s"), {kAnswerLimit, options_.login}).cmd(words);
}

std::string Node::info(const std::string& field) const {
  std::istringstream lines(cmd({"INFO"}).text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.rfind(field + ":", 0) == 0) return line.substr(field.size() + 1);
  }
  return {};
}

Reply must(const Node& node, const std::vector<std::string>& words) {
  Reply reply = node.cmd(words);
  if (!reply.error()) return reply;
  std::string command;
  for (const std::string& word : words) command += word + " ";
  throw std::runtime_error(node.address() + ": " + command + ": " + reply.text);
}

void wait_until(const std::string& what, const std::function<bool()>& condition) {
  for (const auto deadline = Clock::now() + kWaitLimit; Clock::now() < deadline;) {
    try {
      if (condition()) return;
    } catch (const std::runtime_error&) {  // a node may be down for now
    }
    std::this_thread::sleep_for(10ms);
  }
  throw std::runtime_error(what + ": not within " + std::to_string(kWaitLimit.count()) + " s");
}

}  // namespace test
