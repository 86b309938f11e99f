#include "support/scripted_server.h"

#include <sys/socket.h>
#include <unistd.h>

namespace test {
namespace {

// Removes a command from the front of `bytes` and returns its words. Returns nothing if the command is incomplete.
std::optional<std::vector<std::string>> take_command(std::string& bytes) {
  std::string_view rest = bytes;
  const auto number = [&](char sign) -> std::optional<std::size_t> {
    const std::size_t end = rest.find("\r\n");
    if (end == rest.npos || rest.front() != sign) return std::nullopt;
    const std::string digits(rest.substr(1, end - 1));
    rest.remove_prefix(end + 2);
    return std::strtoul(digits.c_str(), nullptr, 10);
  };
  const auto count = number('*');
  if (!count) return std::nullopt;
  std::vector<std::string> words;
  for (std::size_t i = 0; i < *count; ++i) {
    const auto size = number('$');
    if (!size || rest.size() < *size + 2) return std::nullopt;
    words.emplace_back(rest.substr(0, *size));
    rest.remove_prefix(*size + 2);
  }
  bytes.erase(0, bytes.size() - rest.size());
  return words;
}

}  // namespace

ScriptedServer::ScriptedServer(Answer answer)
    : answer_(std::move(answer)), listening_(listen_on(port_)), thread_([this] { run(); }) {}

ScriptedServer::~ScriptedServer() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
    for (const auto& link : links_) ::shutdown(link.get(), SHUT_RDWR);
  }
  ::shutdown(listening_.get(), SHUT_RDWR);
  thread_.join();
  for (std::thread& thread : threads_) thread.join();
}

void ScriptedServer::run() {
  for (;;) {
    delayqueue::Descriptor link(::accept(listening_.get(), nullptr, nullptr));
    const std::lock_guard lock(mutex_);
    if (ended_ || link.get() < 0) return;
    const int fd = link.get();
    links_.push_back(std::move(link));
    threads_.emplace_back([this, fd] { serve(fd); });
  }
}

void ScriptedServer::serve(int fd) {
  std::string bytes;
  char some[4096];
  for (ssize_t n = 0; (n = ::read(fd, some, sizeof some)) > 0;) {
    bytes.append(some, static_cast<std::size_t>(n));
    while (const auto words = take_command(bytes)) {
      std::string answer;
      {
        const std::lock_guard lock(mutex_);
        answer = answer_(*words);
      }
      if (::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) return;
    }
  }
}

std::string bulk(const std::string& text) { return "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n"; }

std::string array(const std::vector<std::string>& elements) {
  std::string all = "*" + std::to_string(elements.size()) + "\r\n";
  for (const std::string& element : elements) all += element;
  return all;
}

std::string hello(const std::string& version) { return array({bulk("version"), bulk(version)}); }

}  // namespace test
