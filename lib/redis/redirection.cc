#include "redis/connection.h"

#include <charconv>

namespace delayqueue::redis {
namespace {

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = !text.empty() && error == std::errc() && stop == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

}  // namespace

// "MOVED 3999 127.0.0.1:6381", "ASK 3999 node.example:6381", "MOVED 3999 :6381", "MOVED 3999 ::1:6381"
std::optional<Redirection> Redirection::read(std::string_view error, const Address& from) {
  Redirection to;
  to.ask = error.substr(0, 4) == "ASK ";
  if (!to.ask && error.substr(0, 6) != "MOVED ") return std::nullopt;
  error.remove_prefix(to.ask ? 4 : 6);
  const std::size_t space = error.find(' ');
  const std::size_t colon = error.rfind(':');
  if (space == error.npos || colon == error.npos || colon < space) return std::nullopt;
  const auto slot = number(error.substr(0, space));
  const auto port = number(error.substr(colon + 1));
  if (!slot || !port || *port < 1 || *port > 65535) return std::nullopt;
  to.slot = *slot;
  to.address = from;
  to.address.port = *port;
  const std::string_view host = error.substr(space + 1, colon - space - 1);
  if (!host.empty() && host != "?") to.address.host = host;  // "?": the node has no host name configured
  return to;
}

}  // namespace delayqueue::redis
