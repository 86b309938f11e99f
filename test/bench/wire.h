// A unix socket, and nothing between it and its user: requests are bytes made beforehand, answers are as long as known.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "embedded/server_process.h"

namespace bench {

class Wire {
 public:
  explicit Wire(const std::string& socket);  // throws std::runtime_error, as all here

  void write(std::string_view bytes);
  std::string_view read(std::size_t size);  // all of it; valid until the next
  std::string_view read_some();             // at least a byte; valid until the next

 private:
  std::size_t receive(char* to, std::size_t most);

  delayqueue::Descriptor link_;
  std::vector<char> buffer_;
};

// One command in RESP.
void append(std::string& out, const std::vector<std::string_view>& words);

}  // namespace bench
