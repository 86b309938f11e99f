#include "testing/server_link.h"

#include <delayqueue/error.h>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <system_error>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {
namespace testing {

ServerLink::Reply ServerLink::call(const std::vector<std::string>& words) {
  std::string request = "*" + std::to_string(words.size()) + "\r\n";
  for (const std::string& word : words) request += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
  if (connection_.get() >= 0) {
    try {
      send(request);
      return read_reply();
    } catch (const ConnectionError&) {  // perhaps the server was restarted; each command here may be repeated
    }
  }
  connect();
  send(request);
  return read_reply();
}

void ServerLink::connect() {
  connection_ = above_standard(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_.copy(address.sun_path, sizeof address.sun_path - 1);
  const auto* raw = reinterpret_cast<const sockaddr*>(&address);
  if (connection_.get() < 0 || ::connect(connection_.get(), raw, sizeof address) != 0) fail("connect");
  timeval patience{};
  patience.tv_sec = 10;  // no command here takes long
  ::setsockopt(connection_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
}

void ServerLink::send(const std::string& request) {
  int flags = 0;
#ifdef MSG_NOSIGNAL
  flags = MSG_NOSIGNAL;
#endif
  for (std::size_t sent = 0; sent < request.size();) {
    const ssize_t count = ::send(connection_.get(), request.data() + sent, request.size() - sent, flags);
    if (count < 0 && errno != EINTR) fail("send a command");
    if (count > 0) sent += static_cast<std::size_t>(count);
  }
}

ServerLink::Reply ServerLink::read_reply() {
  const std::string line = read_line();
  const std::string rest = line.substr(std::min<std::size_t>(line.size(), 1));
  const long size = std::strtol(rest.c_str(), nullptr, 10);
  Reply reply;
  switch (line[0]) {
    case '-':
      throw ReplyError("the server of the Sandbox refused a command: " + rest);
    case '$':
      if (size < 0) return reply;
      while (buffer_.size() < static_cast<std::size_t>(size) + 2) read_more();
      reply.text = buffer_.substr(0, static_cast<std::size_t>(size));
      buffer_.erase(0, static_cast<std::size_t>(size) + 2);
      return reply;
    case '*':
      for (long i = 0; i < size; ++i) reply.elements.push_back(read_reply());
      return reply;
    default:
      reply.text = rest;
      return reply;
  }
}

std::string ServerLink::read_line() {
  std::size_t end;
  while ((end = buffer_.find("\r\n")) == std::string::npos) read_more();
  std::string line = buffer_.substr(0, end);
  buffer_.erase(0, end + 2);
  return line;
}

void ServerLink::read_more() {
  char text[4096];
  ssize_t count;
  do {
    count = ::recv(connection_.get(), text, sizeof text, 0);
  } while (count < 0 && errno == EINTR);
  if (count <= 0) fail("receive a reply");
  buffer_.append(text, static_cast<std::size_t>(count));
}

void ServerLink::fail(const std::string& doing) {
  const std::string reason = std::generic_category().message(errno);
  connection_ = Descriptor();
  buffer_.clear();
  throw ConnectionError("cannot " + doing + " (unix:" + socket_ + "): " + reason +
                        "; if the server of the Sandbox was killed or stopped, call server().restart()");
}

}  // namespace testing
}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
