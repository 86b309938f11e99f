#include <delayqueue/private_server.h>

#include "embedded/folder_server.h"

#include <signal.h>

#include <cstring>
#include <utility>

namespace delayqueue {

class PrivateServer::Impl : public FolderServer {
 public:
  using FolderServer::FolderServer;
};

namespace {

template <class Impl>
Impl* there(const std::unique_ptr<Impl>& impl) {
  if (impl == nullptr) throw std::logic_error("PrivateServer: used after it was moved from");
  return impl.get();
}

}  // namespace

PrivateServer::PrivateServer(PrivateServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
PrivateServer::~PrivateServer() = default;
PrivateServer::PrivateServer(PrivateServer&&) noexcept = default;
PrivateServer& PrivateServer::operator=(PrivateServer&&) noexcept = default;

std::string PrivateServer::url() const {
  std::string url = "unix://";
  for (const char c : there(impl_)->socket()) {
    constexpr char kHex[] = "0123456789ABCDEF";
    const auto byte = static_cast<unsigned char>(c);
    const bool plain_char = byte > ' ' && byte < 0x7f && std::strchr("%?#@", c) == nullptr;
    url += plain_char ? std::string(1, c) : std::string{'%', kHex[byte >> 4], kHex[byte & 15]};
  }
  return url;
}
std::string PrivateServer::socket() const { return there(impl_)->socket(); }
std::string PrivateServer::folder() const { return there(impl_)->folder(); }
int PrivateServer::pid() const { return there(impl_)->pid(); }

void PrivateServer::stop() { there(impl_)->stop(); }
void PrivateServer::kill() { there(impl_)->end(SIGKILL); }

void PrivateServer::restart() {
  there(impl_)->end(SIGKILL);
  there(impl_)->start();
}

}  // namespace delayqueue
