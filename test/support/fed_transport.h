// A transport that plays a server: it returns prepared bytes.
#pragma once

#include "redis/socket.h"
#include "support/standard.h"

namespace test {

// Reads return what `next` returns; writes are ignored. An empty result of `next` closes the connection.
class FedTransport : public delayqueue::redis::Transport {
 public:
  using Next = std::function<std::string_view(std::size_t most)>;

  explicit FedTransport(Next next) : next_(std::move(next)) {}

  void write(const std::vector<std::string_view>&, delayqueue::redis::Patience&) override {}

  std::size_t read(char* to, std::size_t size, delayqueue::redis::Patience& patience) override {
    const std::string_view bytes = next_(size);
    if (bytes.empty()) throw delayqueue::ConnectionError("the server closed the connection");
    patience.moved(bytes.size());
    return bytes.copy(to, size);
  }

  int fd() const override { return -1; }
  bool readable(delayqueue::redis::Deadline) override { return true; }

 private:
  const Next next_;
};

// Returns `bytes` in pieces of at most `piece` bytes.
inline FedTransport::Next in_pieces(std::string_view bytes, std::size_t piece) {
  return [bytes, piece](std::size_t most) mutable {
    const std::string_view part = bytes.substr(0, std::min(piece, most));
    bytes.remove_prefix(part.size());
    return part;
  };
}

}  // namespace test
