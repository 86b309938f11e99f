#include "bench/wire.h"

#include <sys/socket.h>
#include <sys/un.h>

#include "os/resources.h"
#include "redis/resp.h"

namespace bench {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + (errno != 0 ? delayqueue::reason(errno) : "closed"));
}

}  // namespace

delayqueue::Descriptor connect_to(const std::string& socket) {
  delayqueue::Descriptor link(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket.copy(address.sun_path, sizeof address.sun_path - 1);
  const auto* raw = reinterpret_cast<const sockaddr*>(&address);
  if (link.get() < 0 || ::connect(link.get(), raw, sizeof address) != 0) fail(socket);
  return link;
}

Wire::Wire(const std::string& socket) : link_(connect_to(socket)), buffer_(64 * 1024) {}

void Wire::write(std::string_view bytes) {
  while (!bytes.empty()) {
    errno = 0;
    const auto sent = ::send(link_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) fail("write to Redis");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::string_view Wire::read(std::size_t size) {
  if (buffer_.size() < size) buffer_.resize(size);
  for (std::size_t got = 0; got < size;) got += receive(buffer_.data() + got, size - got);
  return {buffer_.data(), size};
}

std::string_view Wire::read_some() { return {buffer_.data(), receive(buffer_.data(), buffer_.size())}; }

std::size_t Wire::receive(char* to, std::size_t most) {
  errno = 0;
  const auto got = ::recv(link_.get(), to, most, 0);
  if (got <= 0) fail("read from Redis");
  return static_cast<std::size_t>(got);
}

void append(std::string& out, const std::vector<std::string_view>& words) {
  delayqueue::redis::append_head(out, '*', words.size());
  for (const std::string_view word : words) delayqueue::redis::append_word(out, word);
}

}  // namespace bench
