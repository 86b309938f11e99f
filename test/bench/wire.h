// A raw unix socket: requests are prepared bytes, and the sizes of the answers are known.
#pragma once

#include "embedded/server_process.h"
#include "support/standard.h"

namespace bench {

class Wire {
 public:
  explicit Wire(const std::string& socket);  // all functions throw std::runtime_error on errors

  void write(std::string_view bytes);
  std::string_view read(std::size_t size);  // reads exactly `size` bytes; valid until the next read
  std::string_view read_some();             // at least one byte; valid until the next read

 private:
  std::size_t receive(char* to, std::size_t most);

  delayqueue::Descriptor link_;
  std::vector<char> buffer_;
};

// A blocking socket that is connected to this path. Throws std::runtime_error.
delayqueue::Descriptor connect_to(const std::string& socket);

// Appends a command in RESP.
void append(std::string& out, const std::vector<std::string_view>& words);

}  // namespace bench
